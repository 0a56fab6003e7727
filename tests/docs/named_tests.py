"""Tables of the docs that name the tests holding each row, as `folder/test_file.py::test_name` below `tests/`."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows(page: str, *heads: str) -> list[str]:
    """Return the rows of all tables of a page below `docs/`, without those that begin a table with one of these words."""
    lines = (TESTS.parent / "docs" / page).read_text(encoding="utf-8").splitlines()
    starts = tuple(f"| {head} " for head in heads)
    return [line for line in lines if line.startswith("| ") and not line.startswith(starts)]


def named(row: str) -> list[tuple[str, str]]:
    """Return file and name of each test that a row names."""
    return _NAMED.findall(row)


def exists(file: str, name: str) -> bool:
    """Tell whether a file has a test of that name."""
    return name in _tests_of(file)


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
