"""The rounds of one node's drain: which pods to evict, and when the drain is over.

Must never: evict a pod again that is leaving, count a DaemonSet or mirror pod, or call a node drained while a pod is on it.
Rules: `operator#drain-rounds`; ADR-0009.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

DEFAULT_GRACE_S: Final = 30
ROUND_S: Final = 2.0
_MIRROR: Final = "kubernetes.io/config.mirror"
_NAMED_IN_ERROR: Final = 5
_RARELY_EVERY: Final = 5
REFUSED_ROUNDS: Final = 5
"""Rounds in a row that must be refused before the drain fails: an API server that has just started refuses every account for
some seconds, until it has read its roles (ADR-0126)."""


@dataclass(frozen=True, slots=True)
class DrainPod:
    """What a drain needs of a pod."""

    namespace: str
    name: str
    uid: str
    terminating: bool = False
    stays: bool = False  # owned by a DaemonSet, or a mirror of a static pod: it would be created again

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class EvictionOutcome(Enum):
    """What the result of an eviction means for the next rounds."""

    LEAVING = auto()  # do not ask again
    RETRY = auto()  # ask again in the next round
    RETRY_RARELY = auto()  # ask again every fifth round
    FORBIDDEN = auto()  # ends the drain if it lasts


def drain_pod(document: Mapping[str, Any]) -> DrainPod:
    """Return what a drain needs of a pod."""
    metadata = document["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owned = any(owner.get("kind") == "DaemonSet" and owner.get("controller") for owner in owners)
    return DrainPod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        terminating=bool(metadata.get("deletionTimestamp")),
        stays=owned or _MIRROR in (metadata.get("annotations") or {}),
    )


class DrainPlan:
    """The state of one drain."""

    def __init__(self, node: str, grace_s: float) -> None:
        self._node, self._grace_s = node, grace_s
        self._leaving: set[str] = set()
        self._retried_rarely: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._round = 0
        self._left: tuple[DrainPod, ...] = ()
        self._forbidden: list[int] = []  # rounds in a row with a refusal
        self.refused = ""

    def next_round(self, pods: Sequence[DrainPod]) -> list[DrainPod]:
        """Start a round with the pods on the node; return those to evict, in order."""
        self._round += 1
        self._left = tuple(sorted((pod for pod in pods if not pod.stays), key=str))
        return [pod for pod in self._left if not pod.terminating and self._is_due(pod)]

    def skip_round(self) -> None:
        """Count a round in which the pods could not be listed."""
        self._round += 1

    def record(self, pod: DrainPod, outcome: EvictionOutcome, text: str) -> None:
        """Record the result of one eviction."""
        if text:
            self._errors[pod.uid] = text
        if outcome is EvictionOutcome.LEAVING:
            self._leaving.add(pod.uid)
        elif outcome is EvictionOutcome.RETRY_RARELY:
            self._retried_rarely[pod.uid] = self._round
        elif outcome is EvictionOutcome.FORBIDDEN:
            self.forbid(text or "eviction is forbidden")

    def forbid(self, text: str) -> None:
        """Record a refusal in this round; enough rounds in a row with one end the drain."""
        if self._round not in self._forbidden:
            in_a_row = self._forbidden and self._forbidden[-1] == self._round - 1
            self._forbidden = [*(self._forbidden if in_a_row else []), self._round]
        if len(self._forbidden) >= REFUSED_ROUNDS:
            self.refused = text

    @property
    def is_empty(self) -> bool:
        """Whether the last list had no pod that must leave."""
        return not self._left

    def failure(self, why: str) -> str:
        """Return the error for the UpcomingNode: node, time, and the pods left with the last error of each."""
        named = [self._described(pod) for pod in self._left[:_NAMED_IN_ERROR]]
        more = len(self._left) - len(named)
        tail = f" and {more} more" if more else ""
        left = f": {', '.join(named)}{tail}" if named else ""
        return (
            f"drain of node {self._node} {why} after {self._grace_s:g} s, {len(self._left)} pods left{left}"
        )

    def _is_due(self, pod: DrainPod) -> bool:
        if pod.uid in self._leaving:
            return False
        asked = self._retried_rarely.get(pod.uid)
        return asked is None or self._round - asked >= _RARELY_EVERY

    def _described(self, pod: DrainPod) -> str:
        state = "terminating" if pod.terminating or pod.uid in self._leaving else "not asked yet"
        return f"{pod} ({self._errors.get(pod.uid, state)})"
