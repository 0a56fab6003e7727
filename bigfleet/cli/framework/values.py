"""Parses and formats the values of flags, variables and files.

Why: charts pass Go-style values (`1h30m`, `:7780`, `--x=true`), and all sources must read them in the same way.
Must never: import pydantic or anything slow, or guess a unit.
Rules: `packaging#go-values`, `packaging#addresses`.
"""

import re
from decimal import Decimal

from bigfleet.cli.framework.errors import UnreadableValueError
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import ListenAddress, parse_listen

DURATION = "a duration such as 100ms, 10s, 5m, 1h30m or 0"
BYTE_SIZE = "a number of bytes such as 65536, 64KiB or 100MiB"
BOOLEAN = "true or false"
LISTEN_ADDRESS = "host:port, [ipv6]:port, or :port for all interfaces"
HTTP_ADDRESS = f"{LISTEN_ADDRESS}, or 0 for off"
DIAL_ADDRESS = "host:port or [ipv6]:port"

_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_DURATION_TEXT = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_LONGEST_NS = 2**63 - 1  # the longest duration in Go

_BYTE_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTE_UNITS |= {f"{prefix}iB": 2 ** (10 * power) for power, prefix in enumerate("KMGT", start=1)}
_BYTE_TEXT = re.compile(r"(\d+)\s?([A-Za-z]*)")

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})


def parse_duration(text: str) -> float:
    """Parse a Go-style duration into seconds; a number without a unit is refused, except 0."""
    if text == "0":
        return 0.0
    if not _DURATION_TEXT.fullmatch(text):
        raise UnreadableValueError(text, DURATION)
    nanoseconds = sum(Decimal(amount) * _UNIT_NS[unit] for amount, unit in _DURATION_PART.findall(text))
    if nanoseconds > _LONGEST_NS:
        raise UnreadableValueError(text, f"{DURATION}, at most 292 years")
    return float(nanoseconds / 10**9)


def format_duration(seconds: float) -> str:
    """Format seconds as the shortest Go-style duration that parses to the same value."""
    left = round(seconds * 10**9)
    if left == 0:
        return "0"
    if left < _UNIT_NS["s"]:
        unit = next(unit for unit in ("ms", "us", "ns") if left % _UNIT_NS[unit] == 0)
        return f"{left // _UNIT_NS[unit]}{unit}"
    hours, left = divmod(left, _UNIT_NS["h"])
    minutes, left = divmod(left, _UNIT_NS["m"])
    whole_seconds = f"{(Decimal(left) / 10**9).normalize():f}"
    parts = ((str(hours), "h"), (str(minutes), "m"), (whole_seconds, "s"))
    return "".join(amount + unit for amount, unit in parts if amount != "0")


def parse_byte_size(text: str) -> int:
    """Parse a number of bytes with a binary unit (KiB), a decimal unit (kB) or none."""
    match = _BYTE_TEXT.fullmatch(text)
    if not match or match[2] not in _BYTE_UNITS:
        raise UnreadableValueError(text, BYTE_SIZE)
    return int(match[1]) * _BYTE_UNITS[match[2]]


def format_byte_size(size: int) -> str:
    """Format a number of bytes in the largest binary unit that divides it."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _BYTE_UNITS[unit] == 0:
            return f"{size // _BYTE_UNITS[unit]}{unit}"
    return str(size)


def parse_boolean(text: str) -> bool:
    """Parse a boolean in any spelling of Go's flag package."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise UnreadableValueError(text, BOOLEAN)


def parse_dial_address(text: str) -> str:
    """Parse an address to dial, which needs a host and a port."""
    try:
        address = parse_listen(text)
    except InvalidFieldError:
        raise UnreadableValueError(text, DIAL_ADDRESS) from None
    if not address.host or not address.port or any(character.isspace() for character in address.host):
        raise UnreadableValueError(text, DIAL_ADDRESS)
    return str(address)


def parse_optional_dial_address(text: str) -> str:
    """Parse an address to dial; an empty text means none."""
    return parse_dial_address(text) if text else ""


def format_http_address(address: ListenAddress | None) -> str:
    """Format an HTTP address; `0` means off."""
    return "0" if address is None else str(address)
