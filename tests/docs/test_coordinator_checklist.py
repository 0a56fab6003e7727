"""Every item and row of the coordinator's checklist is held by something, and every test that it names exists."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "dev" / "coordinator-checklist.md"
ITEMS, ROWS = PAGE.read_text().split("## Failure table")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
LATER_ITEMS = {55, 56, 57, *range(59, 66), 72}
LATER_ROWS = {30, 32, 38, 39}


def cells(text: str) -> list[list[str]]:
    """Return the rows of the tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[0] not in ("Item", "Row")]


def numbers(text: str) -> list[int]:
    return [int(row[0]) for row in cells(text) if row[0]]


def test_every_item_and_row_that_is_built_is_there_once() -> None:
    assert numbers(ITEMS) == sorted(set(range(1, 74)) - LATER_ITEMS)
    assert numbers(ROWS) == sorted(set(range(1, 40)) - LATER_ROWS)


def test_every_line_names_a_test_or_a_measurement() -> None:
    assert [
        row for row in cells(ITEMS) + cells(ROWS) if not NAMED.search(row[2]) and "make bench" not in row[2]
    ] == []


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED.findall(PAGE.read_text())}))
def test_the_tests_named_of_a_file_exist(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {name for named, name in NAMED.findall(PAGE.read_text()) if named == file} - there == set()
