"""Canonical Kubernetes text of quantities: 1.5 is `1500m`, 1.5Gi is `1536Mi`.

Why: what we write into objects and roll-ups is compared, also byte by byte, with what Kubernetes writes.
Must never: lose a unit of 10⁻⁹, or depend on the order in which amounts were added.
Rules: `operator#left-out-requests`.
"""

from typing import Final

from bigfleet.model.quantity import NANO, parse_quantity

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))
_FRACTIONS: Final = ((6, "m"), (3, "u"), (0, "n"))


def parse_with_family(text: str, field: str = "quantity") -> tuple[int, bool]:
    """Read a quantity as units of 10⁻⁹, and whether it was written with a binary suffix."""
    return parse_quantity(text, field), text.endswith("i")


def canonical_text(nano: int, *, binary: bool = False) -> str:
    """Write an amount as the API server would: no fraction, the largest suffix that loses nothing."""
    if nano < 0:
        return f"-{canonical_text(-nano, binary=binary)}"
    whole, rest = divmod(nano, NANO)
    if rest:
        # Binary suffixes allow whole units only; anything else is written in decimal.
        return next(f"{nano // 10**tens}{suffix}" for tens, suffix in _FRACTIONS if nano % 10**tens == 0)
    if not whole:
        return "0"
    if binary and whole >= 1024:
        power = 0
        while power < len(_BINARY) - 1 and whole % 1024 == 0:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY[power]}"
    return next(f"{whole // 10**tens}{suffix}" for tens, suffix in _DECIMAL if whole % 10**tens == 0)
