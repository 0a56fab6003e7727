"""The figures of the last cycles, and the needs that were short in each of them.

Why: one cycle does not show a trend: whether a need has just become short, or whether cycles slow down.
Must never: keep a cycle alive; it keeps figures and keys of short needs only, both bounded.
Rules: `dashboard#first-screen`, `dashboard#explain-history`, `dashboard#insight-service`.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bigfleet.engine.verdicts import short_places
from bigfleet.model.machine import NeedRef
from bigfleet.shard.core.coverage import held_off_reason
from bigfleet.shard.core.views import CycleFacts, CycleView

CYCLES_KEPT: Final = 720
"""Two hours of ten-second cycles."""
HISTORY: Final = 100
SHORT_KEPT: Final = 200_000
"""Short needs kept over all cycles, at about a hundred bytes each."""


@dataclass(frozen=True, slots=True)
class CycleSummary:
    """The figures of one completed cycle."""

    number: int
    computed_at_ns: int
    facts: CycleFacts
    actions: Mapping[str, int]
    """Decided actions by kind, whether carried out or not."""
    machines: int
    needs: int
    needs_short: int


@dataclass(frozen=True, slots=True)
class PastVerdict:
    """The verdict on a need in one cycle: SATISFIED, or the reason why it was short."""

    cycle: int
    reason: str


class CycleLog:
    """The newest cycles, oldest dropped first."""

    def __init__(self) -> None:
        self._summaries: deque[CycleSummary] = deque(maxlen=CYCLES_KEPT)
        self._short: deque[tuple[int, Mapping[NeedRef, str]]] = deque(maxlen=HISTORY)

    def add(self, view: CycleView) -> None:
        """Add a completed cycle."""
        verdicts = view.decision.verdicts
        short: dict[NeedRef, str] = {}
        for place in short_places(verdicts):
            need = verdicts[place].need
            key = NeedRef(need.cluster, need.profile.fingerprint, need.group)
            short[key] = verdicts[place].reason.value
        for place, held_off in view.held_off.items():
            need = verdicts[place].need
            key = NeedRef(need.cluster, need.profile.fingerprint, need.group)
            short.setdefault(key, held_off_reason(held_off))
        self._summaries.append(
            CycleSummary(
                number=view.number,
                computed_at_ns=view.computed_at_ns,
                facts=_figures_of(view.facts),
                actions=dict(sorted(Counter(action.kind.value for action in view.decision.actions).items())),
                machines=len(view.every_machine),
                needs=len(verdicts),
                needs_short=len({*short_places(verdicts), *view.held_off}),
            )
        )
        self._short.append((view.number, short))
        while len(self._short) > 1 and sum(len(each) for _, each in self._short) > SHORT_KEPT:
            self._short.popleft()

    def summaries(self, after: int = 0, limit: int = 0) -> tuple[CycleSummary, ...]:
        """The cycles after a number, oldest first; of more than the limit the latest."""
        found = [item for item in tuple(self._summaries) if item.number > after]
        return tuple(found[-limit:] if limit > 0 else found)

    def history(self, need: NeedRef) -> tuple[PastVerdict, ...]:
        """The verdicts on a need, oldest cycle first, beginning with the first cycle in which it was short."""
        past = [PastVerdict(cycle, short.get(need, "SATISFIED")) for cycle, short in tuple(self._short)]
        first = next((place for place, item in enumerate(past) if item.reason != "SATISFIED"), len(past))
        return tuple(past[first:])


def _figures_of(facts: CycleFacts) -> CycleFacts:
    """The facts without the actions, of which there can be thousands."""
    return CycleFacts(
        duration_s=facts.duration_s,
        phases_s=facts.phases_s,
        reconciled=facts.reconciled,
        capped=facts.capped,
        deferred=facts.deferred,
        backed_off=facts.backed_off,
        suppressed=facts.suppressed,
    )
