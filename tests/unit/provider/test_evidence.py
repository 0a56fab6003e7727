"""The page of evidence names tests that exist, and every item of the acceptance list."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "evidence" / "providers.md").read_text(encoding="utf-8")
ITEMS = 30


def rows() -> dict[int, str]:
    return {
        int(number): tests for number, tests in re.findall(r"^\| (\d+) \| .* \| (.*) \|$", PAGE, re.MULTILINE)
    }


def test_every_item_of_the_acceptance_list_names_its_tests() -> None:
    assert sorted(rows()) == list(range(1, ITEMS + 1))
    assert all("`tests/" in tests for tests in rows().values())


def test_the_tests_it_names_exist() -> None:
    missing = []
    for number, tests in rows().items():
        for part in tests.split("; "):
            file, *names = re.findall(r"`([^`]+)`", part)
            text = (ROOT / file).read_text(encoding="utf-8")
            assert names, f"item {number} names {file} and no test in it"
            missing += [f"{number}: {file}::{name}" for name in names if f"def {name}(" not in text]
    assert missing == []
