"""Every module of ours that a docstring or a page names in backquotes exists.

Decision records are left out: they may name what is decided and not built yet.
"""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(bigfleet(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
SKIPPED = {".venv", ".git", ".make", "site", "build", "dist"}
# Names of the wire and of object labels, which only look like modules.
OTHER_NAMES = re.compile(r"bigfleet\.(v1alpha1\.[A-Z]\w*|lucy\.sh|insight\.v1)")


def sources() -> list[Path]:
    found = [path for ending in ("*.py", "*.md") for path in ROOT.rglob(ending)]
    kept = (path for path in found if not SKIPPED & set(path.relative_to(ROOT).parts))
    return sorted(path for path in kept if not path.is_relative_to(ROOT / "docs" / "adr"))


def prose(path: Path) -> str:
    """Return the text of a page, or the docstrings of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    nodes = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def resolves(name: str) -> bool:
    """Tell whether a dotted name is a module, or something inside of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            spec = find_spec(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        if spec is not None:
            value: object = import_module(".".join(parts[:end]))
            for part in parts[end:]:
                if not hasattr(value, part):
                    return False
                value = getattr(value, part)
            return True
    return False


def named() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sources():
        for name in NAMED.findall(prose(path)):
            if not OTHER_NAMES.match(name):
                found.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    return found


NAMES = named()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_module_that_is_named_exists(name: str) -> None:
    assert resolves(name), f"{name} is named in {', '.join(sorted(set(NAMES[name])))}"


def test_a_module_that_does_not_exist_would_be_noticed() -> None:
    assert resolves("bigfleet.model.errors.BigFleetError")
    assert not resolves("bigfleet.model.errors.NoSuchError")
    assert not resolves("bigfleet.nowhere.at_all")
