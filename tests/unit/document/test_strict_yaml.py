"""Strict YAML: the parser in C and the one in Python give the same documents and refuse the same texts."""

from typing import Any

import pytest
import yaml

from bigfleet.document.strict_yaml import MAX_DEPTH, load_strict_yaml

DOCUMENTS = [
    "",
    "a: 1\nb: [yes, 0x1F, 0o17, 1e3, .inf, ~, 2026-11-18]\n",
    "a: \"\\u00e9\\n\"\nb: 'it''s'\nc: |\n  two\n  lines\nd: >-\n  folded\n  text\n",
    "base: &base {cpu: 8}\nmore:\n  <<: *base\n  memory: 1Gi\n",
    "- {id: m-1, labels: {a/b: c}}\n- {id: m-2}\n",
    "{a: 1, a: 2}",
    "a: 1\nb: 2\na: 3\n",
    "a: {b: 1, 'b': 2}",
    "? [1, 2]\n: x\n",
    "a: !!python/object/apply:os.system [id]",
    "a: *missing",
    "a: 1\n---\nb: 2\n",
    "a: [1, 2",
    "a:\t1\n\tb: 2",
    "a: \x00",
    "a: b: c",
    "%YAML 3.0\n---\na: 1\n",
]


LOADERS: list[Any] = [  # Any: the two have no common base that both know
    yaml.SafeLoader,
    yaml.CSafeLoader,
]


def read(text: str, loader: type[yaml.SafeLoader]) -> str:
    """Return what a text means, or that it is refused."""
    try:
        return repr(load_strict_yaml(text, loader))
    except yaml.YAMLError:
        return "refused"


@pytest.mark.parametrize("text", DOCUMENTS, ids=repr)
def test_both_parsers_read_the_same(text: str) -> None:
    first, second = (read(text, loader) for loader in LOADERS)
    assert first == second


@pytest.mark.parametrize("loader", LOADERS)
def test_a_key_given_twice_is_named(loader: type[yaml.SafeLoader]) -> None:
    for text in ("a: 1\nb: 2\na: 3\n", "x: [{a: 1, a: 2}]", "{1: x, '1': y, a: 1, a: 2}"):
        with pytest.raises(yaml.YAMLError, match=r"key (a|1) is given twice"):
            load_strict_yaml(text, loader)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", ["[" * 200_000, "{a: " * 200_000, "- " * 1_000 + "a"], ids=["[", "{", "-"])
def test_nesting_without_end_is_refused_and_ends_no_process(text: str, loader: type[yaml.SafeLoader]) -> None:
    with pytest.raises(yaml.YAMLError, match=f"nested more than {MAX_DEPTH} levels deep"):
        load_strict_yaml(text, loader)
    assert load_strict_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, loader)


def test_the_parser_in_c_is_used_where_there_is_one() -> None:
    assert yaml.CSafeLoader in load_strict_yaml.__defaults__  # type: ignore[operator]  # it has one default
