"""Keeps secrets out of log lines, by the name of the key and the type of the value.

Why: a bootstrap blob joins a machine to a cluster; one careless `log.debug(..., request=request)` must not leak it.
Must never: be the only guard. Code does not log secrets; this catches the day it does.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

MASK = "****"

_SECRET_WORDS = frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "key",
        "credential",
        "blob",
        "bootstrap",
        "apikey",
    }
)
# They hold one of those words and are no secret, and a line without them says little.
_HARMLESS_KEYS = frozenset({"topology_key", "supersedes_key"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def looks_secret(key: str) -> bool:
    """Return whether a key names a secret: one of its words does, as in `raftSecret`, `tls_key`, `tokens`."""
    if key in _HARMLESS_KEYS:
        return False
    return any(word.lower().removesuffix("s") in _SECRET_WORDS for word in _WORD.findall(key))


def masked(value: object) -> object:
    """Return a value fit for a log line: secret keys masked at any depth, of bytes only their number."""
    if isinstance(value, Mapping):
        return {key: _masked_under(str(key), inner) for key, inner in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        return _USER_INFO.sub(MASK, value) if "://" in value else value
    if isinstance(value, Sequence | set | frozenset):
        return [masked(inner) for inner in value]
    return value


def _masked_under(key: str, value: object) -> object:
    # A flag or an absence is no secret, and `token=None` is worth knowing.
    if value is None or isinstance(value, bool) or not looks_secret(key):
        return masked(value)
    return MASK


def mask_secrets(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask a log line, as a structlog processor (whose types are these)."""
    for key, value in line.items():
        line[key] = _masked_under(key, value)
    return line
