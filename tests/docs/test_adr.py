"""Every decision record is there, whole, and in the index."""

import re
from pathlib import Path

import pytest

ADR = Path(__file__).resolve().parents[2] / "docs" / "adr"
PAGES = sorted(ADR.glob("[0-9]*.md"))
SECTIONS = ("Context", "Decision", "Alternatives refused", "Consequences", "Tests that hold it")
CONTINUED = {f"{number:04d}" for number in range(1, 62)} | {"0042a"}
STATUS = re.compile(r"(Proposed|Accepted|Superseded|Rejected|Deferred)\b.*")


def number_of(path: Path) -> str:
    """Return the number of a page; an addendum is filed under the number it adds to, with an a behind it."""
    return path.name[:4] + ("a" if path.name[5:].startswith("addendum-") else "")


@pytest.mark.rule("packaging#adrs")
def test_every_record_of_the_original_is_continued_and_no_number_is_used_twice() -> None:
    numbers = [number_of(path) for path in PAGES]
    assert sorted(CONTINUED - set(numbers)) == []
    assert sorted({number for number in numbers if numbers.count(number) > 1}) == []


def test_our_own_records_are_numbered_without_a_gap_up_to_where_work_went_on_side_by_side() -> None:
    ours = [int(number_of(path)) for path in PAGES if 61 < int(path.name[:4]) < 96]
    assert ours == list(range(62, 96))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name[:4])
def test_a_record_has_all_its_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert re.fullmatch(rf"# {number_of(path)}\. \S.*", lines[0])
    status = [line.removeprefix("- Status: ") for line in lines if line.startswith("- Status: ")]
    dates = [line.removeprefix("- Date: ") for line in lines if line.startswith("- Date: ")]
    assert len(status) == 1
    assert STATUS.fullmatch(status[0])
    assert len(dates) == 1
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", dates[0])
    found = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    assert [section for section in found if section in SECTIONS] == list(SECTIONS)
    for section in SECTIONS:
        body = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
        assert body.strip(), f"{section} is empty"


@pytest.mark.rule("packaging#adrs")
def test_the_index_has_one_row_per_page_with_title_status_and_decision_ids() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(([^)]+)\) \| (.+?) \| (.+?) \| (.*?) ?\|$",
        (ADR / "index.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert sorted(name for _, name, *_ in rows) == [path.name for path in PAGES]
    for number, name, title, status, decides in rows:
        text = (ADR / name).read_text(encoding="utf-8")
        assert text.startswith(f"# {number}. {title}\n")
        assert f"- Status: {status}\n" in text
        assert not decides or f"- Decides: {decides}\n" in text
    assert [number for number, *_ in rows] == sorted(number for number, *_ in rows)
