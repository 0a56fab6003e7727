"""Every row of the operator's checklist names a test that exists, and no row of its specification is missing."""

import re

from tests.docs.named_tests import exists, named, rows

ROWS = rows("dev/operator-checklist.md", "Item", "Scenario", "Fault")


def numbers(pattern: str) -> set[str]:
    """Return what the first cells of all rows bear of a kind, such as E1 or N5."""
    return {found for row in ROWS for found in re.findall(pattern, row.split("|")[1])}


def test_every_row_names_a_test() -> None:
    assert [row for row in ROWS if not named(row)] == []


def test_every_named_test_exists() -> None:
    assert [match for row in ROWS for match in named(row) if not exists(*match)] == []


def test_no_item_scenario_or_fault_is_missing() -> None:
    leading = [re.match(r"(?:\d+, )*\d+(?= )", row.removeprefix("| ")) for row in ROWS]
    items = {int(number) for found in leading if found for number in found.group().split(", ")}
    assert items == set(range(1, 91))
    for letter, last in {"E": 25, "S": 7, "N": 5, "D": 8, "U": 6, "C": 9}.items():
        assert numbers(rf"\b{letter}\d+") == {f"{letter}{number}" for number in range(1, last + 1)}
