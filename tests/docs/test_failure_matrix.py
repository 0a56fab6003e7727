"""Every test that the failure matrix and the checklist of the shard name exists, and every row names one."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
HEADS = ("| Fault", "| Item")


def rows_of(page: str) -> list[str]:
    lines = (TESTS.parent / "docs" / "dev" / page).read_text().splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith(HEADS)]


MATRIX, CHECKLIST = rows_of("failure-matrix.md"), rows_of("shard-checklist.md")


def test_every_row_names_a_test() -> None:
    assert len(MATRIX) > 60
    assert [row for row in (*MATRIX, *CHECKLIST) if not NAMED.search(row)] == []


def test_every_item_of_the_acceptance_list_of_the_shard_is_there() -> None:
    items = [int(found[1]) for row in CHECKLIST if (found := re.match(r"\| (\d+) ", row))]
    assert items == list(range(1, 21))
    of_providers = {found[1] for row in CHECKLIST if (found := re.match(r"\| providers (\d+)", row))}
    assert of_providers == {"22", "26"}


@pytest.mark.parametrize(
    ("file", "name"), sorted({match for row in (*MATRIX, *CHECKLIST) for match in NAMED.findall(row)})
)
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in found
