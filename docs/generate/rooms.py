"""Generates the table of rooms and floors of the architecture page from the import contracts in `pyproject.toml`."""

import ast
import tomllib
from pathlib import Path

from docs.generate.markdown import code, table


def floors(root: Path) -> list[list[str]]:
    """Return the rooms of each floor, from the ground up."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in reversed(layers)]


def rooms(root: Path) -> str:
    """Return one row per room: its floor, its name, and the first paragraph of its docstring."""
    rows = [
        (str(number), code(f"bigfleet/{room}/"), _sentence(root / "bigfleet" / room / "__init__.py"))
        for number, floor in enumerate(floors(root), start=1)
        for room in floor
    ]
    return table(("floor", "room", "what it holds"), rows)


def _sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{path}: a room needs a docstring that says what it holds")
    return text.partition("\n\n")[0]
