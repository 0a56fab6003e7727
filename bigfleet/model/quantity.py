"""Resource quantities: Kubernetes quantity text to and from exact integers in units of 10⁻⁹.

Why: demand and supply are compared exactly; a float would make or break a tie (`engine#quantities`, `engine#vectors`).
Must never: turn unreadable text into zero. It is refused here, at every boundary (`engine#quantities`, ADR-0090).
"""

import re

from bigfleet.model.errors import InvalidFieldError

NANO = 10**9
"""One whole unit, in the units of this module."""

MAX_TEXT = 64
MAX_NANO = 10**30 * NANO  # far beyond any fleet, near enough that no input can ask for gigabytes of digits
_MAX_EXPONENT = 40  # beyond this nothing readable is left of MAX_NANO or of 10⁻⁹

ALLOWED = "a Kubernetes quantity such as 96, 500m, 0.5, 768Gi or 1e3"

_TEXT = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?:(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]*))?|\.(?P<bare>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]))?"
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def parse_quantity(text: str, field: str = "quantity") -> int:
    """Read a quantity as an exact number of 10⁻⁹ units; finer amounts are rounded away from zero."""
    match = _TEXT.fullmatch(text) if len(text) <= MAX_TEXT else None
    if match is None:
        raise InvalidFieldError(field, text[: MAX_TEXT + 1], ALLOWED)
    fraction = match["fraction"] or match["bare"] or ""
    digits = int((match["whole"] or "0") + fraction)
    if match["binary"]:
        digits <<= _BINARY[match["binary"]]
    tens = _tens(match, field, text) + 9 - len(fraction)
    # Ceiling division on a magnitude is rounding away from zero.
    nano: int = digits * 10**tens if tens >= 0 else -(-digits // 10**-tens)
    if nano > MAX_NANO:
        raise InvalidFieldError(field, text, "a quantity of at most 1e30")
    return -nano if match["sign"] == "-" else nano


def _tens(match: re.Match[str], field: str, text: str) -> int:
    if match["decimal"]:
        return _DECIMAL[match["decimal"]]
    if match["exponent"]:
        if abs(int(match["exponent"])) > _MAX_EXPONENT:
            raise InvalidFieldError(field, text, f"an exponent from -{_MAX_EXPONENT} to {_MAX_EXPONENT}")
        return int(match["exponent"])
    return 0


def parse_amount(text: str, field: str = "quantity") -> int:
    """Read a quantity that counts something, so it may not be negative."""
    nano = parse_quantity(text, field)
    if nano < 0:
        raise InvalidFieldError(field, text, "a quantity that is not negative")
    return nano


def format_quantity(nano: int) -> str:
    """Write an amount as exact decimal text without suffix, such as 8, 0.5 or 34359738368."""
    whole, rest = divmod(abs(nano), NANO)
    text = f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)
    return f"-{text}" if nano < 0 else text
