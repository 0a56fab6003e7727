"""Which labels of a provider's machines the shard takes over.

Why: labels reach nodes, snapshot documents, logs and pages. A provider that copies all tags of a machine may put a join
token or a whole start-up script among them, and the shard is not where that belongs.
Must never: refuse a machine for its labels: what does not fit is left out, counted and logged by its key, never by its
value.
Rules: `wire#labels-left-out`; ADR-0239.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.texts import has_control, key_fits, value_fits

SECRET, NO_LABEL = "secret", "no_label"
LABEL_REASONS: Final = (SECRET, NO_LABEL)

_SECRET_WORDS: Final = frozenset(
    {
        "password", "passwd", "passphrase", "secret", "token", "credential", "apikey",
        "blob", "bootstrap", "userdata", "cloudinit", "kubeconfig",
    }
)  # fmt: skip
_SECRET_PAIRS: Final = frozenset(
    {
        ("user", "data"),
        ("cloud", "init"),
        ("private", "key"),
        ("api", "key"),
        ("access", "key"),
        ("join", "command"),
    }
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def reason_to_leave_out(key: str, value: str) -> str | None:
    """Why a label is not taken over; None when it is."""
    if not key_fits(key) or not value_fits(value) or has_control(key) or has_control(value):
        return NO_LABEL
    # The name alone: a prefix is the domain of its owner, such as `bootstrap.example.com`.
    words = [word.lower().removesuffix("s") for word in _WORD.findall(key.rpartition("/")[2])]
    if _SECRET_WORDS.intersection(words) or _SECRET_PAIRS.intersection(pairwise(words)):
        return SECRET
    return None


def labels_left_out(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that are not taken over, as keys with the reason."""
    found = ((key, reason_to_leave_out(key, value)) for key, value in labels.items())
    return {key: reason for key, reason in found if reason is not None}


def labels_taken(labels: FrozenMap[str]) -> FrozenMap[str]:
    """The labels that are taken over; the same object when all of them are."""
    left_out = labels_left_out(labels)
    if not left_out:
        return labels
    return FrozenMap({key: value for key, value in labels.items() if key not in left_out})
