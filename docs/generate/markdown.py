"""The little Markdown that the generated pages need."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

_MARKED: Final = re.compile(r"(<!-- ([a-z-]+): made by `make docs` -->\n).*?(<!-- end -->)", re.DOTALL)
_NOTE = "<!-- Made by `python -m docs.generate`; change the code it is made from, then run `make docs`. -->"


def page(title: str, *parts: str) -> str:
    """Return a whole page: note, heading, parts with a blank line between them."""
    return "\n\n".join([_NOTE, f"# {title}", *(part.strip("\n") for part in parts if part.strip())]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown, with bars and line ends made harmless."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def fill(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Return a hand-written page with every marked place filled; a mark without a part raises KeyError."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{parts[found[2]]()}\n\n{found[3]}", page)


def code(text: str) -> str:
    """Return inline code, nothing for nothing."""
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    """Return inline code for each text, with commas."""
    return ", ".join(map(code, texts))


def plain(text: str) -> str:
    """Return prose that stays prose: angle brackets are no tags."""
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
