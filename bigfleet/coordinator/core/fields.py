"""Reads the fields of commands and dumped tables; raises `InvalidFieldError`, which names the field.

Must never: repair a value: a log entry may come from another version, and all replicas must treat it alike.
"""

from collections.abc import Mapping
from typing import Any, Final

from bigfleet.model.errors import InvalidFieldError

LARGEST: Final = 2**63 - 1
MAX_MACHINES: Final = 32

Fields = Mapping[str, Any]  # Any: JSON


def text(fields: Fields, name: str, *, empty: bool = False) -> str:
    """Return a text, not empty unless allowed, that UTF-8 can encode."""
    value = _given(fields, name)
    if not isinstance(value, str) or not _is_utf8(value):
        raise InvalidFieldError(name, _shown(value), "a text")
    if not value and not empty:
        raise InvalidFieldError(name, value, "a text that is not empty")
    return value


def number(fields: Fields, name: str, *, least: int = 0) -> int:
    """Return a whole number that fits the wire."""
    value = _given(fields, name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise InvalidFieldError(name, _shown(value), f"a whole number from {least} to 2^63 - 1")
    return value


def flag(fields: Fields, name: str) -> bool:
    """Return true or false."""
    value = _given(fields, name)
    if not isinstance(value, bool):
        raise InvalidFieldError(name, _shown(value), "true or false")
    return value


def mapping(fields: Fields, name: str) -> dict[str, Any]:
    """Return an object whose keys are texts that are not empty."""
    value = _given(fields, name)
    if not isinstance(value, dict) or not all(
        isinstance(key, str) and key and _is_utf8(key) for key in value
    ):
        raise InvalidFieldError(name, _shown(value), "an object without empty keys")
    return value


def ids(fields: Fields, name: str) -> list[str]:
    """Return 1 to 32 machine ids, each once."""
    value = _given(fields, name)
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_MACHINES:
        raise InvalidFieldError(name, _shown(value), f"1 to {MAX_MACHINES} machine ids")
    read = [text({name: item}, name) for item in value]
    if len(set(read)) < len(read):
        raise InvalidFieldError(name, _shown(value), "each machine id once")
    return read


def machines(fields: Fields, name: str, *, least: int) -> dict[str, str]:
    """Return up to 32 machine ids with their domain values."""
    value = mapping(fields, name)
    if not least <= len(value) <= MAX_MACHINES:
        raise InvalidFieldError(name, f"{len(value)} machines", f"{least} to {MAX_MACHINES} machines")
    return {machine_id: text(value, machine_id, empty=True) for machine_id in value}


def _given(fields: Fields, name: str) -> Any:  # Any: JSON
    if name not in fields:
        raise InvalidFieldError(name, "nothing", "a value")
    return fields[name]


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    written = ascii(value)
    return written if len(written) <= 80 else f"{written[:80]}…"
