"""Verdicts: for every need how it fares and, if it is short, why.

Why: people ask; nothing else may depend on it.
Called by: the planner, after Phase 2.
Must never: work out what nobody may ever look at: ids, raw rows and domains are told when somebody asks.
Rules: decision-engine 10.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import eq
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.fleet import Fleet
from bigfleet.engine.fold import PlannedNeed
from bigfleet.engine.kinds import Kinds, Numbers
from bigfleet.engine.phase1.acquire import OpenNeed
from bigfleet.engine.phase1.cluster_run import ClusterRun, Outcome
from bigfleet.engine.phase1.domains import candidates
from bigfleet.engine.phase1.gang_supply import GangSupply
from bigfleet.model.decision import (
    SUPPLY_CAP,
    DomainCoverage,
    MatchingSupply,
    Reason,
    Told,
    Unresolved,
    Verdict,
)
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO

_Acquired = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids that a need takes from Idle and from Speculative, ascending."""


def _acquired_ids(fleet: Fleet, open_needs: Sequence[OpenNeed]) -> list[_Acquired]:
    """For each need what it acquires; all of them at once, as after a burst there are tens of thousands."""
    rows = np.array([row for item in open_needs for row in item.acquired], dtype=np.intp)
    counts = np.array([len(item.acquired) for item in open_needs], dtype=np.intp)
    whose = np.repeat(np.arange(counts.size), counts)
    later = fleet.state[rows] != MachineState.IDLE
    order = np.lexsort((fleet.rank[rows], later, whose))
    ids = [text or "" for text in fleet.snapshot.ids.many(rows[order])]
    idle = (counts - np.bincount(whose[later], minlength=counts.size)).tolist()
    ends = np.cumsum(counts).tolist()
    return [
        (tuple(ids[end - count : end - count + first]), tuple(ids[end - count + first : end]))
        for end, count, first in zip(ends, counts.tolist(), idle, strict=True)
    ]


class Verdicts(Sequence[Verdict]):
    """The verdicts of one cycle in list order, each made when somebody looks at it.

    Of tens of thousands of needs nearly all are satisfied as before. What is told is what held in this cycle, whenever
    it is told: runs, demand and supply of a cycle do not change after it.
    """

    def __init__(
        self,
        fleet: Fleet,
        demand: Demand,
        supply: GangSupply,
        *,
        runs: Mapping[str, ClusterRun],
        listed: Sequence[tuple[object, str, int]],
        open_needs: Sequence[OpenNeed],
        exhausted: frozenset[int],
    ) -> None:
        """`listed` says for each need whose it is and when it was visited; `exhausted` needs found too few victims."""
        self._kinds, self._demand, self._supply = fleet.kinds, demand, supply
        self._runs, self._listed = runs, listed
        self._teller = _Teller(fleet)
        acquired = _acquired_ids(fleet, open_needs)
        self._made: dict[int, Verdict] = {
            item.place: self._of_open(fleet, item, ids, item.place in exhausted)
            for item, ids in zip(open_needs, acquired, strict=True)
        }

        self._acquired: Mapping[int, Sequence[int]] = {
            item.place: item.acquired for item in open_needs if item.acquired
        }
        self.short_places: tuple[int, ...] = tuple(item.place for item in open_needs if any(item.missing))
        """The needs that Phase 1 left short, in list order."""

    def __len__(self) -> int:
        return len(self._listed)

    @overload
    def __getitem__(self, at: int) -> Verdict: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Verdict, ...]: ...
    def __getitem__(self, at: int | slice) -> Verdict | tuple[Verdict, ...]:
        if isinstance(at, slice):
            return tuple([self[place] for place in range(*at.indices(len(self)))])
        place = range(len(self))[at]
        made = self._made.get(place)
        if made is None:
            made = self._made[place] = self._of_satisfied(place)
        return made

    def __iter__(self) -> Iterator[Verdict]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def needs(self) -> list[Need]:
        """The needs alone, in the same order, without a verdict being made."""
        runs = self._runs
        return [runs[name].plans[visit].need for _, name, visit in self._listed]

    def parked_places(self) -> list[int]:
        """The needs whose acquisition is parked."""
        # Looked for run by run first: there are none as a rule, and the way from a need to its plan is long.
        parked = {
            (name, visit)
            for name, run in self._runs.items()
            for visit, plan in enumerate(run.plans)
            if plan.parked
        }
        if not parked:
            return []
        return [place for place, (_, name, visit) in enumerate(self._listed) if (name, visit) in parked]

    def claimed_rows(self) -> Iterator[tuple[int, Numbers]]:
        """For each need that has machines, existing or acquired, their rows in the inventory."""
        for place, (_, name, visit) in enumerate(self._listed):
            run = self._runs[name]
            credited = run.outcomes[visit].credited
            if credited.size:
                yield place, run.rows(credited)
        for place, rows in self._acquired.items():
            yield place, np.array(rows, dtype=np.intp)

    def _visit(self, place: int) -> tuple[ClusterRun, int]:
        _, name, visit = self._listed[place]
        return self._runs[name], visit

    def _of_satisfied(self, place: int) -> Verdict:
        run, visit = self._visit(place)
        plan, outcome = run.plans[visit], run.outcomes[visit]
        return Verdict(
            plan.need,
            self._folded_from(plan),
            claimed=self._claimed(run, outcome, ()),
            domain=outcome.domain,
            structurally_satisfiable=outcome.structural,
            parked=plan.parked,
            same_candidates=self._same_candidates(run, visit, outcome),
        )

    def _of_open(self, fleet: Fleet, item: OpenNeed, acquired: _Acquired, exhausted: bool) -> Verdict:
        """The verdict of a need that existing machines did not cover; told at once, as the phases' notes pass."""
        run, visit = self._visit(item.place)
        plan, outcome = run.plans[visit], run.outcomes[visit]
        counts = matching_supply(fleet, plan) if any(item.missing) else None
        return Verdict(
            plan.need,
            self._folded_from(plan),
            deficit=ZERO if counts is None else fleet.kinds.scale.resources(item.missing),
            claimed=self._claimed(run, outcome, item.acquired),
            bootstrapped=acquired[0],
            provisioned=acquired[1],
            domain=outcome.domain,
            structurally_satisfiable=outcome.structural,
            parked=plan.parked,
            reason=Reason.SATISFIED if counts is None else _reason(item, outcome, counts, exhausted),
            matching_supply=counts,
            same_candidates=self._same_candidates(run, visit, outcome),
        )

    def _folded_from(self, plan: PlannedNeed) -> Told[int]:
        return Told(partial(self._demand.list_places, plan.need.cluster, plan.places))

    def _claimed(self, run: ClusterRun, outcome: Outcome, acquired: Sequence[int]) -> Sequence[str]:
        if not outcome.credited.size and not acquired:
            return ()
        count = outcome.credited.size + len(acquired)
        return Told(partial(self._teller.ids, run, outcome.credited, acquired), count)

    def _same_candidates(self, run: ClusterRun, visit: int, outcome: Outcome) -> Sequence[DomainCoverage]:
        if outcome.domain is None:
            return ()
        return Told(partial(_candidates, self._kinds, self._supply, run, visit))


