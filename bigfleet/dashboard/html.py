"""Builds HTML in which all text is escaped.

Why: names of clusters, providers and labels are untrusted input. Only the result of `el` is markup; `el` escapes every
other text, so no caller can forget to.
Must never: take markup as a plain string, or write a `style` or `on…` attribute, which the security policy forbids.
Rules: `dashboard#security`.
"""

from collections.abc import Iterable
from html import escape
from typing import Final

_EMPTY: Final = frozenset(
    {"br", "hr", "img", "input", "link", "meta", "circle", "line", "path", "polyline", "rect", "use"}
)


class Html(str):
    """Markup; made by `el` and `join` alone."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def el(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Html:
    """Return an element; `class_` and `for_` lose the underscore at their end, other underscores become hyphens.

    An attribute that is None or False is left out; True gives an attribute without a value.
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if name in _EMPTY and not children:
        return Html(f"{opened}/>")  # SVG needs the slash, HTML ignores it
    return Html(f"{opened}>{_text(children)}</{name}>")


def join(*children: Child) -> Html:
    """Return several things one after the other."""
    return Html(_text(children))


def page(*children: Child) -> str:
    """Return a whole document."""
    return f"<!doctype html>\n{_text(children)}"


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name == "style" or name.startswith("on"):
        raise ValueError(f"the security policy forbids the attribute {name}")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str | int | float):
        return escape(str(child))
    return "".join(_text(inner) for inner in child)
