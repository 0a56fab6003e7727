"""Every test that the documentation checklist names exists, and every item of it names one, or a stage of CI."""

import re

import pytest

from tests.docs.named_tests import exists, named, rows
from tests.docs.shell_blocks import ROOT

ROWS = rows("dev/docs-checklist.md", "#")


def test_every_item_names_a_test_or_a_stage_of_ci() -> None:
    items = {int(found[1]) for row in ROWS if (found := re.match(r"\| (\d+) ", row))}
    assert set(range(45, 53)) | {34, 53, 55, 56, 57, 58} == items
    for row in ROWS:
        stages = re.findall(r"`(\.ci/[\w-]+)`", row)
        assert named(row) or stages, row
        assert all((ROOT / stage).is_file() for stage in stages), row


@pytest.mark.parametrize(("file", "name"), sorted({match for row in ROWS for match in named(row)}))
def test_a_named_test_exists(file: str, name: str) -> None:
    assert exists(file, name)
