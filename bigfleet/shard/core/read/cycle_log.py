"""The last cycles in figures, and how needs that were short fared in each of them.

Why: one cycle does not tell a trend: whether a need has just become short, or whether everything slows down.
Must never: keep a cycle alive; figures and keys of short needs only, both bounded.
Rules: dashboard 1, 6.1 (point 8) and 8.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bigfleet.engine.verdicts import short_places
from bigfleet.model.machine import NeedRef
from bigfleet.shard.core.views import CycleFacts, CycleView

CYCLES_KEPT: Final = 720
"""Two hours of ten-second cycles."""
HISTORY: Final = 100
SHORT_KEPT: Final = 200_000
"""Short needs remembered over all cycles, at about a hundred bytes each."""


@dataclass(frozen=True, slots=True)
class CycleSummary:
    """One completed cycle."""

    number: int
    computed_at_ns: int
    facts: CycleFacts
    actions: Mapping[str, int]
    """Decided, by kind, whether carried out or not."""
    machines: int
    needs: int
    needs_short: int


@dataclass(frozen=True, slots=True)
class PastVerdict:
    """How a need fared in one cycle; SATISFIED, or the reason why not."""

    cycle: int
    reason: str


class CycleLog:
    """The newest cycles, oldest dropped first."""

    def __init__(self) -> None:
        self._summaries: deque[CycleSummary] = deque(maxlen=CYCLES_KEPT)
        self._short: deque[tuple[int, Mapping[NeedRef, str]]] = deque(maxlen=HISTORY)

    def note(self, view: CycleView) -> None:
        """Take down a completed cycle."""
        verdicts = view.decision.verdicts
        short: dict[NeedRef, str] = {}
        for place in short_places(verdicts):
            need = verdicts[place].need
            key = NeedRef(need.cluster, need.profile.fingerprint, need.group)
            short[key] = verdicts[place].reason.value
        self._summaries.append(
            CycleSummary(
                number=view.number,
                computed_at_ns=view.computed_at_ns,
                facts=_figures_of(view.facts),
                actions=dict(sorted(Counter(action.kind.value for action in view.decision.actions).items())),
                machines=len(view.snapshot),
                needs=len(verdicts),
                needs_short=len(short),
            )
        )
        self._short.append((view.number, short))
        while len(self._short) > 1 and sum(len(each) for _, each in self._short) > SHORT_KEPT:
            self._short.popleft()

    def summaries(self, after: int = 0, limit: int = 0) -> tuple[CycleSummary, ...]:
        """Cycles later than a number, the oldest first; of more than the limit the latest."""
        found = [item for item in tuple(self._summaries) if item.number > after]
        return tuple(found[-limit:] if limit > 0 else found)

    def history(self, need: NeedRef) -> tuple[PastVerdict, ...]:
        """How a need fared, the oldest cycle first, from the first cycle on in which it was short."""
        told = [PastVerdict(cycle, short.get(need, "SATISFIED")) for cycle, short in tuple(self._short)]
        first = next((place for place, item in enumerate(told) if item.reason != "SATISFIED"), len(told))
        return tuple(told[first:])


def _figures_of(facts: CycleFacts) -> CycleFacts:
    """Without the actions themselves, of which there can be thousands."""
    return CycleFacts(
        duration_s=facts.duration_s,
        phases_s=facts.phases_s,
        reconciled=facts.reconciled,
        capped=facts.capped,
        deferred=facts.deferred,
        held_off=facts.held_off,
        suppressed=facts.suppressed,
    )
