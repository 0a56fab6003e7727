"""Phase 2: what Phase 1 left open is taken from workloads of strictly lower priority.

Why: priority is the only throttle, so a machine held by less important work is supply of the last resort.
Must never: take a machine twice, one claimed this cycle by a need of equal or higher precedence (`engine#victims`), or
a Draining one.
Rules: `engine#phase-2`; capacity already draining for a need counts (`engine#preemption-in-flight`); victim order
(`engine#victim-cost`); a machine that the need could not obtain helps it nothing (`engine#obtainable`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Scale, Vector
from bigfleet.engine.fleet import Fleet
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.phase1.broker import Precedence
from bigfleet.engine.phase1.open_needs import OpenNeed, OpenNeeds
from bigfleet.engine.reporter import Reporter, VictimReport
from bigfleet.engine.reporting import in_order
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import drain_grace_s
from bigfleet.model.decision import LazySequence, Unresolved
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds a bound machine in this cycle: by row the place of its need's precedence, -1 where none does."""

    rank: NDArray[np.int32]
    places: Mapping[Precedence, int]


@dataclass(frozen=True, slots=True)
class Phase2Result:
    """Who is to leave, and what stays open."""

    actions: tuple[Action, ...]
    unresolved: Sequence[Unresolved]
    exhausted: frozenset[int]
    """Places of needs for which victims were found, and not enough of them."""
    victims: Mapping[int, Numbers]
    """Rows of the machines that leave, by place of the need that they leave for."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """What Phase 2 left of a need that it looked at."""

    missing: Vector
    victims: int
    freed: Resources


def run_phase2(
    fleet: Fleet,
    open_needs: OpenNeeds,
    holders: Callable[[], Holders],
    reporter: Reporter | None = None,
) -> Phase2Result:
    """Find victims for every need that is still short, the highest priority first."""
    short = open_needs.short.nonzero()[0]
    if not short.size:
        return Phase2Result((), (), frozenset(), {})
    short = short[np.argsort(-open_needs.asks.priority[open_needs.ask_of[short]], kind="stable")]
    victims = _Victims(fleet, holders)
    draining = _Draining(fleet)
    hopeful = short if reporter is not None else _hopeful(fleet, open_needs, short, victims, draining)
    actions: list[Action] = []
    leaving: dict[int, Numbers] = {}
    rest: dict[int, _Rest | None] = {}
    for number in hopeful.tolist():
        item = open_needs.one(number)
        need, missing = item.need, item.missing
        gang = need.profile.same_key is not None
        if item.plan.parked or (gang and item.domain is None):
            continue
        usable = _usable_kinds(fleet, item)
        counted, missing = draining.count_for(item, usable, missing)
        seen = (0, 0) if reporter is None else victims.seen(item, usable)
        taken, left = victims.take(item, usable, missing) if any(missing) else (_NONE, missing)
        if reporter is not None:
            note = VictimReport(in_order(fleet, counted), *seen, in_order(fleet, taken))
            reporter.victims(item.place, note)
        if taken.size:
            leaving[item.place] = taken
        actions += [_preempt(fleet, item, row) for row in taken.tolist()]
        rest[number] = _Rest(left, taken.size, _freed(fleet, need, taken)) if any(left) else None
    covered = [number for number, left in rest.items() if left is None]
    if covered:
        short = short[~np.isin(short, covered)]
    exhausted = frozenset(
        int(open_needs.places[number]) for number, left in rest.items() if left is not None and left.victims
    )
    make = partial(_unresolved, fleet.kinds.scale, open_needs, short, rest)
    return Phase2Result(tuple(actions), LazySequence(make, short.size), exhausted, leaving)


def _unresolved(
    scale: Scale, open_needs: OpenNeeds, short: Numbers, rest: Mapping[int, _Rest | None]
) -> list[Unresolved]:
    """What is left of each need, in the order in which they were looked at."""
    found = []
    for number in short.tolist():
        left = rest.get(number)
        missing = open_needs.missing(number) if left is None else left.missing
        deficit = open_needs.visited(number)[0].missing(scale, missing)
        place = int(open_needs.places[number])
        if left is None:
            found.append(Unresolved(place, deficit))
        else:
            found.append(Unresolved(place, deficit, left.victims, left.freed))
    return found


def _hopeful(
    fleet: Fleet, open_needs: OpenNeeds, short: Numbers, victims: "_Victims", draining: "_Draining"
) -> Numbers:
    """The needs that could get something; tens of thousands may be short where there is nothing to take."""
    asks, ask_of = open_needs.asks, open_needs.ask_of[short]
    there = fleet.counts[MachineState.CONFIGURED] > 0
    known: dict[int, bool] = {}
    hope = np.zeros(len(asks), dtype=np.bool_)
    for ask in np.unique(ask_of).tolist():
        profile, flags = asks.needs[ask].profile, asks.flags[ask]
        served = known.get(id(flags))
        if served is None:
            served = known[id(flags)] = bool((flags & there).any())
        hope[ask] = profile.fingerprint in draining.fingerprints or (
            served and victims.lowest < profile.priority
        )
    return short[hope[ask_of]]


def _preempt(fleet: Fleet, item: OpenNeed, row: int) -> Action:
    priority = int(fleet.stamps.priority[fleet.assignment[row]])
    return Action(
        ActionKind.PREEMPT,
        fleet.snapshot.machine_id(row),
        cluster=fleet.snapshot.clusters[int(fleet.cluster[row])],
        need=item.place,
        grace_s=drain_grace_s(item.need.profile.priority, priority),
        preemptor_priority=item.need.profile.priority,
    )


def _freed(fleet: Fleet, need: Need, rows: Numbers) -> Resources:
    """All that the victims count as towards a need, dimensions included that no demand names."""
    kinds = fleet.kind[rows].tolist()
    return reduce(add, (need.counted(fleet.kinds.shape(kind)) for kind in kinds), ZERO)


def _usable_kinds(fleet: Fleet, item: OpenNeed) -> Flags:
    """Kinds that could serve the need: obtainable for it, matching, covering the unit, and in a gang's domain."""
    profile = item.need.profile
    flags = fleet.kinds.acquirable(profile, item.need.unit)
    if profile.same_key is not None and item.domain is not None:
        values = fleet.kinds.values(profile.same_key)
        flags = flags & (values.codes == values.code(item.domain))
    return flags