def short_places(verdicts: Sequence[Verdict]) -> Sequence[int]:
    """The needs that Phase 1 left short, without making the verdicts of all the others."""
    if isinstance(verdicts, Verdicts):
        return verdicts.short_places
    return [place for place, verdict in enumerate(verdicts) if not verdict.satisfied]


def needs_of(verdicts: Sequence[Verdict]) -> Sequence[Need]:
    """The needs that verdicts are about, in their order, without making the verdicts."""
    return verdicts.needs() if isinstance(verdicts, Verdicts) else [verdict.need for verdict in verdicts]


def parked_places(verdicts: Sequence[Verdict]) -> Sequence[int]:
    """The needs whose acquisition was parked, without making the verdicts of all the others."""
    if isinstance(verdicts, Verdicts):
        return verdicts.parked_places()
    return [place for place, verdict in enumerate(verdicts) if verdict.parked]


def holder_rows(verdicts: Sequence[Verdict], snapshot: InventorySnapshot) -> NDArray[np.int64]:
    """For every row of the snapshot that was decided on the need that claims it, -1 where none does."""
    holders = np.full(snapshot.columns["state"].size, -1, dtype=np.int64)
    if isinstance(verdicts, Verdicts):
        for place, rows in verdicts.claimed_rows():
            holders[rows] = place
        return holders
    for place, verdict in enumerate(verdicts):
        for machine_id in verdict.claimed:
            row = snapshot.row_of(machine_id)
            if row is not None:
                holders[row] = place
    return holders


class _Teller:
    """Tells ids; keeps of the fleet only what that takes, as verdicts live longer than a cycle."""

    def __init__(self, fleet: Fleet) -> None:
        self._ids = fleet.snapshot.ids

    def ids(self, run: ClusterRun, credited: Numbers, acquired: Sequence[int]) -> list[str]:
        rows = np.concatenate([run.rows(credited), np.array(acquired, dtype=np.intp)])
        return sorted(text or "" for text in self._ids.many(rows))


def _candidates(kinds: Kinds, supply: GangSupply, run: ClusterRun, visit: int) -> tuple[DomainCoverage, ...]:
    plan = run.plans[visit]
    key = plan.need.profile.same_key or ""
    there = run.domain_supply(visit, key, kinds)
    if not plan.parked:
        there = there.with_shared(supply.at(plan, key))
    return candidates(there, plan.wanted, kinds.values(key).values)


def matching_supply(fleet: Fleet, plan: PlannedNeed) -> MatchingSupply:
    """Machines anywhere that could serve the need, each count up to the cap."""
    flags = fleet.kinds.acquirable(plan.need.profile, plan.need.unit)
    idle, speculative, configured = (
        min(SUPPLY_CAP, int(fleet.counts[state][flags].sum()))
        for state in (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.CONFIGURED)
    )
    return MatchingSupply(idle, speculative, configured)


def _reason(item: OpenNeed, outcome: Outcome, supply: MatchingSupply, exhausted: bool) -> Reason:
    gang = item.need.profile.same_key is not None
    if gang and (item.plan.parked or outcome.domain is None or not outcome.structural):
        return Reason.TOPOLOGY_UNSATISFIABLE
    something = outcome.credited.size or item.acquired
    if not (something or supply.idle or supply.speculative or supply.configured):
        return Reason.NO_MATCHING_SUPPLY
    return Reason.PREEMPTION_EXHAUSTED if exhausted else Reason.PRIORITY_STARVED


def exhausted_needs(unresolved: Sequence[Unresolved]) -> frozenset[int]:
    """The needs for which victims were found, and not enough of them."""
    return frozenset(item.need for item in unresolved if item.victims)
