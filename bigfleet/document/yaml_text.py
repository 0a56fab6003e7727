"""Reads YAML or JSON text into plain values, strictly.

Why: edits and simulation files are typed by hand, and YAML accepts much that the author did not mean: a repeated key, a date
where a name was meant, one alias that unfolds into a million objects.
Must never: judge a field. What is odd is marked as `bigfleet.document.parse` marks it and refused where it is met.
"""

from typing import Any

import yaml

from bigfleet.document.errors import WHOLE, DocumentError, Unreadable
from bigfleet.document.parse import RepeatedKeys, parse_json

_ALLOWED = "one YAML mapping or JSON object"
_BOM = "\ufeff"
_TAG = "tag:yaml.org,2002:"


def parse_text(data: bytes | str) -> object:
    """Read one value; a text that begins with `{` is JSON, every other one YAML."""
    text = _decoded(data).removeprefix(_BOM)
    if text.lstrip().startswith("{"):
        return parse_json(text)
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader by descent
    except yaml.MarkedYAMLError as error:
        raise _broken(error.problem or "no YAML", error.problem_mark) from None
    except yaml.YAMLError as error:
        raise DocumentError(WHOLE, f"broken YAML ({' '.join(str(error).split())})", _ALLOWED) from None
    except RecursionError:
        raise DocumentError(WHOLE, "mappings or lists nested too deeply", _ALLOWED) from None
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
    return DocumentError(WHOLE, f"broken YAML{at} ({problem})", _ALLOWED)


class _Loader(yaml.SafeLoader):
    """YAML that knows texts, numbers, true, false, null, lists and mappings, and no short cuts between them."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.get_mark()
            raise yaml.composer.ComposerError(None, None, "an alias, which is not understood here", mark)
        return super().compose_node(parent, index)

    def mapping(self, node: yaml.MappingNode) -> dict[str, object]:
        pairs: list[tuple[str, object]] = []
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key that is no text; put it in quotes", key_node.start_mark
                )
            pairs.append((key, self.construct_object(value_node, deep=True)))
        made = dict(pairs)
        return made if len(made) == len(pairs) else RepeatedKeys(pairs)

    def integer(self, node: yaml.ScalarNode) -> int | Unreadable:
        try:
            return int(self.construct_yaml_int(node))
        except ValueError:
            return Unreadable(f"a number of {len(node.value)} digits")


# Any: the stubs of yaml ask for a function of its own loader, of which ours is a descendant.
_OWN: dict[str, Any] = {
    "map": _Loader.mapping,
    "int": _Loader.integer,
    "timestamp": _Loader.construct_yaml_str,  # a date is a text without its quotes
}
for _name, _constructor in _OWN.items():
    _Loader.add_constructor(f"{_TAG}{_name}", _constructor)
