"""Every program under `cmd/` is installed as a console script, and every console script has its folder there."""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
FOLDERS = sorted(path.parent.name for path in (ROOT / "cmd").glob("*/__main__.py"))


def test_programs_and_console_scripts_are_the_same() -> None:
    assert len(FOLDERS) > 5
    assert sorted(SCRIPTS) == FOLDERS


@pytest.mark.parametrize("name", FOLDERS)
def test_both_lead_to_the_same_function_of_the_program_of_that_name(name: str) -> None:
    module, _, function = SCRIPTS[name].partition(":")
    tree = ast.parse((ROOT / "cmd" / name / "__main__.py").read_text())
    imported = [
        (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert imported == [(module, function)]
    program = importlib.import_module(module)
    assert callable(getattr(program, function))
    assert program.PROGRAM.name.replace(" ", "-") == name  # kubectl finds `kubectl bigfleet` under that name
