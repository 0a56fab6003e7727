"""What Kubernetes takes for a label key and a label value.

Why: a requirement whose key no node can bear never matches, and a separator inside a key would corrupt the fingerprint.
Must never: repair a text; it fits or it does not.
Rules: operator 4.7.
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
    """Tell whether a text can be a label key: a name, with an optional DNS prefix and a slash before it."""
    # The length first: what is remembered must not be as long as somebody likes.
    return len(text) <= _MAX_KEY and _is_label_key(text)


@lru_cache(maxsize=4096)
def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Tell whether a text can be a label value; the empty one can."""
    return not text or (len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None)


_SUBDOMAIN: Final = _PREFIX


def is_object_name(text: str) -> bool:
    """Tell whether a text can be the name of an object."""
    return len(text) <= _MAX_PREFIX and _SUBDOMAIN.fullmatch(text) is not None
