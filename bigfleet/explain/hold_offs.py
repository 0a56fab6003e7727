"""How far the machines of a need are, and why it is short, in words.

Why: status, needs, explanations and pages must give the same reason for the same thing.
Rules: `shard#coverage-split`, `shard#provider-standing`.
"""

from collections.abc import Mapping
from typing import Final

from bigfleet.model.coverage import CoverageSplit

HOLD_OFF_WORDS: Final[Mapping[str, str]] = {
    "provider-unreachable": "provider unreachable",
    "blob-back-off": "the operator could not make a bootstrap blob",
    "no-session": "no operator connected",
    "machine-back-off": "machines failed a short while ago",
    "ownership-unsettled": "the shard does not know yet which machines are its own",
    "not-accepted": "not accepted by the provider",
}


def hold_off_words(reason: str) -> str:
    """A reason in words; one that is not known stays as it is."""
    return HOLD_OFF_WORDS.get(reason, reason)


def verdict_words(reason: str) -> str:
    """The reason of a verdict in words: `no matching supply`."""
    return reason.lower().replace("_", " ")


def coverage_text(split: CoverageSplit) -> str:
    """The parts of a need that are not empty: `2 running, 1 on order`."""
    counts = (
        (split.running, "running"),
        (split.joining, "joining"),
        (split.on_order, "on order"),
        (split.wanted, "wanted"),
    )
    return ", ".join(f"{count} {part}" for count, part in counts if count) or "it has no machine"
