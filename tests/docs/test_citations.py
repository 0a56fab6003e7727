"""Every citation of a rule or of a decision record leads somewhere, and no citation has an old form.

A rule is cited as `page#id`, and has its id in `docs/design/`. Which rule is held by which test is on the page that
`docs.generate.held_by` writes.
"""

from pathlib import Path

import pytest

from docs.generate import held_by
from docs.generate.citations import (
    PAGES,
    Citation,
    Rule,
    citations,
    files,
    marked,
    records,
    rules,
    rules_of,
)
from tests.docs.old_forms import FORMS, NAMES, old_citations, old_names

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "docs" / "design"
KNOWN = rules(DESIGN)
IDS = {rule.name for found in KNOWN.values() for rule in found}
RECORDS = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files(ROOT)}
# The forms themselves and their examples.
OLD_FORMS_SHOWN = {"tests/docs/old_forms.py"}

PAGE = """
# Shard

## Roll-ups {#roll-ups}

### Guard of roll-ups {#rollup-guard}

Two are held.

| Fault | What happens |
|---|---|
| <a id="p-lost"></a>answer lost | reconcile settles |

```
### Not a rule {#shown-only}
```

## Not built yet {#not-built-yet}

### Moves {#moves}
"""


def dead(path: str, text: str, known: set[str]) -> list[str]:
    """Return the citations of a text that lead nowhere."""
    return [citation.rule for citation in citations(path, text) if citation.rule not in known]


def unfounded(text: str) -> list[str]:
    """Return the `Rules:` lines that begin with neither a rule nor a record."""
    lines = [line.partition("Rules: ")[2] for line in text.splitlines() if "Rules: " in line]
    return [
        line for line in lines if not line.startswith(("`", "[", "ADR-", *(f"{page}#" for page in PAGES)))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_there_and_its_ids_are_unique(page: str) -> None:
    ids = [rule.id for rule in KNOWN.get(page, [])]
    assert ids
    assert sorted(set(ids)) == sorted(ids)


def test_every_rule_that_is_cited_exists() -> None:
    assert [f"{path}: {name}" for path, text in TEXTS.items() for name in dead(path, text, IDS)] == []


def test_every_record_that_is_cited_exists() -> None:
    found = [(path, *place) for path, text in TEXTS.items() for place in records(text)]
    assert [place for place in found if place[2] not in RECORDS] == []


def test_every_line_of_rules_begins_with_a_rule_or_a_record() -> None:
    modules = {path: text for path, text in TEXTS.items() if not path.startswith("tests/docs/")}
    assert [(path, line) for path, text in modules.items() for line in unfounded(text)] == []


def test_no_citation_has_an_old_form() -> None:
    found = [
        f"{path}:{line}: {form}: {words}"
        for path, text in TEXTS.items()
        if path not in OLD_FORMS_SHOWN
        for line, form, words in old_citations(path, text)
    ]
    assert found == []


def test_no_test_is_named_after_a_number_or_a_code() -> None:
    tests = {path: text for path, text in TEXTS.items() if path.startswith("tests/") and path.endswith(".py")}
    assert [(path, *found) for path, text in tests.items() for found in old_names(text)] == []


def test_what_is_held_otherwise_is_a_rule() -> None:
    assert set(held_by.OTHERWISE) - IDS == set()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(
            "a.py", '"""Guards.\n\nRules: `shard#no-such-rule`, `shard#rollup-guard`.\n"""', id="rules line"
        ),
        pytest.param(
            "a.yaml", "# Rules: shard#rollup-guard, shard#no-such-rule.", id="rules line of a chart"
        ),
        pytest.param("a.md", "Held twice, see `shard#no-such-rule`.", id="backquotes"),
        pytest.param("a.md", "Held twice, see [shard#no-such-rule](shard.md#rollup-guard).", id="link"),
        pytest.param("a.sh", "# `no-such-page#rollup-guard`", id="page"),
        pytest.param(
            "tests/a.py",
            '@pytest.mark.rule("shard#rollup-guard", "shard#no-such-rule")\ndef test_a() -> None: ...',
            id="marker of a test",
        ),
        pytest.param(
            "tests/a.py",
            'pytestmark = [pytest.mark.long, pytest.mark.rule("shard#no-such-rule")]',
            id="marker of a module",
        ),
        pytest.param(
            "tests/a.py", "@pytest.mark.rule(RULE)\ndef test_a() -> None: ...", id="marker that is no literal"
        ),
        pytest.param(
            "tests/golden/engine/z-99_row.txt", "# Z-99 (`shard#no-such-rule`): no row.", id="golden script"
        ),
    ],
)
def test_a_planted_dead_citation_is_found(path: str, text: str) -> None:
    known = {rule.name for rule in rules_of("shard", PAGE)}
    assert len(dead(path, text, known)) == 1


