"""The needs of a cycle as inspection shows them: which rows, in which order, with which ages.

Why: the verdicts stand in the engine's order, in which folded needs come last; readers are promised another one.
Called by: `bigfleet.shard.read_service`, off the event loop; `bigfleet needs` shows what it gives.
Must never: look at machines, or at anything a later cycle changes.
Rules: wire 6.1 (row order), shard 19 (joins).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.model.decision import Unresolved, Verdict
from bigfleet.model.situation import GangRef
from bigfleet.shard.core.views import CycleView


@dataclass(frozen=True, slots=True)
class NeedRow:
    """One need with what the ledgers say about it."""

    verdict: Verdict
    unresolved: Unresolved | None
    unmet_age: int
    parked_age: int


def rows_of(view: CycleView) -> list[NeedRow]:
    """All rows of a cycle: by priority descending, arrival, cluster, fingerprint, group."""
    rows = list(_rows(view))
    rows.sort(key=_order)
    return rows


def _rows(view: CycleView) -> Iterator[NeedRow]:
    left = {item.need: item for item in view.decision.unresolved}
    unmet, parked = view.unmet_ages, view.parked_ages
    for place, verdict in enumerate(view.decision.verdicts):
        need = verdict.need
        unresolved, fingerprint = left.get(place), need.profile.fingerprint
        age = 0 if unresolved is None else unmet.get(fingerprint, 0)
        gang = parked.get(GangRef(need.cluster, need.group, fingerprint), 0) if verdict.parked else 0
        yield NeedRow(verdict, unresolved, age, gang)


def _order(row: NeedRow) -> tuple[int, int, str, str, str]:
    need = row.verdict.need
    return (-need.profile.priority, need.arrival_ns, need.cluster, need.profile.fingerprint, need.group)
