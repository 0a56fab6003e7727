"""Every test that the failure matrix names exists, and every row names one."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "dev" / "failure-matrix.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROWS = [
    line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| Fault")
]


def test_every_row_names_a_test() -> None:
    assert len(ROWS) > 60
    assert [row for row in ROWS if not NAMED.search(row)] == []


@pytest.mark.parametrize(("file", "name"), sorted({match for row in ROWS for match in NAMED.findall(row)}))
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in found
