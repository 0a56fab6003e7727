"""One node's drain, round by round: whom to ask to leave, and when it is over.

Why: what an answer to an eviction means for the next round, and for the end, is a rule of its own, apart from the calls.
Must never: ask a pod twice that has agreed, count a pod that stays by nature, or call a node drained while a pod is on it.
Rules: operator 7.4, ADR-0009.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

DEFAULT_GRACE_S: Final = 30
ROUND_S: Final = 2.0
_MIRROR: Final = "kubernetes.io/config.mirror"
_NAMED_IN_ERROR: Final = 5
_HOPELESS_EVERY: Final = 5
REFUSED_ROUNDS: Final = 5
"""So many rounds in a row must end in a refusal before it is believed: an API server that has just started refuses everybody
for some seconds, until it has read its roles (ADR-0126)."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod on the node."""

    namespace: str
    name: str
    uid: str
    terminating: bool = False
    stays: bool = False  # owned by a DaemonSet, or a mirror of a static pod: it would come back

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Word(Enum):
    """What an answer means for the pod."""

    AGREED = auto()  # it goes
    LATER = auto()  # ask again next round
    HOPELESS = auto()  # ask again, but seldom
    FORBIDDEN = auto()  # the whole drain is over, if it stays so


def pod_view(document: Mapping[str, Any]) -> PodView:
    """Return what a drain needs of a pod."""
    metadata = document["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owned = any(owner.get("kind") == "DaemonSet" and owner.get("controller") for owner in owners)
    return PodView(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        terminating=bool(metadata.get("deletionTimestamp")),
        stays=owned or _MIRROR in (metadata.get("annotations") or {}),
    )


class DrainPlan:
    """The memory of one drain."""

    def __init__(self, node: str, grace_s: float) -> None:
        self._node, self._grace_s = node, grace_s
        self._agreed: set[str] = set()
        self._hopeless: dict[str, int] = {}
        self._answers: dict[str, str] = {}
        self._round = 0
        self._left: tuple[PodView, ...] = ()
        self._forbidden: list[int] = []  # rounds in a row that ended in a refusal
        self.refused = ""

    def next_round(self, pods: Sequence[PodView]) -> list[PodView]:
        """Take the pods that are on the node now; return those to be asked, in order."""
        self._round += 1
        self._left = tuple(sorted((pod for pod in pods if not pod.stays), key=str))
        return [pod for pod in self._left if not pod.terminating and self._is_due(pod)]

    def pass_round(self) -> None:
        """Count a round in which the pods could not even be listed."""
        self._round += 1

    def note(self, pod: PodView, word: Word, text: str) -> None:
        """Take the answer to one eviction."""
        if text:
            self._answers[pod.uid] = text
        if word is Word.AGREED:
            self._agreed.add(pod.uid)
        elif word is Word.HOPELESS:
            self._hopeless[pod.uid] = self._round
        elif word is Word.FORBIDDEN:
            self.forbid(text or "eviction is forbidden")

    def forbid(self, text: str) -> None:
        """Take a refusal of this round; the drain is over once enough rounds in a row have ended so."""
        if self._round not in self._forbidden:
            in_a_row = self._forbidden and self._forbidden[-1] == self._round - 1
            self._forbidden = [*(self._forbidden if in_a_row else []), self._round]
        if len(self._forbidden) >= REFUSED_ROUNDS:
            self.refused = text

    @property
    def is_empty(self) -> bool:
        """Whether nothing that has to leave was on the node when it was last listed."""
        return not self._left

    def failure(self, why: str) -> str:
        """Return the sentence for the object: node, time, and who is left with the last word about each."""
        named = [self._about(pod) for pod in self._left[:_NAMED_IN_ERROR]]
        more = len(self._left) - len(named)
        tail = f" and {more} more" if more else ""
        left = f": {', '.join(named)}{tail}" if named else ""
        return (
            f"drain of node {self._node} {why} after {self._grace_s:g} s, {len(self._left)} pods left{left}"
        )

    def _is_due(self, pod: PodView) -> bool:
        if pod.uid in self._agreed:
            return False
        asked = self._hopeless.get(pod.uid)
        return asked is None or self._round - asked >= _HOPELESS_EVERY

    def _about(self, pod: PodView) -> str:
        state = "terminating" if pod.terminating or pod.uid in self._agreed else "not asked yet"
        return f"{pod} ({self._answers.get(pod.uid, state)})"
