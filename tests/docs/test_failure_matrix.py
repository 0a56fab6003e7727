"""Every test that the failure matrix names exists, and every row names one."""

import pytest

from tests.docs.named_tests import exists, named, rows

ROWS = rows("dev/failure-matrix.md", "Fault")


def test_every_row_names_a_test() -> None:
    assert len(ROWS) > 60
    assert [row for row in ROWS if not named(row)] == []


@pytest.mark.parametrize(("file", "name"), sorted({match for row in ROWS for match in named(row)}))
def test_a_named_test_exists(file: str, name: str) -> None:
    assert exists(file, name)
