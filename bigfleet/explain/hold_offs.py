"""Why a need is short, in words: the engine found no machine for it, or the machines that it found do not come.

Why: status, needs, explanations and pages must give the same reason for the same thing.
Rules: `shard#coverage-split`, `shard#provider-standing`.
"""

from collections.abc import Mapping
from typing import Final

HOLD_OFF_WORDS: Final[Mapping[str, str]] = {
    "provider-unreachable": "provider unreachable",
    "blob-back-off": "the operator could not make a bootstrap blob",
    "no-session": "no operator connected",
    "machine-back-off": "machines failed a short while ago",
    "not-accepted": "not accepted by the provider",
}


def hold_off_words(reason: str) -> str:
    """A reason in words; one that is not known stays as it is."""
    return HOLD_OFF_WORDS.get(reason, reason)


def verdict_words(reason: str) -> str:
    """The reason of a verdict in words: `no matching supply`."""
    return reason.lower().replace("_", " ")
