"""The syntax of Kubernetes label keys, label values and object names.

Why: a requirement whose key no node can have never matches, and a separator inside a key would corrupt the fingerprint.
Rules: `operator#left-out-requests`.
"""

import re
from functools import lru_cache
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(
    r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII
)
_MAX_NAME: Final = 63
_MAX_PREFIX: Final = 253
_MAX_KEY: Final = _MAX_PREFIX + 1 + _MAX_NAME


def is_label_key(text: str) -> bool:
    """Return whether a text is a label key: a name, optionally after a DNS prefix and a slash."""
    # The length first, so that the cache holds no text of unlimited size.
    return len(text) <= _MAX_KEY and _is_label_key(text)


@lru_cache(maxsize=4096)
def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Return whether a text is a label value; the empty text is one."""
    return not text or (len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None)


def is_object_name(text: str) -> bool:
    """Return whether a text can be the name of an object."""
    return len(text) <= _MAX_PREFIX and _PREFIX.fullmatch(text) is not None