class _Victims:
    """Configured machines in the order in which they are given up, each at most once."""

    def __init__(self, fleet: Fleet, holders: Callable[[], Holders]) -> None:
        self._fleet, self._who_holds = fleet, holders
        self._holders: Holders | None = None
        rows = np.flatnonzero(fleet.state == MachineState.CONFIGURED)
        self._rows = rows
        self._priority = fleet.stamps.priority[fleet.assignment[rows]]
        self._kind = fleet.kind[rows]
        self._taken = np.zeros(rows.size, dtype=np.bool_)
        self.lowest = int(self._priority.min(initial=np.iinfo(np.int64).max))
        """The lowest priority of any of them."""
        self._costs = self._victim_costs(rows)
        self._ordered: dict[tuple[object, ...], Numbers] = {}

    def _victim_costs(self, rows: Numbers) -> NDArray[np.float64]:
        """What taking each machine away would cost (`engine#victim-cost`), summed from left to right."""
        fleet = self._fleet
        costs = fleet.stamps.penalties[fleet.assignment[rows]]
        graces = fleet.snapshot.drain_graces
        if graces:
            hours = np.array([graces.get(row, 0.0) for row in rows.tolist()], dtype=float) / 3600
            costs = costs + hours * fleet.kinds.price[self._kind]
        return costs

    def take(self, item: OpenNeed, usable: Flags, missing: Vector) -> tuple[Numbers, Vector]:
        """The victims for one need, and what is missing after them."""
        if self.lowest >= item.need.profile.priority:
            return _NONE, missing
        candidates = self._candidates(item, usable)
        free = candidates[~self._taken[candidates]]
        free = free[~self._protected(free, item.need.profile.precedence)]
        sizes = self._fleet.kinds.size[self._kind[free]]
        count, left = self._fleet.kinds.sizes_for(item.need).cover(sizes, missing)
        self._taken[free[:count]] = True
        return self._rows[free[:count]], left

    def seen(self, item: OpenNeed, usable: Flags) -> tuple[int, int]:
        """How many machines of lower priority could serve a need now, and how many of them are protected."""
        candidates = self._candidates(item, usable)
        free = candidates[~self._taken[candidates]]
        protected = self._protected(free, item.need.profile.precedence)
        return free.size, int(np.count_nonzero(protected))

    def _candidates(self, item: OpenNeed, usable: Flags) -> Numbers:
        """Places of machines of lower priority that could serve, in the order in which they are given up."""
        profile = item.need.profile
        refuses = profile.refuses_interruptible
        name = (profile.requirements_text, item.need.unit, item.domain, profile.priority, refuses)
        found = self._ordered.get(name)
        if found is None:
            places = np.flatnonzero(usable[self._kind] & (self._priority < profile.priority))
            ranks = self._fleet.rank[self._rows[places]]
            order = np.lexsort((ranks, self._priority[places], self._costs[places]))
            found = self._ordered[name] = places[order]
        return found

    def _protected(self, places: Numbers, mine: Precedence) -> Flags:
        """Which machines are claimed this cycle by a need that does not rank below the preemptor (`engine#victims`)."""
        if self._holders is None:
            self._holders = self._who_holds()  # computed only when a need is short and could be served
        flags: Flags = self._holders.rank[self._rows[places]] >= self._holders.places[mine]
        return flags


class _Draining:
    """Machines that drain because of an earlier preemption, each counted once for a need it was taken for.

    Rules: `engine#preemption-in-flight`.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._by_need: dict[tuple[str, str, str], list[int]] = {}
        for row in fleet.in_state(MachineState.DRAINING).tolist():
            need = fleet.snapshot.draining_for(row)
            if need is not None:
                self._by_need.setdefault((need.cluster, need.fingerprint, need.group), []).append(row)
        self.fingerprints = frozenset(fingerprint for _, fingerprint, _ in self._by_need)

    def count_for(self, item: OpenNeed, usable: Flags, missing: Vector) -> tuple[Sequence[int], Vector]:
        """Machines on their way, by id, until nothing is missing; and what is missing still."""
        waiting = self._by_need.get(item.need.stamp_key)
        if waiting is None:
            return (), missing
        fleet = self._fleet
        fitting = [row for row in waiting if usable[fleet.kind[row]]]
        sizes = fleet.kinds.size[fleet.kind[fitting]]
        count, left = fleet.kinds.sizes_for(item.need).cover(sizes, missing)
        counted = set(fitting[:count])
        self._by_need[item.need.stamp_key] = [row for row in waiting if row not in counted]
        return fitting[:count], left


_NONE: Numbers = np.empty(0, dtype=np.intp)
