"""Tells a reporter what the phases did, from what they left behind.

Why: almost everything a reporter gets can be computed after a phase, so the phases stay as fast and
as simple as without a reporter.
Must never: change anything it looks at.
Rules: `dashboard#explain`.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.fleet import Fleet
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.phase1.cluster_run import ClusterRun
from bigfleet.engine.phase1.gang_supply import GangSupply
from bigfleet.engine.reporter import DomainReport, PickReport, Reporter
from bigfleet.model.decision import Verdict
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need

Visit = tuple[ClusterRun, int]
"""A cluster's run, and the place of a need in it."""


def report_prepass(reporter: Reporter, fleet: Fleet, supply: GangSupply, visits: Iterable[Visit]) -> None:
    """Tell of every need, in list order, what was credited to it, and of every gang what it chose from."""
    for place, (run, visit) in enumerate(visits):
        outcome, key = run.outcomes[visit], run.plans[visit].need.profile.same_key
        taken = in_order(fleet, run.rows(outcome.credited))
        reporter.credited(place, PickReport(run.creditable_count(visit), taken))
        if key is not None:
            reporter.domains(place, _domains(fleet, supply, run, visit, key), outcome.domain)


def _domains(fleet: Fleet, supply: GangSupply, run: ClusterRun, visit: int, key: str) -> list[DomainReport]:
    plan, kinds = run.plans[visit], fleet.kinds
    there = run.domain_supply(visit, key, kinds)
    if not plan.parked:
        there = there.with_shared(supply.at(plan, key))
    amounts = kinds.scale.resources
    return [
        DomainReport(
            value=kinds.values(key).values[code],
            count=int(there.count[code]),
            total=amounts(there.total[code]),
            creditable=amounts(there.creditable[code]),
            own=amounts(there.own[code]),
        )
        for code in np.flatnonzero(there.count > 0).tolist()
    ]


def free_for(
    fleet: Fleet, need: Need, domain: str | None, taken: NDArray[np.bool_]
) -> dict[MachineState, int]:
    """How many free machines of either state a need could take at its turn."""
    flags = fleet.kinds.acquirable(need.profile, need.unit)
    if need.profile.same_key is not None and domain is not None:
        values = fleet.kinds.values(need.profile.same_key)
        flags = flags & (values.codes == values.code(domain))
    free: Flags = flags[fleet.kind] & ~taken
    return {
        state: int(np.count_nonzero(free & (fleet.state == state)))
        for state in (MachineState.IDLE, MachineState.SPECULATIVE)
    }


def report_acquired(
    reporter: Reporter, fleet: Fleet, place: int, free: Mapping[MachineState, int], rows: Sequence[int]
) -> None:
    """Tell what one need took."""
    held = np.array(rows, dtype=np.intp)
    idle, speculative = (
        PickReport(free[state], in_order(fleet, held[fleet.state[held] == state]))
        for state in (MachineState.IDLE, MachineState.SPECULATIVE)
    )
    reporter.acquired(place, idle, speculative)


def report_demand(reporter: Reporter, verdicts: Sequence[Verdict]) -> None:
    """Tell what was decided about."""
    reporter.demand(
        [verdict.need for verdict in verdicts], [tuple(verdict.folded_from) for verdict in verdicts]
    )


def report_excess(
    reporter: Reporter, fleet: Fleet, excess: Mapping[str, Numbers], reported: frozenset[str] | None
) -> None:
    """Tell what is reclaimed, and how much is not since its cluster has not reported."""
    machines: list[str] = []
    kept = 0
    for cluster in sorted(excess):
        if reported is None or cluster in reported:
            machines += in_order(fleet, excess[cluster])
        else:
            kept += excess[cluster].size
    reporter.reclaimed(machines, kept)


def in_order(fleet: Fleet, rows: Sequence[int] | Numbers) -> tuple[str, ...]:
    """The ids of rows, in the order of the rows."""
    return tuple(text or "" for text in fleet.snapshot.ids.many(np.asarray(rows, dtype=np.int32)))
