"""Strict YAML: the parser in C and the one in Python give the same documents and refuse the same texts."""

from typing import Any

import pytest
import yaml

from bigfleet.document.strict_yaml import MAX_DEPTH, load_strict_yaml, problem_of

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
    "a: \ud800",
    "a: \x1b[2J",
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


@pytest.mark.rule("packaging#given-files")
@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1\nb: *x\n", "line 2, column 4: an alias, allowed are values that are written out"),
        ("a:\n  <<: {b: 1}\n", "line 2, column 3: a merge key (<<), allowed are values that are written out"),
        ("a: !!int 3", "a tag (tag:yaml.org,2002:int), allowed are plain values"),
        ("a: !x 3", "a tag (!x), allowed are plain values"),
        ("? [1, 2]\n: x", "a key that is a mapping or a list, allowed is a text"),
        ("a: " + "9" * 5000, "line 1, column 4: a number of 5000 digits, allowed are at most 4300"),
        ("a: 0b_", "a value that is not of its kind"),
        ("? " + "k" * 500 + "\n: 1\n? " + "k" * 500 + "\n: 2\n", f"key {'k' * 75}"),
    ],
)
def test_each_trap_is_refused_with_its_place_and_a_few_words(
    loader: type[yaml.SafeLoader], text: str, problem: str
) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        load_strict_yaml(text, loader)
    said = problem_of(caught.value)
    assert problem in said
    assert len(said) < 200
    assert said.isprintable()


@pytest.mark.parametrize("loader", LOADERS)
def test_a_date_is_a_text_and_sixties_are_numbers(loader: type[yaml.SafeLoader]) -> None:
    assert load_strict_yaml("a: 2001-99-99\nb: 2026-11-18\nc: 1:30\n", loader) == {
        "a": "2001-99-99",
        "b": "2026-11-18",
        "c": 90,
    }
