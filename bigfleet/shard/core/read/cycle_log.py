"""The figures of the last cycles, and the needs that were short in each of them.

Why: one cycle does not show a trend: whether a need has just become short, or whether cycles slow down.
Must never: keep a cycle alive; it keeps figures only, and a bounded history of short needs.
Rules: `dashboard#first-screen`, `dashboard#explain-history`, `dashboard#insight-service`.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bigfleet.engine.verdicts import short_places
from bigfleet.model.machine import NeedRef
from bigfleet.model.need import Need
from bigfleet.shard.core.coverage import held_off_reason
from bigfleet.shard.core.read.short_history import PastVerdict, ShortHistory
from bigfleet.shard.core.views import CycleFacts, CycleView

CYCLES_KEPT: Final = 720
"""Two hours of ten-second cycles."""


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


class CycleLog:
    """The newest cycles, oldest dropped first."""

    def __init__(self) -> None:
        self._summaries: deque[CycleSummary] = deque(maxlen=CYCLES_KEPT)
        self._short = ShortHistory()

    def add(self, view: CycleView) -> None:
        """Add a completed cycle."""
        verdicts = view.decision.verdicts
        self._short.add(view.number, view.demand, _short_needs(view))
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

    def summaries(self, after: int = 0, limit: int = 0) -> tuple[CycleSummary, ...]:
        """The cycles after a number, oldest first; of more than the limit the latest."""
        found = [item for item in tuple(self._summaries) if item.number > after]
        return tuple(found[-limit:] if limit > 0 else found)

    def history(self, need: NeedRef) -> tuple[PastVerdict, ...]:
        """The verdicts on a need, oldest cycle first, beginning with the first cycle in which it was short."""
        return self._short.of(need)


def _short_needs(view: CycleView) -> Iterator[tuple[Need, str]]:
    """The needs that the engine left short, then those whose machines are held off, and why."""
    verdicts = view.decision.verdicts
    for place in short_places(verdicts):
        yield verdicts[place].need, verdicts[place].reason.value
    for place, held_off in view.held_off.items():
        yield verdicts[place].need, held_off_reason(held_off)


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
