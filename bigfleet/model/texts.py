"""How much of a stranger's text people get to read, and which texts may be names at all.

Why: a peer decides how long its texts are. Quoted whole in a log line or an error, one of them can fill a disk; with a
line break in it, a name can look like two lines of a log.
Must never: change a text that is kept; this is for texts on their way to people, and for refusing.
Rules: `wire#text-lengths`, `wire#texts-shown`; ADR-0238.
"""

from collections.abc import Callable

from bigfleet.model.errors import BeyondLimitError, InvalidFieldError

MAX_KEY_PREFIX = 253
MAX_KEY_NAME = 63
MAX_LABEL_VALUE = 63
"""Kubernetes takes no longer label keys and values, so no node can have one (bytes, as those it takes are ASCII)."""


def key_fits(key: str) -> bool:
    """Whether a label key or resource name is as short as Kubernetes demands; its characters are not judged."""
    if len(key) <= MAX_KEY_NAME and key.isascii():
        return True
    prefix, _, name = key.rpartition("/")
    return len(prefix.encode()) <= MAX_KEY_PREFIX and len(name.encode()) <= MAX_KEY_NAME


def value_fits(value: str) -> bool:
    """Whether a label value is as short as Kubernetes demands; its characters are not judged."""
    return len(value) <= MAX_LABEL_VALUE and (value.isascii() or len(value.encode()) <= MAX_LABEL_VALUE)


def has_control(text: str) -> bool:
    """Whether a text has a control character, such as a line break, an escape or NUL."""
    if text.isprintable():
        return False
    return any(character < " " or "\x7f" <= character <= "\x9f" for character in text)


def checked_key(key: str, field: str) -> None:
    """Refuse a label key or resource name that is too long, by the field's name."""
    if not key_fits(key):
        raise BeyondLimitError(
            field, key, f"a key of at most {MAX_KEY_PREFIX} bytes, a slash and {MAX_KEY_NAME} bytes"
        )


def checked_name(
    text: str, field: str, limit: int, error: Callable[[str, object, str], InvalidFieldError]
) -> None:
    """Refuse a name that is too long or has a control character, with an error of this type."""
    if len(text) > limit or len(text.encode()) > limit:
        raise error(field, text, f"a text of at most {limit} bytes")
    if has_control(text):
        raise error(field, text, "a text without control characters")
