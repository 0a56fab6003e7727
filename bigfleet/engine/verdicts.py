"""Verdicts: for every need whether it is satisfied and, if it is short, why.

Why: users and explanations read them; no decision may depend on them.
Must never: compute what may never be read: ids, raw rows and domains are computed on first use. No verdict may hold all
verdicts, see `_ListPlaces`.
Rules: `engine#verdicts`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from operator import eq
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.fleet import Fleet
from bigfleet.engine.fold import PlannedNeed
from bigfleet.engine.key_values import Numbers
from bigfleet.engine.kinds import Kinds
from bigfleet.engine.list_order import ListOrder
from bigfleet.engine.phase1.cluster_run import ClusterRun, NeedOutcome
from bigfleet.engine.phase1.domains import candidates
from bigfleet.engine.phase1.gang_supply import GangSupply
from bigfleet.engine.phase1.open_needs import OpenNeeds
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import (
    SUPPLY_CAP,
    DomainCoverage,
    LazySequence,
    MatchingSupply,
    Reason,
    Verdict,
)
from bigfleet.model.demand import Demand, ListKey
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO

_Acquired = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids that a need takes from Idle and from Speculative, ascending."""


class Acquisitions:
    """What open needs acquired, by id; all ids are read in one step, when somebody asks for the first of them.

    Of the fleet it keeps what that needs, since actions and verdicts outlive a cycle.
    """

    def __init__(self, fleet: Fleet, open_needs: OpenNeeds) -> None:
        self._ids, self._open = fleet.snapshot.ids, open_needs
        whose, rows = open_needs.claims
        self._later = fleet.state[rows] != MachineState.IDLE
        self._rank = fleet.rank[rows]
        counts = np.bincount(whose, minlength=len(open_needs))
        self._ends, self._counts = np.cumsum(counts), counts
        self._idle = counts - np.bincount(whose[self._later], minlength=counts.size)

    def __len__(self) -> int:
        return int(self._rank.size)

    @cached_property
    def _texts(self) -> list[str]:
        """Ids by need, those of Idle machines first, ascending."""
        whose, rows = self._open.claims
        order = np.lexsort((self._rank, self._later, whose))
        return [text or "" for text in self._ids.many(rows[order])]

    def of(self, number: int) -> _Acquired:
        """What one open need acquired."""
        count = int(self._counts[number])
        if not count:
            return (), ()
        texts, end = self._texts, int(self._ends[number])
        middle = end - count + int(self._idle[number])
        return tuple(texts[end - count : middle]), tuple(texts[middle:end])

    def actions(self) -> list[Action]:
        """Bootstraps and Provisions by need in list order, ids ascending in each."""
        open_needs = self._open
        taking = self._counts.nonzero()[0]
        made: list[Action] = []
        texts, start = self._texts, 0
        for number, count, first, place in zip(
            taking.tolist(),
            self._counts[taking].tolist(),
            self._idle[taking].tolist(),
            open_needs.places[taking].tolist(),
            strict=True,
        ):
            need = open_needs.visited(number)[0].need
            fingerprint = need.profile.fingerprint
            for at in range(start, start + count):
                kind = ActionKind.BOOTSTRAP if at < start + first else ActionKind.PROVISION
                made.append(Action(kind, texts[at], need.cluster, fingerprint, need.group, place))
            start += count
        return made


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
        listed: ListOrder,
        open_needs: OpenNeeds,
        acquired: Acquisitions,
        exhausted: frozenset[int],
        victims: Mapping[int, Numbers],
    ) -> None:
        """`exhausted` needs, by place, found too few victims."""
        self.kinds, self.stamps = fleet.kinds, fleet.stamps
        self.kind_of_row: NDArray[np.int32] = fleet.kind
        """Four bytes a machine, and mostly those that the next cycle works with."""
        self.victims = victims
        """Rows of the machines that leave, by place of the need that they leave for."""
        self._supply, self._runs, self._listed = supply, runs, listed
        self._open, self._acquired, self._exhausted = open_needs, acquired, exhausted
        self._counts = dict(fleet.counts)  # of this cycle
        self._places = _ListPlaces(demand, listed)
        self._id_reader = _IdReader(fleet)
        self._supplies: dict[int, MatchingSupply] = {}
        """By the address of the kinds that may serve; tens of thousands of sorts of needs have few answers."""
        self._made: dict[int, Verdict] = {}

    @cached_property
    def short_places(self) -> tuple[int, ...]:
        """The needs that Phase 1 left short, in list order."""
        return tuple(self._open.places[self._open.short].tolist())

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
            number = self._open.number_at(place)
            made = self._of_satisfied(place) if number is None else self._of_open(place, number)
            self._made[place] = made
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
        return [plan.need for plan in self._listed.plans()]

    def parked_places(self) -> list[int]:
        """The needs whose acquisition is parked."""
        return [
            int(place)
            for number, run in enumerate(self._runs.values())
            if run.planned.gangs  # only they are parked, and most clusters have few
            for visit, place in enumerate(self._listed.places(number))
            if run.plans[visit].parked
        ]

    def holders(self, size: int) -> NDArray[np.int32]:
        """For each row of an inventory of this size the place of the need that holds the machine, or -1."""
        holders = np.full(size, -1, dtype=np.int32)
        members, whose = self._credited()
        holders[members] = whose
        numbers, rows = self._open.claims
        holders[rows] = self._open.places[numbers]
        return holders

    def _credited(self) -> tuple[Numbers, Numbers]:
        """All rows that are credited to needs, and the places of these needs; in one step, as there are tens of thousands."""
        rows, places = [_NO_ROWS], [_NO_ROWS]
        for number, run in enumerate(self._runs.values()):
            members, visits = run.credited
            rows.append(run.rows(members))
            places.append(self._listed.places(number)[visits])
        return np.concatenate(rows), np.concatenate(places)

    @property
    def classes_from(self) -> int:
        """The place of the first folded need; all before it are in the order of the demand."""
        return self._places.classes_from

    def domain(self, place: int) -> str | None:
        """The domain of the need at a place, if it is a gang."""
        run, visit = self._visit(place)
        return run.outcomes[visit].domain

    def _visit(self, place: int) -> tuple[ClusterRun, int]:
        name, visit = self._listed.at(place)
        return self._runs[name], visit

    def _of_satisfied(self, place: int) -> Verdict:
        run, visit = self._visit(place)
        plan, outcome = run.plans[visit], run.outcomes[visit]
        return Verdict(
            plan.need,
            self._folded_from(place),
            claimed=self._claimed(run, outcome, _NO_ROWS),
            domain=outcome.domain,
            structurally_satisfiable=outcome.structural,
            parked=plan.parked,
            same_candidates=self._same_candidates(run, visit, outcome),
        )

    def _of_open(self, place: int, number: int) -> Verdict:
        """The verdict of a need that existing machines did not cover."""
        run, visit = self._visit(place)
        plan, outcome = run.plans[visit], run.outcomes[visit]
        missing = self._open.missing(number)
        counts = self._matching_supply(int(self._open.ask_of[number])) if any(missing) else None
        rows, ids = self._open.acquired(number), self._acquired.of(number)
        reason = Reason.SATISFIED
        if counts is not None:
            reason = _reason(plan, outcome, bool(rows.size), counts, place in self._exhausted)
        return Verdict(
            plan.need,
            self._folded_from(place),
            deficit=ZERO if counts is None else plan.missing(self.kinds.scale, missing),
            claimed=self._claimed(run, outcome, rows),
            bootstrapped=ids[0],
            provisioned=ids[1],
            domain=outcome.domain,
            structurally_satisfiable=outcome.structural,
            parked=plan.parked,
            reason=reason,
            matching_supply=counts,
            same_candidates=self._same_candidates(run, visit, outcome),
        )

    def _matching_supply(self, ask: int) -> MatchingSupply:
        """Machines anywhere that could serve a need, each count up to the cap."""
        flags = self._open.asks.flags[ask]
        found = self._supplies.get(id(flags))
        if found is None:
            idle, speculative, configured = (
                min(SUPPLY_CAP, int(self._counts[state][flags].sum()))
                for state in (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.CONFIGURED)
            )
            found = self._supplies[id(flags)] = MatchingSupply(idle, speculative, configured)
        return found

    def _folded_from(self, place: int) -> Sequence[int]:
        if not self._places.folds:
            return (place,)
        return LazySequence(partial(self._places.of, place))

    def _claimed(self, run: ClusterRun, outcome: NeedOutcome, acquired: Numbers) -> Sequence[str]:
        if not outcome.credited.size and not acquired.size:
            return ()
        count = outcome.credited.size + acquired.size
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

    def __init__(self, demand: Demand, listed: ListOrder) -> None:
        self._demand, self._listed = demand, listed

    @cached_property
    def classes_from(self) -> int:
        """The place of the first folded need; all before it are in the order of the demand."""
        return self._listed.place_of_key((1,))

    @property
    def folds(self) -> bool:
        """Whether there is a folded need."""
        return self.classes_from < len(self._listed)

    @cached_property
    def _folded_keys(self) -> list[ListKey]:
        """The list keys of the rows that are folded into classes, in order; classes come after all other needs."""
        keys = []
        for place in range(self.classes_from, len(self._listed)):
            keys += self._keys_of(place)
        keys.sort()
        return keys

    def _keys_of(self, place: int) -> list[ListKey]:
        name, _ = self._listed.at(place)
        rows = self._demand.by_cluster[name].keys
        return [(0, *rows[row]) for row in self._listed.plan(place).places]

    def of(self, place: int) -> tuple[int, ...]:
        """The places in the given demand of the rows that make up a need.

        Needs that are not folded are here in that order, so what is missing before one of them are folded rows.
        """
        order = self._listed.plan(place).order
        if order[0] == 0:
            return (place + bisect_left(self._folded_keys, order),)
        return tuple(
            self._listed.place_of_key(key) + bisect_left(self._folded_keys, key)
            for key in sorted(self._keys_of(place))
        )


