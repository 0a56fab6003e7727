"""Changes that keep the form: bytes are read as a tree, changed at a few places, and written again.

Why: a change of bytes breaks the brackets and lengths around it, so that hardly any input gets past the parser of the form to
the code that judges what is in it.
Must never: draw anything itself. All randomness is an argument, so that one seed gives one input.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

import yaml

Scalar: TypeAlias = str | bytes | int | float | bool | None
Tree: TypeAlias = "Branch | Scalar"
Label: TypeAlias = str | int
"""Of a key or a field; in a list it says nothing."""
ChangeBytes = Callable[[bytes], bytes]

_NUMBERS: Final = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
_NUMERIC: Final = (0.1, -0.0, 1e308, float("inf"), float("nan"))
_TEXTS: Final = (
    *("", "0", "-1", "-5", "10Gi", "250m", "1e3", "1e999", "NaN", "9" * 30, "a" * 64, "a" * 300, "/", ".", "..", "a=b"),
    *("é", "\u202e", "\u2028", "\x00", "\n", "\ud800", "*", "null", "true", "2001-01-01T00:00:00Z"),
)  # fmt: skip
_ODD: Final[tuple[Scalar, ...]] = (*_NUMBERS, *_NUMERIC, *_TEXTS, None, True, False)
_DEEPEST: Final = 100
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FIELD_NUMBERS: Final = tuple(range(1, 25))


@dataclass(slots=True)
class Branch:
    """An object, a list or a message. A label may come twice, as it may in bytes."""

    kind: str
    children: list[tuple[Label, Tree]] = field(default_factory=list)

    def branches(self) -> Iterator["Branch"]:
        """This one and all inside it."""
        yield self
        for _, child in self.children:
            if isinstance(child, Branch):
                yield from child.branches()


@dataclass(frozen=True, slots=True)
class Form:
    """How a tree is read from bytes, with a `ValueError` for bytes of another form, and written."""

    read: Callable[[bytes], Branch]
    write: Callable[[Branch], bytes]


@dataclass(frozen=True, slots=True)
class Words:
    """What may be put into a tree: labels and values that the seeds have, and odd values."""

    labels: tuple[Label, ...]
    values: tuple[Tree, ...]


def words_of(form: Form, seeds: Iterable[bytes]) -> Words:
    """Collect them."""
    labels: dict[Label, None] = {}
    values: list[Tree] = []
    for data in seeds:
        try:
            tree = form.read(data)
        except ValueError:
            continue
        for branch in tree.branches():
            labels.update((label, None) for label, _ in branch.children)
            values += [child for _, child in branch.children]
    if form is WIRE:
        labels = dict.fromkeys(_FIELD_NUMBERS)
    return Words(tuple(labels), tuple(values))


def changed(data: bytes, form: Form, words: Words, random: Random, change_bytes: ChangeBytes) -> bytes:
    """Return the same tree with a few changes; bytes that are no tree of this form are changed as bytes."""
    try:
        tree = form.read(data)
    except ValueError:
        return change_bytes(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        _change(tree, words, random, change_bytes)
    return form.write(tree)


def _change(tree: Branch, words: Words, random: Random, change_bytes: ChangeBytes) -> None:
    branches = list(tree.branches())
    full = [branch for branch in branches if branch.children]
    if not full or random.random() < 0.15:
        random.choice(branches).children.append((_label(words, random), _value(branches, words, random)))
        return
    branch = random.choice(full)
    at = random.randrange(len(branch.children))
    label, child = branch.children[at]
    match random.randrange(8):
        case 0:
            del branch.children[at]
        case 1:
            copies = random.choice((1, 1, 1, 2, 30))
            branch.children[at:at] = [(label, deepcopy(child)) for _ in range(copies)]
        case 2:
            branch.children[at] = (_label(words, random), child)
        case 3:
            other = random.randrange(len(branch.children))
            branch.children[at], branch.children[other] = branch.children[other], branch.children[at]
        case 4 | 5:
            branch.children[at] = (label, _value(branches, words, random))
        case _:
            branch.children[at] = (label, _near(child, random, change_bytes))


def _label(words: Words, random: Random) -> Label:
    return random.choice(words.labels) if words.labels and random.random() < 0.95 else "x-odd"


def _value(branches: list[Branch], words: Words, random: Random) -> Tree:
    match random.randrange(4):
        case 0:
            return random.choice(_ODD)
        case 1 if words.values:
            return deepcopy(random.choice(words.values))
        case 2:
            return Branch(random.choice(branches).kind)
        case _:
            pool = random.choice(branches).children
            return deepcopy(random.choice(pool)[1]) if pool else random.choice(_ODD)


def _near(child: Tree, random: Random, change_bytes: ChangeBytes) -> Tree:
    """Return a value that is nearly this one."""
    match child:
        case bool() | None:
            return not child
        case int():
            return random.choice((child + 1, child - 1, -child, child * 1000, random.choice(_NUMBERS)))
        case float():
            return random.choice((child + 1, -child, child * 1e3, random.choice(_NUMERIC)))
        case str():
            return change_bytes(child.encode(errors="surrogatepass")).decode(errors="surrogateescape")
        case bytes():
            return change_bytes(child)
        case Branch():
            return Branch(child.kind, [("", child)] if child.kind == "list" else child.children[:1])


# Text.


def _read_json(data: bytes) -> Branch:
    try:
        return _branch(json.loads(data, object_pairs_hook=_object))
    except RecursionError:
        raise ValueError("too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> Branch:  # Any: what json makes
    return Branch("object", [(key, _tree(value)) for key, value in pairs])


def _read_yaml(data: bytes) -> Branch:
    if b"&" in data:
        raise ValueError("a few aliases can unfold into a tree without end")
    try:
        return _branch(yaml.load(data, _LOADER))  # noqa: S506 either is the safe one
    except (yaml.YAMLError, RecursionError, LookupError, AttributeError, TypeError):
        raise ValueError("not YAML that this reader knows") from None


def _branch(found: Any) -> Branch:  # Any: what a parser makes
    tree = _tree(found)
    if not isinstance(tree, Branch):
        raise ValueError("a scalar")
    return tree


def _tree(found: Any) -> Tree:  # Any: what a parser makes
    if isinstance(found, dict):
        return Branch("object", [(str(key), _tree(value)) for key, value in found.items()])
    if isinstance(found, list):
        return Branch("list", [("", _tree(value)) for value in found])
    return found if isinstance(found, Branch | str | int | float | None) else str(found)


def _write_text(tree: Branch) -> bytes:
    return _text(tree, 0).encode()


def _text(tree: Tree, depth: int) -> str:
    if isinstance(tree, bytes):
        return json.dumps(tree.decode(errors="replace"))
    if not isinstance(tree, Branch):
        return json.dumps(tree)
    if depth > _DEEPEST:
        return "0"
    if tree.kind == "list":
        return "[" + ", ".join(_text(child, depth + 1) for _, child in tree.children) + "]"
    parts = (f"{json.dumps(str(label))}: {_text(child, depth + 1)}" for label, child in tree.children)
    return "{" + ", ".join(parts) + "}"


# Protobuf, by its form alone: what fits as a message inside a message is taken for one.


def _read_wire(data: bytes, depth: int = 0) -> Branch:
    message, at = Branch("message"), 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 2**29:
            raise ValueError("no field number")
        value: Tree
        if kind == 0:
            value, at = _read_varint(data, at)
        elif kind == 1 and at + 8 <= len(data):
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif kind == 2:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ValueError("cut off")
            value, at = _inside(data[at : at + length], depth), at + length
        else:
            raise ValueError("a kind of field that we do not use")
        message.children.append((number, value))
    return message


def _inside(content: bytes, depth: int) -> Tree:
    if depth < _DEEPEST and content:
        try:
            return _read_wire(content, depth + 1)
        except ValueError:
            pass
    return content


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("no varint")


def _varint(value: int) -> bytes:
    value %= 2**64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_wire(message: Branch) -> bytes:
    out = bytearray()
    for label, child in message.children:
        number = label if isinstance(label, int) else 2**20
        match child:
            case float():
                out += _varint(number << 3 | 1) + struct.pack("<d", child)
            case int() | None:
                out += _varint(number << 3) + _varint(child or 0)
            case _:
                content = _content(child)
                out += _varint(number << 3 | 2) + _varint(len(content)) + content
    return bytes(out)


def _content(child: Branch | str | bytes) -> bytes:
    match child:
        case Branch():
            return _write_wire(child)
        case str():
            return child.encode(errors="surrogatepass")
        case bytes():
            return child


JSON: Final = Form(_read_json, _write_text)
YAML: Final = Form(_read_yaml, _write_text)
WIRE: Final = Form(_read_wire, _write_wire)
