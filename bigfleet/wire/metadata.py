"""The assignment of a machine as the provider keeps it for us: text under our own keys.

Why: a shard keeps no disk copy of its decisions; after a restart the provider's echo is where they come back from.
Must never: let one unreadable value spoil the others, or keep keys it does not know (the provider does).
Rules: `shard#metadata`, `shard#restart`, `engine#stamps`.
"""

import math
import re
from collections.abc import Mapping

from bigfleet.model.machine import Assignment

PREFIX = "bigfleet.lucy.sh/"
PRIORITY = f"{PREFIX}assigned-priority"
INTERRUPTION_PENALTY = f"{PREFIX}assigned-interruption-penalty-dollars"
RECLAMATION_PENALTY = f"{PREFIX}assigned-reclamation-penalty-dollars"
FINGERPRINT = f"{PREFIX}assigned-need-fingerprint"
GROUP = f"{PREFIX}assigned-group"
OWNER_SHARD = f"{PREFIX}owner-shard"

MAX_FINGERPRINT, MAX_GROUP = 256 * 1024, 16 * 1024
"""Characters; longer ones cannot be ours, as no row of demand makes them."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|\+?[Ii]nf(?:inity)?")


def assignment_to_metadata(assigned: Assignment, owner_shard: str) -> dict[str, str]:
    """All keys, always, so that an old value can never be mistaken for a current one."""
    return {
        PRIORITY: str(assigned.priority),
        INTERRUPTION_PENALTY: _dollars_text(assigned.interruption_penalty),
        RECLAMATION_PENALTY: _dollars_text(assigned.reclamation_penalty),
        FINGERPRINT: assigned.fingerprint,
        GROUP: assigned.group,
        OWNER_SHARD: owner_shard,
    }


def assignment_from_metadata(metadata: Mapping[str, str]) -> tuple[Assignment, tuple[str, ...]]:
    """The assignment, and the keys whose values could not be read and were skipped."""
    priority = _integer(metadata.get(PRIORITY, "0"))
    interruption = _dollars(metadata.get(INTERRUPTION_PENALTY, "0"))
    reclamation = _dollars(metadata.get(RECLAMATION_PENALTY, "0"))
    readings = (
        (PRIORITY, priority),
        (INTERRUPTION_PENALTY, interruption),
        (RECLAMATION_PENALTY, reclamation),
    )
    fingerprint, group = metadata.get(FINGERPRINT, ""), metadata.get(GROUP, "")
    long = tuple(
        key
        for key, text, most in ((FINGERPRINT, fingerprint, MAX_FINGERPRINT), (GROUP, group, MAX_GROUP))
        if len(text) > most
    )
    assigned = Assignment(
        priority=priority or 0,
        interruption_penalty=interruption or 0.0,
        reclamation_penalty=reclamation or 0.0,
        fingerprint="" if FINGERPRINT in long else fingerprint,
        group="" if GROUP in long else group,
    )
    return assigned, (*(key for key, reading in readings if reading is None), *long)


def _integer(text: str) -> int | None:
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and -(2**31) <= value < 2**31 else None


def _dollars(text: str) -> float | None:
    value = float(text) if _DECIMAL.fullmatch(text) else None
    return value if value is not None and value >= 0 else None


def _dollars_text(dollars: float) -> str:
    # Python's own `inf` would be read by the original too, but this is the form that it writes.
    return "+Inf" if math.isinf(dollars) else f"{dollars:.17g}" if dollars % 1 else f"{dollars:.0f}"
