"""The formulas of the concepts page are those of the code, and the error page has the code's words."""

import re
from pathlib import Path

import pytest

from bigfleet.model.costs import DRAIN_GRACE_BY_GAP, drain_grace_s, effective_cost, victim_cost
from docs.generate import errors, formulas

ROOT = Path(__file__).resolve().parents[2]
CONCEPTS = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")


def test_every_part_has_its_place_on_the_page() -> None:
    assert re.findall(r"<!-- ([a-z-]+): made by", CONCEPTS) == list(formulas.PARTS)


@pytest.mark.rule("packaging#generated-pages")
def test_a_formula_is_what_the_function_returns() -> None:
    assert formulas.in_words(effective_cost) == (
        "price per hour + interruption probability × interruption penalty"
    )
    assert formulas.in_words(victim_cost) == (
        "interruption penalty + reclamation penalty + remaining drain grace in hours × price per hour"
    )


def test_a_formula_without_words_and_an_unknown_mark_are_refused() -> None:
    def other(price_per_hour: float, weight: float) -> float:
        return price_per_hour * weight

    with pytest.raises(TypeError, match="weight: no words for it"):
        formulas.in_words(other)
    with pytest.raises(KeyError, match="no-such-part"):
        formulas.filled("<!-- no-such-part: made by `make docs` -->\n<!-- end -->")


@pytest.mark.rule("packaging#generated-pages")
def test_a_changed_number_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigfleet.model.costs.DRAIN_GRACE_BY_GAP", ((900_000, 11), *DRAIN_GRACE_BY_GAP[1:]))
    assert drain_grace_s(1_000_000, 0) == 11
    assert "| more than 900,000 | 11 seconds |" in formulas.filled(CONCEPTS)
    assert formulas.filled(CONCEPTS) != CONCEPTS


def test_the_page_of_errors_has_the_words_of_a_raise_statement(tmp_path: Path) -> None:
    (tmp_path / "shard").mkdir()
    (tmp_path / "shard" / "a.py").write_text(
        'class InvalidFieldError(Exception):\n    """A field."""\n\n'
        'class OurError(InvalidFieldError):\n    """What it means."""\n\n'
        "def f(x):\n    raise OurError('name', x, f'at most {x} letters')\n"
        "def g(x):\n    raise OurError(x)\n"
    )
    page = errors.page(tmp_path)
    assert "| `OurError` | What it means. | `name: found …, allowed is at most … letters` |" in page
