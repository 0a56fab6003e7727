"""Every test that the failure matrix and the checklist of the shard name exists, and every row names one."""

import re

import pytest

from tests.docs.named_tests import exists, named, rows

MATRIX, CHECKLIST = (
    rows("dev/failure-matrix.md", "Fault"),
    rows("dev/shard-checklist.md", "Item", "Fault that"),
)


def test_every_row_names_a_test() -> None:
    assert len(MATRIX) > 60
    assert [row for row in (*MATRIX, *CHECKLIST) if not named(row)] == []


def test_every_item_of_the_acceptance_list_of_the_shard_is_there() -> None:
    items = [int(found[1]) for row in CHECKLIST if (found := re.match(r"\| (\d+) ", row))]
    assert items == list(range(1, 21))
    of_providers = {found[1] for row in CHECKLIST if (found := re.match(r"\| providers (\d+)", row))}
    assert of_providers == {"22", "26"}


@pytest.mark.parametrize(
    ("file", "name"), sorted({match for row in (*MATRIX, *CHECKLIST) for match in named(row)})
)
def test_a_named_test_exists(file: str, name: str) -> None:
    assert exists(file, name)
