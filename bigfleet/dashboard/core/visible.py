"""Makes foreign text safe to read: invisible characters become visible, right-to-left words are kept apart.

Why: a name with a right-to-left override can show other words than it has, and reverse the words beside it; a name with an
invisible character looks like another name.
Must never: change a text that has neither, or a value that a link or script reads back.
Rules: `dashboard#hostile-names`; ADR-0247.
"""

import re
from collections.abc import Callable
from typing import Final

_INVISIBLE: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters; tab and line feed are blanks on a page
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiner, Arabic mark, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero-width and directional marks, embeddings, overrides, isolates
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # fillers, variation selectors, byte order mark, annotations
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # musical controls, tags
    "\ud800-\udfff"  # halves of a pair, which no answer can be encoded with
    "]"
)
_STRONG: Final = (
    "\u0590-\u05ff\u0600-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff"
)
_RIGHT_TO_LEFT: Final = re.compile(f"[{_STRONG}]+(?:[ ._-]?[{_STRONG}]+)*")
ISOLATE: Final = "\u2068"
"""First strong isolate: what follows has a direction of its own."""
END_OF_ISOLATE: Final = "\u2069"


def visible(text: str) -> str:
    """Return a text in which every invisible character is written as its code point, such as `\\u202e`."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(_code_point, text)


def with_isolated(text: str, isolate: Callable[[str], str]) -> str:
    """Return a text with each run of right-to-left words replaced by what a function makes of it."""
    return text if text.isascii() else _RIGHT_TO_LEFT.sub(lambda found: isolate(found[0]), text)


def isolated(text: str) -> str:
    """Return a text, to be shown where no markup can be, such as a tool tip."""
    return with_isolated(visible(text), lambda words: f"{ISOLATE}{words}{END_OF_ISOLATE}")


def _code_point(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
