"""How values print, compare and count in a template, as in Go.

Must never: escape anything; a machine gets what a template prints.
Rules: `operator#bootstrap`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TemplateRequirement:
    """A requirement in the context of a template."""

    Key: str
    Operator: str
    Values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """The dot at the top of a bootstrap template."""

    ClusterID: str
    Requirements: tuple[TemplateRequirement, ...] = ()
    MachineID: str = ""


Value = str | int | bool | None | TemplateRequirement | TemplateContext | tuple["Value", ...]


class UnfitValueError(Exception):
    """A function got an argument that it cannot use; the evaluator adds the line."""


def is_true(value: Value) -> bool:
    """Return whether a value counts as true."""
    return bool(value) if isinstance(value, str | int | tuple) else value is not None


def shown(value: Value) -> str:
    """Return a value as a template prints it."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case tuple():
            return f"[{' '.join(map(shown, value))}]"
        case TemplateRequirement():
            return f"{{{value.Key} {value.Operator} {shown(value.Values)}}}"
        case TemplateContext():
            return f"{{{value.ClusterID} {shown(value.Requirements)} {value.MachineID}}}"
    return str(value)


def field_of(value: Value, name: str) -> Value:
    """Return a field; UnfitValueError if the value does not have it."""
    if isinstance(value, TemplateRequirement | TemplateContext) and name in type(value).__dataclass_fields__:
        found: Value = getattr(value, name)
        return found
    raise UnfitValueError(f".{name}: not a field of {_kind(value)}")


def call(name: str, arguments: Sequence[Value]) -> Value:
    """Apply a function other than `and` and `or`, which do not evaluate all their arguments."""
    return _FUNCTIONS[name](arguments)


def _kind(value: Value) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return "a boolean"
        case int():
            return "a number"
        case str():
            return "a text"
        case tuple():
            return "a list"
        case TemplateRequirement():
            return "a requirement"
    return "the context"


def _need(name: str, arguments: Sequence[Value], number: int) -> None:
    if len(arguments) != number:
        raise UnfitValueError(f"{name}: found {len(arguments)} arguments, allowed is {number}")


def _equal(arguments: Sequence[Value]) -> Value:
    if len(arguments) < 2:
        raise UnfitValueError("eq: found fewer than 2 arguments")
    return any(_same("eq", arguments[0], other) for other in arguments[1:])


def _unequal(arguments: Sequence[Value]) -> Value:
    _need("ne", arguments, 2)
    return not _same("ne", arguments[0], arguments[1])


def _same(name: str, one: Value, other: Value) -> bool:
    if one is None or other is None:
        return one is other
    if not (isinstance(one, str | int) and isinstance(other, str | int)) or type(one) is not type(other):
        raise UnfitValueError(f"{name}: cannot compare {_kind(one)} with {_kind(other)}")
    return one == other


def _ordered(name: str, holds: Callable[[int], bool]) -> Callable[[Sequence[Value]], Value]:
    def compare(arguments: Sequence[Value]) -> Value:
        _need(name, arguments, 2)
        one, other = arguments
        if isinstance(one, str) and isinstance(other, str):
            a, b = one.encode(), other.encode()
            return holds((a > b) - (a < b))
        if type(one) is int and type(other) is int:
            return holds((one > other) - (one < other))
        raise UnfitValueError(f"{name}: cannot order {_kind(one)} and {_kind(other)}")

    return compare


def _length(arguments: Sequence[Value]) -> Value:
    _need("len", arguments, 1)
    if isinstance(arguments[0], str):
        return len(arguments[0].encode())
    if isinstance(arguments[0], tuple):
        return len(arguments[0])
    raise UnfitValueError(f"len: of {_kind(arguments[0])}")


def _index(arguments: Sequence[Value]) -> Value:
    if not arguments:
        raise UnfitValueError("index: of nothing")
    found, *places = arguments
    for place in places:
        if type(place) is not int:
            raise UnfitValueError(f"index: by {_kind(place)}")
        if not isinstance(found, tuple | str):
            raise UnfitValueError(f"index: of {_kind(found)}")
        items: Sequence[Value] = tuple(found.encode()) if isinstance(found, str) else found
        if not 0 <= place < len(items):
            raise UnfitValueError(f"index: {place} is out of range, there are {len(items)}")
        found = items[place]
    return found


def _print(arguments: Sequence[Value]) -> Value:
    parts = ""
    for place, value in enumerate(arguments):
        # Go puts a space between two operands when neither is a text.
        if place and not isinstance(value, str) and not isinstance(arguments[place - 1], str):
            parts += " "
        parts += _bare(value)
    return parts


def _println(arguments: Sequence[Value]) -> Value:
    return " ".join(map(_bare, arguments)) + "\n"


def _bare(value: Value) -> str:
    return "<nil>" if value is None else shown(value)


def _printf(arguments: Sequence[Value]) -> Value:
    if not arguments or not isinstance(arguments[0], str):
        raise UnfitValueError("printf: the format must be a text")
    form, left = arguments[0], list(arguments[1:])
    out, place = "", 0
    while (percent := form.find("%", place)) >= 0:
        out += form[place:percent]
        verb = form[percent + 1 : percent + 2]
        place = percent + 2
        if verb == "%":
            out += "%"
        elif verb not in ("s", "v", "d", "q"):
            raise UnfitValueError(f"printf: found %{verb}, allowed is one of %s %v %d %q %%")
        elif not left:
            raise UnfitValueError(f"printf: nothing left for %{verb}")
        else:
            out += _formatted(verb, left.pop(0))
    if left:
        raise UnfitValueError(f"printf: {len(left)} arguments too many")
    return out + form[place:]


def _formatted(verb: str, value: Value) -> str:
    if verb == "v":
        return _bare(value)
    if isinstance(value, tuple):
        return f"[{' '.join(_formatted(verb, entry) for entry in value)}]"
    if verb == "d" and type(value) is int:
        return str(value)
    if verb == "s" and isinstance(value, str):
        return value
    if verb == "q" and isinstance(value, str):
        return _quoted(value)
    raise UnfitValueError(f"printf: %{verb} of {_kind(value)}")


_NAMED_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quoted(text: str) -> str:
    return '"' + "".join(_NAMED_ESCAPES.get(sign) or _escaped(sign) for sign in text) + '"'


def _escaped(sign: str) -> str:
    if sign.isprintable():
        return sign
    code = ord(sign)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _not(arguments: Sequence[Value]) -> Value:
    _need("not", arguments, 1)
    return not is_true(arguments[0])


_FUNCTIONS: Final[dict[str, Callable[[Sequence[Value]], Value]]] = {
    "eq": _equal,
    "ne": _unequal,
    "lt": _ordered("lt", lambda sign: sign < 0),
    "le": _ordered("le", lambda sign: sign <= 0),
    "gt": _ordered("gt", lambda sign: sign > 0),
    "ge": _ordered("ge", lambda sign: sign >= 0),
    "not": _not,
    "len": _length,
    "index": _index,
    "print": _print,
    "println": _println,
    "printf": _printf,
}