class _IdReader:
    """Reads ids; keeps of the fleet only what that needs, since verdicts outlive a cycle."""

    def __init__(self, fleet: Fleet) -> None:
        self._ids = fleet.snapshot.ids

    def ids(self, run: ClusterRun, credited: Numbers, acquired: Numbers) -> list[str]:
        rows = np.concatenate([run.rows(credited), acquired])
        return sorted(text or "" for text in self._ids.many(rows))


def _candidates(kinds: Kinds, supply: GangSupply, run: ClusterRun, visit: int) -> tuple[DomainCoverage, ...]:
    plan = run.plans[visit]
    key = plan.need.profile.same_key or ""
    there = run.domain_supply(visit, key, kinds)
    if not plan.parked:
        there = there.with_shared(supply.at(plan, key))
    return candidates(there, plan.wanted, kinds.values(key).values)


def _reason(
    plan: PlannedNeed, outcome: NeedOutcome, acquired: bool, supply: MatchingSupply, exhausted: bool
) -> Reason:
    gang = plan.need.profile.same_key is not None
    if gang and (plan.parked or outcome.domain is None or not outcome.structural):
        return Reason.TOPOLOGY_UNSATISFIABLE
    something = outcome.credited.size or acquired
    if not (something or supply.idle or supply.speculative or supply.configured):
        return Reason.NO_MATCHING_SUPPLY
    return Reason.PREEMPTION_EXHAUSTED if exhausted else Reason.PRIORITY_STARVED
