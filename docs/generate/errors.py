"""The page of errors: every kind that a program raises on purpose, what it means, and the texts it is raised with.

Why: an operator who finds a line in a log searches for it; the page is read from the `raise` statements, so it has the words of the code.
Must never: import what it reads; a module that needs a missing library has texts, too.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.generate.markdown import code, plain, table
from docs.generate.markdown import page as markdown_page

_INTRO = """
What goes wrong on purpose is one line: the program, a colon, the cause with the field and what is allowed. This page has the
texts as the code writes them, by the part they come from; `…` is the part that differs each time. A text that is not here comes from
a library or the system. [Exit codes](exit-codes.md) say how a command ends.
"""
_PARTS: Final = {
    "app": "Starting a program",
    "cli": "Commands",
    "transport": "Connections and certificates",
    "coordinator": "Coordinator",
    "coordlink": "A shard's way to the coordinator",
    "shard": "Shard",
    "operator": "Operator",
    "podcontroller": "Pod controller",
    "kube": "Kubernetes",
    "provider": "Providers",
    "document": "Documents",
    "dashboard": "Dashboard",
    "model": "Model",
}
_LEFT_OUT: Final = (
    "provider/conformance",
    "provider/fake/lies",
)  # a kit for authors, and a provider that lies
_OTHER: Final = "…"
_FIELD_ERROR: Final = 3  # arguments of a refused field: its name, what was found, what is allowed


def page(package: Path) -> str:
    """Return the page, from the sources of the package."""
    trees = {place: ast.parse(text) for place, text in _sources(package) if "Error" in text}
    classes = [node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    meanings = {node.name: _meaning(node) for node in classes}
    fields = _under(classes, "InvalidFieldError")
    sections = []
    for part, title in _PARTS.items():
        texts: dict[str, list[str]] = defaultdict(list)
        for place, tree in trees.items():
            if place.startswith(f"{part}/"):
                for name, text in _raised(tree, fields):
                    texts[name] += [] if text in texts[name] else [text]
        rows = [
            (code(name), plain(meanings[name]), "<br>".join(map(code, words)))
            for name, words in sorted(texts.items())
            if name in meanings and not name.startswith("_")
        ]
        sections += [f"## {title}", table(("Error", "Meaning", "Texts"), rows)]
    return markdown_page("Errors", _INTRO, *sections)


def _sources(package: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).as_posix()
        if place.partition("/")[0] in {*_PARTS, "aio"} and not place.startswith(_LEFT_OUT):
            yield place, path.read_text(encoding="utf-8")


def _meaning(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n\n")[0]


def _under(classes: list[ast.ClassDef], root: str) -> set[str]:
    """Return the names of an error and of all that derive from it."""
    bases = {node.name: {base.id for base in node.bases if isinstance(base, ast.Name)} for node in classes}
    found = {root}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def _raised(tree: ast.Module, fields: set[str]) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and isinstance(node.exc.func, ast.Name)
        ):
            name, words = node.exc.func.id, [_text(argument) for argument in node.exc.args]
            if name in fields and len(words) >= _FIELD_ERROR:
                field, _, allowed = words[-_FIELD_ERROR:]
                text = f"{field}: found …, allowed is {allowed}"
            else:
                text = ": ".join(word for word in words if word != _OTHER)
            if text.strip(f"{_OTHER}: ") not in {"", "found …, allowed is"} and "`" not in text:
                yield name, text


def _text(node: ast.expr) -> str:
    """Return the text of an argument; what is known only when it is raised is one mark."""
    match node:
        case ast.Constant(value=str() as text):
            return " ".join(text.split())
        case ast.JoinedStr(values=parts):
            whole = "".join(str(part.value) if isinstance(part, ast.Constant) else _OTHER for part in parts)
            return " ".join(whole.split())
        case _:
            return _OTHER
