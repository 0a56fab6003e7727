"""Describes a profile in words: its requirements and penalties.

Must never: leave out a part that distinguishes two profiles; the fingerprint has the same parts.
Rules: `dashboard#page-contents`, `dashboard#look`.
"""

from collections.abc import Mapping
from typing import Any, Final

from bigfleet.dashboard.core.wording import count

_PRESENT: Final = {"Exists": "has {key}", "DoesNotExist": "has no {key}", "Same": "all in one {key}"}
_AMONG: Final = {"In": "{key} is {values}", "NotIn": "{key} is not {values}"}
_BUCKETS: Final = {"HALF_DOLLAR": "$0.50"}
_KEYS: Final = {
    "node.kubernetes.io/instance-type": "instance type",
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/arch": "architecture",
    "kubernetes.io/os": "operating system",
    "kubernetes.io/hostname": "host",
}
"""Short names of well-known labels; the heading's title has the full names."""
_NO_PENALTY: Final = ("ZERO", "UNSPECIFIED")


def profile_text(row: Mapping[str, Any]) -> str:
    """Return the profile of a need, in the form of `/needs`."""
    asked = [_requirement(part) for part in row["requirements"]]
    asked += [_spread(part) for part in row["spread"]]
    words = [f"Priority {count(row['priority'])}", "; ".join(asked) or "any machine"]
    for key, what in (
        ("interruptionPenaltyBucket", "interrupted"),
        ("reclamationPenaltyBucket", "reclaimed"),
    ):
        if row[key] not in _NO_PENALTY:
            words.append(_penalty(row[key], what))
    return " · ".join(words)


def _requirement(part: Mapping[str, Any]) -> str:
    values = " or ".join(part["values"])
    form = _AMONG.get(part["operator"]) or _PRESENT.get(part["operator"], "{key}, which is not understood")
    return form.format(key=_key(part["key"]), values=values or "nothing")


def _spread(part: Mapping[str, Any]) -> str:
    binding = "" if part["whenUnsatisfiable"] == "DoNotSchedule" else ", if possible"
    return f"spread over {_key(part['topologyKey'])}, at most {count(part['maxSkew'])} apart{binding}"


def _key(key: str) -> str:
    return _KEYS.get(key, key)


def _penalty(bucket: str, what: str) -> str:
    if bucket == "PINNED":
        return f"must not be {what}"
    return f"{_BUCKETS.get(bucket) or f'${count(int(bucket))}'} if {what}"
