"""Splits a template into texts and actions, and each action into tokens.

Must never: change a byte of the text between actions, except white space that a trim mark drops.
Rules: `operator#bootstrap`.
"""

import re
from dataclasses import dataclass
from typing import Final

from bigfleet.operator.core.template.errors import TemplateError

_SPACE: Final = " \t\r\n"
_OPEN, _CLOSE = "{{", "}}"

_WORDS: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n]+)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<raw>`[^`]*`)
    | (?P<number>[+-]?[0-9][0-9A-Za-z_.]*)
    | (?P<declare>:=)
    | (?P<mark>[=,|()])
    | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*)
    | (?P<dot>\.)
    | (?P<variable>\$[A-Za-z0-9_]*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE,
)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_LAST: Final = 0x10FFFF
_HALVES: Final = range(0xD800, 0xE000)
"""Halves of characters in UTF-16; alone they are no text."""
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)")


@dataclass(frozen=True, slots=True)
class TemplateToken:
    """One token of an action; `kind` is its group in the pattern above, `joined` means no space before it."""

    kind: str
    text: str
    line: int
    joined: bool


@dataclass(frozen=True, slots=True)
class TemplateText:
    """The text between two actions."""

    text: str


@dataclass(frozen=True, slots=True)
class TemplateAction:
    """The tokens between two pairs of braces."""

    words: tuple[TemplateToken, ...]
    line: int


def split(source: str) -> list[TemplateText | TemplateAction]:
    """Split a template into its pieces, without comments and trimmed white space."""
    pieces: list[TemplateText | TemplateAction] = []
    lines = _Lines(source)
    place, trim_next = 0, False
    while True:
        start = source.find(_OPEN, place)
        text = source[place:] if start < 0 else source[place:start]
        if trim_next:
            text = text.lstrip(_SPACE)
        line = lines.of(max(start, 0))
        trim_this = start >= 0 and source[start + 2 : start + 3] == "-" and _is_space(source, start + 3)
        if trim_this:
            text = text.rstrip(_SPACE)
        if text:
            pieces.append(TemplateText(text))
        if start < 0:
            return pieces
        inner = start + (3 if trim_this else 2)
        words, place, trim_next = _action(source, inner, lines)
        if words is not None:
            pieces.append(TemplateAction(words, line))


class _Lines:
    """Line numbers of places that only rise, each character counted once."""

    def __init__(self, source: str) -> None:
        self._source, self._place, self._line = source, 0, 1

    def of(self, place: int) -> int:
        self._line += self._source.count("\n", self._place, place)
        self._place = max(self._place, place)
        return self._line


def _action(source: str, start: int, lines: _Lines) -> tuple[tuple[TemplateToken, ...] | None, int, bool]:
    """Read one action; return its tokens, where it ends, and whether it trims what follows."""
    line = lines.of(start)
    comment = _behind_space(source, start)
    if source.startswith("/*", comment):
        end = source.find("*/", comment + 2)
        if end < 0:
            raise TemplateError(line, "/*", "a comment that is not closed")
        closed = _closing(source, end + 2)
        if closed is None:
            raise TemplateError(line, "/*", "a comment must be alone in its braces")
        return None, *closed
    words: list[TemplateToken] = []
    place, joined = start, False
    while True:
        if closed := _closing(source, place):
            return tuple(words), *closed
        match = _WORDS.match(source, place)
        here = lines.of(place)
        if match is None:
            if place >= len(source):
                raise TemplateError(line, _OPEN, "an action that is not closed")
            raise TemplateError(here, source[place], "a character that has no meaning here")
        if match.lastgroup == "space":
            joined = False
        else:
            words.append(TemplateToken(match.lastgroup or "", match.group(), here, joined))
            joined = True
        place = match.end()


def _closing(source: str, place: int) -> tuple[int, bool] | None:
    """Return the end of an action that closes here, and whether it trims; None if it does not close here."""
    if source.startswith(_CLOSE, place):
        return place + 2, False
    after = _behind_space(source, place)
    if after > place and source.startswith("-" + _CLOSE, after):
        return after + 3, True
    return None


def _behind_space(source: str, place: int) -> int:
    while _is_space(source, place):
        place += 1
    return place


def _is_space(source: str, place: int) -> bool:
    return place < len(source) and source[place] in _SPACE


def unquoted(word: TemplateToken) -> str:
    """Return the value of a string or raw string."""
    inner = word.text[1:-1]
    if word.kind == "raw":
        return inner.replace("\r", "")

    def expand(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            return _character(word, code, int(code[1:], 16), _LAST)
        if code.isdigit() and len(code) == 3:
            return _character(word, code, int(code, 8), 0xFF)
        if code not in _ESCAPES:
            raise TemplateError(word.line, f"\\{code}", "an escape that is not known")
        return _ESCAPES[code]

    return _ESCAPE.sub(expand, inner)


def _character(word: TemplateToken, code: str, number: int, last: int) -> str:
    if number > last or number in _HALVES:
        raise TemplateError(word.line, f"\\{code}", "an escape that is no character")
    return chr(number)
