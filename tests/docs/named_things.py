"""What docstrings and pages name in backquotes: modules, files and flags of this repository."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from docs.generate.citations import NOT_BUILT
from tests.docs.named_flags import FLAG, KNOWN

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".pytest_cache", ".venv", ".git", ".make", "site", "build", "dist"}
MODULE = re.compile(r"`(bigfleet(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
# Names of the wire and of object labels, which only look like modules.
OTHER_NAMES = re.compile(r"bigfleet\.(v1alpha1\.[A-Z]\w*|lucy\.sh|insight\.v1)")
FILE = re.compile(
    r"`((?:bigfleet|charts|cmd|deploy|docs|examples|proto|release|scaletest|testbed|tests|\.ci|\.github)/[\w./*-]*)(?:::\w+)?`"
)
# A file of the contract is named as one imports it.
BASES = (ROOT, ROOT / "proto")
# Its paths are below tests/, and it is made from the tests themselves.
MADE = {ROOT / "docs" / "design" / "held-by.md"}
_SPAN = re.compile(r"`([^`\n]+)`")
_NOT_BUILT = re.compile(rf"^## [^\n]*\{{#{NOT_BUILT}\}}.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def sources() -> list[Path]:
    """Return the modules and pages to look at.

    Decision records are left out: they name what was decided and may not be built, and things of the original.
    """
    found = [path for ending in ("*.py", "*.md") for path in ROOT.rglob(ending)]
    kept = (path for path in found if not SKIPPED & set(path.relative_to(ROOT).parts) and path not in MADE)
    return sorted(path for path in kept if not path.is_relative_to(ROOT / "docs" / "adr"))


def prose(path: Path) -> str:
    """Return the text of a page without what is not built yet, or the docstrings of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return built(text)
    nodes = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def built(text: str) -> str:
    """Return a page without the section of rules that are not built yet, which names modules and flags to come."""
    return _NOT_BUILT.sub("", text)


def modules(text: str) -> set[str]:
    """Return the modules that a text names."""
    return {name for name in MODULE.findall(text) if not OTHER_NAMES.match(name)}


def files(text: str) -> set[str]:
    """Return the files and folders that a text names."""
    return set(FILE.findall(text))


def flags(text: str) -> set[str]:
    """Return the flags that a text names in backquotes."""
    return {flag for span in _SPAN.findall(text) for flag in FLAG.findall(span)}


def module_exists(name: str) -> bool:
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


def file_exists(name: str) -> bool:
    """Tell whether a path, perhaps with a star, leads to something."""
    return any(any(base.glob(name.rstrip("/"))) for base in BASES)


def flag_exists(name: str) -> bool:
    """Tell whether a program of ours, or a tool that our pages use, has a flag."""
    return name in KNOWN
