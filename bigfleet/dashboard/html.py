"""Builds HTML in which all text is escaped.

Why: names of clusters, providers and labels are untrusted input. Only the result of `el` is markup; `el` escapes every
other text, writes its invisible characters out and isolates its right-to-left words, so no caller can forget to.
Must never: take markup as a plain string, write a `style` or `on…` attribute, which the security policy forbids, or change
a value that is read back, such as an address or the value of a field.
Rules: `dashboard#security`, `dashboard#hostile-names`.
"""

from collections.abc import Callable, Iterable
from html import escape
from typing import Final

from bigfleet.dashboard.core.visible import isolated, visible, with_isolated

_EMPTY: Final = frozenset(
    {"br", "hr", "img", "input", "link", "meta", "circle", "line", "path", "polyline", "rect", "use"}
)

_NO_MARKUP: Final = frozenset({"title", "option"})
"""Elements in which a browser shows markup as text."""
_AS_TYPED: Final = frozenset({"textarea"})
_SHOWN: Final = frozenset({"title", "aria-label", "alt", "placeholder"})
"""Attributes that a reader sees or hears; others are read back by links and scripts."""


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
    if name in _AS_TYPED:
        inner = _text(children, escape)
    elif name in _NO_MARKUP:
        inner = _text(children, lambda text: escape(isolated(text)))
    else:
        inner = _text(children)
    return Html(f"{opened}>{inner}</{name}>")


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
    if value is True:
        return f" {name}"
    text = isolated(str(value)) if name in _SHOWN else str(value)
    return f' {name}="{escape(text)}"'


def _marked(text: str) -> str:
    return with_isolated(escape(visible(text)), lambda words: f"<bdi>{words}</bdi>")


def _text(child: Child, write: Callable[[str], str] = _marked) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str | int | float):
        return write(str(child))
    return "".join(_text(inner, write) for inner in child)
