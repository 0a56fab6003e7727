"""Every item of the dashboard's checklist is there and names a test that exists, or a stage of CI."""

import re

import pytest

from tests.docs.named_tests import exists, named, rows
from tests.docs.shell_blocks import ROOT

ROWS = rows("dev/dashboard-checklist.md", "Item")


def test_every_item_is_there_once_and_names_a_test_or_a_stage_of_ci() -> None:
    assert [int(row.split()[1]) for row in ROWS] == list(range(1, 31))
    for row in ROWS:
        stages = re.findall(r"`(\.ci/[\w-]+)`", row)
        assert named(row) or stages, row
        assert all((ROOT / stage).is_file() for stage in stages), row


def test_no_file_is_named_without_its_test() -> None:
    assert [row for row in ROWS if re.search(r"\.py`", row)] == []


@pytest.mark.parametrize(("file", "name"), sorted({match for row in ROWS for match in named(row)}))
def test_a_named_test_exists(file: str, name: str) -> None:
    assert exists(file, name)
