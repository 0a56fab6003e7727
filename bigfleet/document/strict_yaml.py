"""YAML without the traps of YAML, for every file in that form that BigFleet reads.

Why: plain YAML lets the last of two equal keys win, unfolds a few hundred bytes of aliases into gigabytes, builds any depth by
recursion, which ends the process, and raises other errors than its own for a date or a number that is none.
The parser in C takes a fifth of the time of the one in Python, which was most of the start of a provider with thousands of
machines. Where PyYAML was built without it, the parser in Python gives the same documents.
Must never: raise anything but `yaml.YAMLError`, do more work than the length of the text allows for, or show more of a text
than its place and a few words.
Rules: `packaging#given-files`.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Final, NoReturn

import yaml

MAX_DEPTH: Final = 100
# Python itself makes no integer of more digits; reading sixties (`1:30`) of that length still costs nothing.
MOST_DIGITS: Final = 4300

_FASTEST: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING: Final = frozenset({yaml.MappingStartEvent, yaml.SequenceStartEvent})
_CLOSING: Final = frozenset({yaml.MappingEndEvent, yaml.SequenceEndEvent})
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_SHOWN: Final = 80
_STRICT: Final[dict[type[yaml.SafeLoader], type[yaml.SafeLoader]]] = {}
# What a constructor of PyYAML raises for a scalar that only looks like its kind, or that a tag calls so.
_NO_VALUE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


def load_strict_yaml(text: str | bytes, loader: type[yaml.SafeLoader] = _FASTEST) -> object:
    """Read one YAML document; `yaml.YAMLError` if it is invalid, too deep, has an alias, or has a key twice."""
    if loader not in _STRICT:
        _STRICT[loader] = _strict(loader)
    return load_checked(text, _STRICT[loader])


def load_checked(text: str | bytes, loader: type[yaml.SafeLoader]) -> object:
    """Read one YAML document with a loader that the caller has made strict; depth, aliases and tags are refused here."""
    try:
        _check_events(text, loader)
        document: object = yaml.load(text, Loader=loader)  # noqa: S506  a SafeLoader by descent
    except UnicodeError:
        raise yaml.YAMLError("text that cannot be encoded, allowed is UTF-8") from None
    except _NO_VALUE as error:
        raise yaml.YAMLError(f"a value that is not of its kind ({clipped(str(error))})") from None
    return document


def problem_of(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without a line of the text: it may hold a secret, and it may be long."""
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"{at}{clipped(' '.join(str(problem).split()))}"


def clipped(text: str) -> str:
    """Return the beginning of a text that another party wrote, fit for one line."""
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return short if short.isprintable() else short.encode("unicode_escape").decode()


def refuse(problem: str, node: yaml.Node) -> NoReturn:
    """Refuse what a node says, at its place."""
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def with_constructors(
    loader: type[yaml.SafeLoader], methods: Mapping[str, Any], constructors: Mapping[str, Any]
) -> type[yaml.SafeLoader]:
    """Return a loader with methods and constructors of its own, dates being texts as everywhere in BigFleet."""
    # Any: the stubs of yaml ask for functions of its own loader, of which ours is a descendant.
    made: Any = type("StrictLoader", (loader,), dict(methods))
    for name, constructor in {"timestamp": loader.construct_yaml_str, **constructors}.items():
        made.add_constructor(f"{_TAG}{name}", constructor)
    loader_made: type[yaml.SafeLoader] = made
    return loader_made


def _strict(loader: type[yaml.SafeLoader]) -> type[yaml.SafeLoader]:
    def construct_mapping(
        self: yaml.SafeLoader, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                refuse("a merge key (<<), allowed are values that are written out", key)
            if not isinstance(key, yaml.ScalarNode):
                refuse("a key that is a mapping or a list, allowed is a text", key)
            if key.value in seen:
                refuse(f"key {clipped(key.value)} is given twice", node)
            seen.add(key.value)
        return loader.construct_mapping(self, node, deep=deep)

    def integer(self: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
        if len(node.value) > MOST_DIGITS:
            refuse(f"a number of {len(node.value)} digits, allowed are at most {MOST_DIGITS}", node)
        return int(self.construct_yaml_int(node))

    return with_constructors(loader, {"construct_mapping": construct_mapping}, {"int": integer})


def _check_events(text: str | bytes, loader: type[yaml.SafeLoader]) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        kind = type(event)
        if kind is yaml.AliasEvent:
            _refuse_at(event, "an alias, allowed are values that are written out")
        if getattr(event, "tag", None) is not None:
            _refuse_at(event, f"a tag ({clipped(event.tag)}), allowed are plain values")
        if kind in _OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                _refuse_at(event, f"nested more than {MAX_DEPTH} levels deep")
        elif kind in _CLOSING:
            depth -= 1


def _refuse_at(event: yaml.Event, problem: str) -> NoReturn:
    mark: Any = event.start_mark  # the stubs know two kinds of marks, which are alike
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
