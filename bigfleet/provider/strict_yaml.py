"""YAML that refuses a key given twice, where plain YAML lets the last one win, and nesting that no document needs.

Why: the parser in C takes a fifth of the time of the one in Python, which was most of the start of a provider with thousands
of machines. It builds a document by recursion without a limit, so a deep one would end the process; depth is checked first.
Where PyYAML was built without it, the parser in Python gives the same documents.
"""

from collections.abc import Hashable
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 100

_FASTEST: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING: Final = frozenset({yaml.MappingStartEvent, yaml.SequenceStartEvent})
_CLOSING: Final = frozenset({yaml.MappingEndEvent, yaml.SequenceEndEvent})


def load_strict_yaml(text: str | bytes, loader: type[yaml.SafeLoader] = _FASTEST) -> object:
    """Read one YAML document; `yaml.YAMLError` if it is invalid, too deep, or has a key twice."""
    _check_depth(text, loader)
    document: object = yaml.load(text, Loader=_strict(loader))  # noqa: S506  a SafeLoader by descent
    return document


def _strict(loader: type[yaml.SafeLoader]) -> type[yaml.SafeLoader]:
    def construct_mapping(
        self: yaml.SafeLoader, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            text = str(key.value)
            if text in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {text} is given twice", node.start_mark
                )
            seen.add(text)
        return loader.construct_mapping(self, node, deep=deep)

    return type("StrictLoader", (loader,), {"construct_mapping": construct_mapping})


def _check_depth(text: str | bytes, loader: type[yaml.SafeLoader]) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        kind = type(event)
        if kind in _OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                where = event.start_mark
                raise yaml.YAMLError(
                    f"line {where.line + 1}, column {where.column + 1}: nested more than {MAX_DEPTH} levels deep"
                )
        elif kind in _CLOSING:
            depth -= 1
