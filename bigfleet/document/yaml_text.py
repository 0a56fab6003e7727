"""Reads YAML or JSON text into plain values, strictly.

Why: edits and simulation files are typed by hand, and YAML accepts much that the author did not mean: a repeated key, a date
where a name was meant, one alias that unfolds into a million objects.
Must never: judge a field. What is odd is marked as `bigfleet.document.parse` marks it and refused where it is met.
"""

from typing import Any, Final

import yaml

from bigfleet.document.errors import WHOLE, DocumentError, Unreadable
from bigfleet.document.parse import RepeatedKeys, parse_json
from bigfleet.document.strict_yaml import MOST_DIGITS, clipped, load_checked, refuse, with_constructors

_ALLOWED = "one YAML mapping or JSON object"
_BOM = "\ufeff"
_FASTEST: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_text(data: bytes | str) -> object:
    """Read one value; a text that begins with `{` is JSON, every other one YAML."""
    text = _decoded(data).removeprefix(_BOM)
    if text.lstrip().startswith("{"):
        return parse_json(text)
    try:
        value = load_checked(text, _LOADER)
    except yaml.MarkedYAMLError as error:
        raise _broken(error.problem or "no YAML", error.problem_mark) from None
    except yaml.YAMLError as error:
        raise DocumentError(WHOLE, f"broken YAML ({' '.join(str(error).split())})", _ALLOWED) from None
    if value is None:
        raise DocumentError(WHOLE, "nothing", _ALLOWED)
    return value


def _decoded(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise DocumentError(WHOLE, found, "UTF-8 text") from None


def _broken(problem: str, mark: yaml.Mark | None) -> DocumentError:
    at = "" if mark is None else f" at line {mark.line + 1} column {mark.column + 1}"
    return DocumentError(WHOLE, f"broken YAML{at} ({clipped(problem)})", _ALLOWED)


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, object]:
    pairs: list[tuple[str, object]] = []
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            refuse("a key that is no text; put it in quotes", key_node)
        pairs.append((key, loader.construct_object(value_node, deep=True)))
    made = dict(pairs)
    return made if len(made) == len(pairs) else RepeatedKeys(pairs)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | Unreadable:
    if len(node.value) > MOST_DIGITS:
        return Unreadable(f"a number of {len(node.value)} digits")
    return int(loader.construct_yaml_int(node))


# Any: the stubs of yaml ask for functions of its own loader.
_OWN: Final[dict[str, Any]] = {"map": _mapping, "int": _integer}
_LOADER: Final = with_constructors(_FASTEST, {}, _OWN)
