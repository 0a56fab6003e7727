"""Every test that the packaging checklist names exists, and every item of it names one, or a stage of CI."""

import re

import pytest

from tests.docs.named_tests import exists, named, rows
from tests.docs.shell_blocks import ROOT

PAGE = "dev/packaging-checklist.md"
ROWS = rows(PAGE, "#")
TEXT = (ROOT / "docs" / PAGE).read_text(encoding="utf-8").partition("## Commands")[2]


def test_every_item_is_there_once_and_names_a_test_or_a_stage_of_ci() -> None:
    items = [int(row.split("|")[1]) for row in ROWS]
    assert items == [*range(1, 45), 50, 60]
    for row in ROWS:
        stages = re.findall(r"`(\.ci/[\w-]+)`", row)
        assert named(row) or stages, row
        assert all((ROOT / stage).is_file() for stage in stages), row


@pytest.mark.parametrize(("file", "name"), sorted(set(named(TEXT))))
def test_a_named_test_exists(file: str, name: str) -> None:
    assert exists(file, name)


def test_a_test_whose_name_bears_an_item_is_named_by_its_row() -> None:
    # Names end in the items that they hold, as test_…_26_27; whoever adds one finds it missing here.
    by_item = {int(row.split("|")[1]): {name for _, name in named(row)} for row in ROWS}
    for file in (
        "unit/app/test_flags_of_the_contract.py",
        "integration/app/test_ends.py",
        "charts/test_rules.py",
    ):
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        for name, item in re.findall(r"^def (test_\w+_(\d+))\(", text, re.MULTILINE):
            assert name in by_item.get(int(item), {name}), name
