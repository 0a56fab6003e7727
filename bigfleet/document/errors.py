"""The one error of this room: a path in a document, what was found there, and what is allowed.

Why: users and other programs write documents; the author must find the flaw from the error alone.
Must never: grow with the input. Values and names are shown shortened and printable, whatever was sent.
"""

import json
import re

from bigfleet.model.errors import InvalidFieldError

WHOLE = "document"
"""The path of a flaw that concerns the document as a whole, as broken JSON does."""

NOTHING = "nothing"
_SHOWN_CHARACTERS = 80
_PATH_CHARACTERS = 200
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class DocumentError(InvalidFieldError):
    """A document is refused; `field` is the JSON path, `found` a phrase or the value in JSON."""

    def __init__(self, field: str, found: str, allowed: str) -> None:
        super().__init__(field, found, allowed)
        # `found` is a phrase already, which the root's text would put in quotes once more.
        self.args = (f"{field}: found {found}, allowed is {allowed}",)

    def under(self, prefix: str) -> "DocumentError":
        """Return the same error as seen one level further out."""
        separator = "." if self.field and not self.field.startswith("[") else ""
        return DocumentError(f"{prefix}{separator}{self.field}", str(self.found), self.allowed)


class Unreadable:
    """A number that JSON does not have, or that is too large; kept until the path to it is known."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def from_model(error: InvalidFieldError) -> DocumentError:
    """The same refusal as an error of the document, when it was a rule of the model that spoke."""
    if isinstance(error, DocumentError):
        return error
    return DocumentError(printable(error.field), shown(error.found), error.allowed)


def shown(value: object) -> str:
    """A value as a refusal shows it: short, on one line, in the words of JSON."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Unreadable):
        return _clipped(value.text, _SHOWN_CHARACTERS)
    if isinstance(value, str):
        return quoted(value)
    return _clipped(json.dumps(value, default=repr), _SHOWN_CHARACTERS)


def quoted(text: str) -> str:
    """A text in JSON, shortened before it is written so that no escape is cut in two."""
    short = _clipped(text, _SHOWN_CHARACTERS)
    return json.dumps(short, ensure_ascii=not short.isprintable())


def step(name: str) -> str:
    """A field's name as a step of a path; names that no form has are put in quotes."""
    return name if _PLAIN_NAME.fullmatch(name) else f"[{quoted(name)}]"


def entry(name: str) -> str:
    """The key of a map as a step of a path, as `[cpu]`."""
    return f"[{name}]" if name.isprintable() and len(name) <= _SHOWN_CHARACTERS else f"[{quoted(name)}]"


def printable(path: str) -> str:
    """A path that the model made of unchecked names."""
    short = _clipped(path, _PATH_CHARACTERS)
    return short if short.isprintable() else json.dumps(short)[1:-1]


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