def test_a_planted_dead_record_is_found() -> None:
    assert [number for _, number in records("As ADR-0046 and ADR-9999 say.") if number not in RECORDS] == [
        "9999"
    ]


def test_a_planted_line_of_rules_without_one_is_found() -> None:
    assert unfounded("Rules: `shard#rollup-guard`.\nRules: ADR-0046.\nRules: the key is a hash.") == [
        "the key is a hash."
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_planted_old_form_is_found(form: str) -> None:
    text = FORMS[form][1]
    for path, planted in {
        "a.md": text,
        "a.py": f'"""{text}"""\n',
        "b.py": f"# {text}\n",
        "c.yaml": f"# {text}",
    }.items():
        assert form in {found for _, found, _ in old_citations(path, planted)}


@pytest.mark.parametrize("form", NAMES)
def test_a_planted_old_name_is_found(form: str) -> None:
    assert [found for _, found, _ in old_names(f"def {NAMES[form][1]}() -> None: ...")] == [form]


@pytest.mark.parametrize(
    "text",
    [
        "The shard dials coordinator 10.0.0.1:7790 and dashboard 8760; shard 1 of 3 leads.",
        "A wire limit of 4 MiB; the operator waits 30 s; (P99 below 3 s).",
        "`shard#rollup-guard`, ADR-0046, oracle row F-03.",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert list(old_citations("a.md", text)) == []


@pytest.mark.parametrize(
    "name",
    [
        "test_256_commands_give_256_results",
        "test_a_taken_port_is_one_line_and_exit_1",
        "test_a_program_ends_with_0",
        "test_the_257th_ack_is_dropped",
        "test_a_channel_speaks_nothing_below_tls_1_3",
    ],
)
def test_numbers_of_a_sentence_are_left_alone(name: str) -> None:
    assert list(old_names(f"def {name}() -> None: ...")) == []


def test_a_page_is_read_with_its_rows_and_what_is_not_built() -> None:
    found = {rule.id: rule for rule in rules_of("shard", PAGE)}
    assert list(found) == ["roll-ups", "rollup-guard", "p-lost", "not-built-yet", "moves"]
    assert [rule.id for rule in found.values() if rule.heads_others] == ["roll-ups", "not-built-yet"]
    assert [rule.id for rule in found.values() if not rule.built] == ["not-built-yet", "moves"]
    assert found["p-lost"].title == "answer lost"


def test_markers_belong_to_their_test() -> None:
    text = '@pytest.mark.rule("shard#a", "shard#b")\n@pytest.mark.long\nasync def test_it() -> None: ...\n'
    assert [(found.rule, found.test) for found in marked("tests/a.py", text)] == [
        ("shard#a", "test_it"),
        ("shard#b", "test_it"),
    ]


def test_the_page_names_tests_counts_modules_and_lists_what_nothing_cites() -> None:
    known = {"shard": [Rule("shard", name, name, "S", built=True) for name in ("a", "b", "c")]}
    cited = [
        *(Citation("tests/unit/test_a.py", 3, "shard#a", f"test_{number}") for number in range(6)),
        Citation("bigfleet/a.py", 3, "shard#a"),
        Citation("bigfleet/b.py", 3, "shard#a"),
        Citation("tests/unit/test_b.py", 1, "shard#b"),
        Citation("docs/design/shard.md", 9, "shard#c"),
    ]
    page = held_by.text(known, cited)
    shown = ", ".join(f"`unit/test_a.py::test_{number}`" for number in range(4))
    assert f"| [a](shard.md#a) | {shown}, and 2 more | 2 |" in page
    assert "| [b](shard.md#b) | `unit/test_b.py` |  |" in page
    assert page.endswith("- [c](shard.md#c)\n")
