"""Verdicts: for every need whether it is satisfied and, if it is short, why.

Why: users and explanations read them; no decision may depend on them.
Must never: compute what may never be read: ids, raw rows and domains are computed on first use. No verdict may hold all
verdicts, see `_ListPlaces`.
Rules: `engine#verdicts`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from operator import eq
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.fleet import Fleet
from bigfleet.engine.fold import PlannedNeed
from bigfleet.engine.key_values import Numbers
from bigfleet.engine.kinds import Kinds
from bigfleet.engine.phase1.acquire import OpenNeed
from bigfleet.engine.phase1.cluster_run import ClusterRun, NeedOutcome
from bigfleet.engine.phase1.domains import candidates
from bigfleet.engine.phase1.gang_supply import GangSupply
from bigfleet.model.decision import (
    SUPPLY_CAP,
    DomainCoverage,
    LazySequence,
    MatchingSupply,
    Reason,
    Unresolved,
    Verdict,
)
from bigfleet.model.demand import Demand, ListKey
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO

_Acquired = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids that a need takes from Idle and from Speculative, ascending."""


def _acquired_ids(fleet: Fleet, open_needs: Sequence[OpenNeed]) -> list[_Acquired]:
    """What each need acquires; in one step, as after a burst there are tens of thousands of needs."""
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
    """The verdicts of one cycle in list order, each made on first use.

    Of tens of thousands of needs nearly all are satisfied as before. A late verdict still describes this cycle, since
    the runs, demand and supply of a cycle do not change after it.
    """

    def __init__(
        self,
        fleet: Fleet,
        demand: Demand,
        supply: GangSupply,
        *,
        runs: Mapping[str, ClusterRun],
        listed: Sequence[tuple[ListKey, str, int]],
        open_needs: Sequence[OpenNeed],
        exhausted: frozenset[int],
        victims: Mapping[int, Numbers],
    ) -> None:
        """`listed` says for each need whose it is and when it was visited; `exhausted` needs found too few victims."""
        self.kinds, self.stamps = fleet.kinds, fleet.stamps
        self.kind_of_row: NDArray[np.int32] = fleet.kind
        """Four bytes a machine, and mostly those that the next cycle works with."""
        self.victims = victims
        """Rows of the machines that leave, by place of the need that they leave for."""
        self._supply, self._runs, self._listed = supply, runs, listed
        self._places = _ListPlaces(demand, runs, listed)
        self._unfolded = self._places.classes_from == len(listed)
        self._id_reader = _IdReader(fleet)
        self._supplies: dict[MatchingSupply, MatchingSupply] = {}  # few differ
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

    def holders(self, size: int) -> NDArray[np.int32]:
        """For each row of an inventory of this size the place of the need that holds the machine, or -1."""
        holders = np.full(size, -1, dtype=np.int32)
        members, whose = self._credited()
        holders[members] = whose
        acquired = self._acquired
        counts = np.fromiter(map(len, acquired.values()), dtype=np.intp, count=len(acquired))
        rows = np.fromiter(chain.from_iterable(acquired.values()), dtype=np.intp, count=int(counts.sum()))
        holders[rows] = np.repeat(np.fromiter(acquired, dtype=np.int32, count=len(acquired)), counts)
        return holders

    def _credited(self) -> tuple[Numbers, Numbers]:
        """All rows that are credited to needs, and the places of these needs; in one step, as there are tens of thousands."""
        runs = self._runs
        first_visit: dict[str, int] = {}
        visits = 0
        for name, run in runs.items():
            first_visit[name] = visits
            visits += len(run.outcomes)
        credited = [outcome.credited for run in runs.values() for outcome in run.outcomes]
        if not credited:
            return _NO_ROWS, _NO_ROWS
        place_of = np.empty(visits, dtype=np.intp)
        place_of[[first_visit[name] + visit for _, name, visit in self._listed]] = np.arange(visits)
        counts = np.fromiter(map(len, credited), dtype=np.intp, count=visits)
        rows = np.concatenate([run.members.rows for run in runs.values()]).astype(np.intp)
        first_member = np.cumsum([0, *(run.members.rows.size for run in runs.values())][:-1])
        offsets = np.repeat(first_member, [len(run.outcomes) for run in runs.values()])
        members = np.concatenate(credited) + np.repeat(offsets, counts)
        return rows[members], np.repeat(place_of, counts)

    @property
    def classes_from(self) -> int:
        """The place of the first folded need; all before it are in the order of the demand."""
        return self._places.classes_from

    def domain(self, place: int) -> str | None:
        """The domain of the need at a place, if it is a gang."""
        run, visit = self._visit(place)
        return run.outcomes[visit].domain

    def _visit(self, place: int) -> tuple[ClusterRun, int]:
        _, name, visit = self._listed[place]
        return self._runs[name], visit

    def _of_satisfied(self, place: int) -> Verdict:
        run, visit = self._visit(place)
        plan, outcome = run.plans[visit], run.outcomes[visit]
        return Verdict(
            plan.need,
            self._folded_from(place),
            claimed=self._claimed(run, outcome, ()),
            domain=outcome.domain,
            structurally_satisfiable=outcome.structural,
            parked=plan.parked,
            same_candidates=self._same_candidates(run, visit, outcome),
        )

    def _of_open(self, fleet: Fleet, item: OpenNeed, acquired: _Acquired, exhausted: bool) -> Verdict:
        """The verdict of a need that existing machines did not cover; made at once, as the state of the phases is lost later."""
        run, visit = self._visit(item.place)
        plan, outcome = run.plans[visit], run.outcomes[visit]
        counts = matching_supply(fleet, plan) if any(item.missing) else None
        if counts is not None:
            counts = self._supplies.setdefault(counts, counts)
        return Verdict(
            plan.need,
            self._folded_from(item.place),
            deficit=ZERO if counts is None else plan.missing(fleet.kinds.scale, item.missing),
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

    def _folded_from(self, place: int) -> Sequence[int]:
        if self._unfolded:
            return (place,)
        return LazySequence(partial(self._places.of, place))

    def _claimed(self, run: ClusterRun, outcome: NeedOutcome, acquired: Sequence[int]) -> Sequence[str]:
        if not outcome.credited.size and not acquired:
            return ()
        count = outcome.credited.size + len(acquired)
        return LazySequence(partial(self._id_reader.ids, run, outcome.credited, acquired), count)

    def _same_candidates(self, run: ClusterRun, visit: int, outcome: NeedOutcome) -> Sequence[DomainCoverage]:
        if outcome.domain is None:
            return ()
        return LazySequence(partial(_candidates, self.kinds, self._supply, run, visit))


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


_NO_ROWS: Numbers = np.empty(0, dtype=np.intp)


class _ListPlaces:
    """Where in the demand the rows of a need are.

    Apart from the verdicts, which hold its answers: a verdict that held all verdicts would be a cycle, and a process that
    sets live objects aside from garbage collection would keep each decision for an hour.
    """

    def __init__(
        self, demand: Demand, runs: Mapping[str, ClusterRun], listed: Sequence[tuple[ListKey, str, int]]
    ) -> None:
        self._demand, self._runs, self._listed = demand, runs, listed

    @property
    def classes_from(self) -> int:
        """The place of the first folded need; all before it are in the order of the demand."""
        return bisect_left(self._listed, ((1,), "", 0))

    @cached_property
    def _folded_keys(self) -> list[ListKey]:
        """The list keys of the rows that are folded into classes, in order; classes come after all other needs."""
        keys = []
        for _, name, visit in self._listed[self.classes_from :]:
            rows = self._demand.by_cluster[name].keys
            keys += [(0, *rows[place]) for place in self._runs[name].plans[visit].places]
        keys.sort()
        return keys

    def of(self, place: int) -> tuple[int, ...]:
        """The places in the given demand of the rows that make up a need.

        Needs that are not folded are here in that order, so what is missing before one of them are folded rows.
        """
        order, name, visit = self._listed[place]
        if order[0] == 0:
            return (place + bisect_left(self._folded_keys, order),)
        rows = self._demand.by_cluster[name].keys
        folded = sorted((0, *rows[row]) for row in self._runs[name].plans[visit].places)
        return tuple(
            bisect_left(self._listed, (key,)) + bisect_left(self._folded_keys, key) for key in folded
        )


class _IdReader:
    """Reads ids; keeps of the fleet only what that needs, since verdicts outlive a cycle."""

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


def _reason(item: OpenNeed, outcome: NeedOutcome, supply: MatchingSupply, exhausted: bool) -> Reason:
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
