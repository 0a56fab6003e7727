"""The engine as a running shard uses it: cycle after cycle on inventory and demand that change a little.

Why: a shard decides every few seconds about a fleet of which almost nothing changed. The order of the steps is part of
the answer and is defined here, together with what is kept from the last cycle and when it becomes invalid. Nothing kept
may change an answer: a planner that has seen a thousand cycles decides exactly as a fresh one does.
Rules: `engine#cycle-order`, `engine#actions`, `engine#action-order`, `engine#incremental-equals-full`; ADR-0030, ADR-0068.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from bigfleet.engine.asks import Asks
from bigfleet.engine.fleet import Fleet, FleetChanges
from bigfleet.engine.fold import NO_PLANS, Block, Folding, Folds, planned_needs
from bigfleet.engine.kinds import Kinds
from bigfleet.engine.list_order import ListOrder, merged
from bigfleet.engine.phase1.acquire import run_acquisition
from bigfleet.engine.phase1.cluster_run import ClusterRun
from bigfleet.engine.phase1.gang_supply import GangSupply
from bigfleet.engine.phase1.open_needs import OpenNeeds
from bigfleet.engine.phase1.prepass import Workers, one_after_the_other, run_prepass
from bigfleet.engine.phase2 import Holders, run_phase2
from bigfleet.engine.phase3 import reclaims, releases
from bigfleet.engine.reporter import Reporter
from bigfleet.engine.reporting import report_demand, report_excess, report_prepass
from bigfleet.engine.verdicts import Acquisitions, Verdicts
from bigfleet.model.action import Action
from bigfleet.model.decision import Decision, LazySequence
from bigfleet.model.demand import Amounts, ClusterNeeds, Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.profile import HOST_NAME_KEY
from bigfleet.model.situation import GangRef, IdleHolds


@dataclass(frozen=True, slots=True)
class _Asked:
    """The input of a decision."""

    snapshot: InventorySnapshot
    demand: Demand
    parked: frozenset[GangRef]
    reported: frozenset[str] | None
    holds: IdleHolds
    now: float


@dataclass(slots=True)
class _Cluster:
    """What is kept of one cluster."""

    demand: ClusterNeeds | None
    folds: Folds
    run: ClusterRun


def _ignore_phase(_phase: str) -> None:
    """Do nothing."""


class Planner:
    """Decides cycle after cycle."""

    def __init__(
        self,
        workers: Workers = one_after_the_other,
        reporter: Reporter | None = None,
        phase_ended: Callable[[str], None] = _ignore_phase,
    ) -> None:
        """`phase_ended` gets the name of each phase as it ends, for measurements; the engine reads no clock."""
        self._workers, self._reporter, self._phase_ended = workers, reporter, phase_ended
        self._fleet: Fleet | None = None
        self._clusters: dict[str, _Cluster] = {}
        # Of all demand since the kinds were made, so it may include demand that is gone.
        self._wanted = Amounts({}, {})
        self._blocks: list[Block] = []
        """Of all clusters, in list order."""
        self._asks: Asks | None = None
        self._last: tuple[_Asked, Decision, float] | None = None

    def decide(
        self,
        snapshot: InventorySnapshot,
        demand: Demand,
        *,
        parked: frozenset[GangRef],
        reported_clusters: frozenset[str] | None,
        holds: IdleHolds,
        now: float,
    ) -> Decision:
        """Decide what to do about this demand with these machines."""
        asked = _Asked(snapshot, demand, parked, reported_clusters, holds, now)
        # A reporter hears of every need, so nothing that was kept is used.
        last = self._last if self._reporter is None else None
        if last is not None and _nothing_changed(last[0], asked, next_due=last[2]):
            return last[1]
        self._last = None  # if the decision fails half-way, the next one must not build on it
        before = last[0] if last is not None else None
        decision, next_due = self._decide(asked, before)
        self._last = (asked, decision, next_due)
        return decision

    def _decide(self, asked: _Asked, before: _Asked | None) -> tuple[Decision, float]:
        fleet, dirty, refold = self._follow(asked, before)
        supply = GangSupply(fleet)
        replanned = self._replan(fleet, asked, dirty, refold)
        again = self._look_again(fleet, replanned)
        run_prepass(replanned.values(), again.values(), supply, self._workers)
        for name, run in (*replanned.items(), *again.items()):
            self._clusters[name].run = run
        self._list_in_order(replanned)
        runs = {name: kept.run for name, kept in self._clusters.items()}
        listed = ListOrder({name: run.plans for name, run in runs.items()}, self._blocks)
        open_needs = OpenNeeds(self._asks_about(fleet, len(listed)), listed, runs)
        reporter = self._reporter
        if reporter is not None:
            visits = ((runs[name], visit) for name, visit in map(listed.at, range(len(listed))))
            report_prepass(reporter, fleet, supply, visits)
        broker = run_acquisition(fleet, open_needs, reporter) if len(open_needs) else None
        self._phase_ended("phase1")
        second = run_phase2(fleet, open_needs, lambda: self._holders(fleet), reporter)
        self._phase_ended("phase2")
        acquired = Acquisitions(fleet, open_needs)
        verdicts = Verdicts(
            fleet,
            asked.demand,
            supply,
            runs=runs,
            listed=listed,
            open_needs=open_needs,
            acquired=acquired,
            exhausted=second.exhausted,
            victims=second.victims,
        )
        excess = {name: rows for name, run in runs.items() if (rows := run.excess()).size}
        released = releases(fleet, None if broker is None else broker.taken, asked.holds, asked.now)
        if reporter is not None:
            report_demand(reporter, verdicts)
            report_excess(reporter, fleet, excess, asked.reported)
            reporter.released([action.machine_id for action in released.actions])
        reclaimed = reclaims(fleet, excess, asked.reported)
        actions = partial(_in_order, acquired, (second.actions, reclaimed, released.actions))
        count = len(acquired) + len(second.actions) + len(reclaimed) + len(released.actions)
        self._phase_ended("phase3")
        return Decision(LazySequence(actions, count), verdicts, second.unresolved), released.next_due

    # What is still valid

    def _follow(self, asked: _Asked, before: _Asked | None) -> tuple[Fleet, set[str], bool]:
        """Update the fleet; return which clusters must be planned again, and whether all folds must be."""
        demand, snapshot = asked.demand, asked.snapshot
        new = demand.by_cluster
        old = before.demand.by_cluster if before is not None else {}
        came = [name for name, part in new.items() if old.get(name) is not part]
        # Kinds that are kept serve all that was asked before, so what is new decides whether they still do.
        named = frozenset().union(*(new[name].label_keys for name in came))
        wanted = Amounts.union(new[name].amounts for name in came)
        terms = len(snapshot) + len(demand)
        fleet = self._fleet
        kinds = None
        if before is not None and fleet is not None and _tells_apart(fleet, snapshot, named):
            self._wanted = Amounts.union((self._wanted, wanted))
            kinds = fleet.kinds.grown(self._wanted, terms)
            if kinds is not None and demand is not before.demand:
                kinds.forget_unused(len(demand))
        if before is None or fleet is None or kinds is None:
            named = frozenset().union(*(part.label_keys for part in new.values()))
            self._wanted = Amounts.union(part.amounts for part in new.values())
            # A host name may be a machine's id, and so is never a matter of shapes.
            wide = tuple(sorted(named & {*snapshot.wide, HOST_NAME_KEY}))
            kinds = Kinds(snapshot.shapes, named.difference(wide), self._wanted, terms)
            self._fleet = fleet = Fleet(snapshot, kinds, wide)
            self._clusters, self._blocks = {}, []
            return fleet, {*demand.by_cluster, *fleet.members}, True
        changes: FleetChanges = fleet.advance(snapshot, kinds)
        dirty = set(changes.clusters)
        dirty |= set(came)
        dirty |= old.keys() - new.keys()
        if asked.parked != before.parked:
            dirty |= {gang.cluster for gang in asked.parked ^ before.parked}
        return fleet, dirty, changes.kinds_in_supply

    def _replan(self, fleet: Fleet, asked: _Asked, dirty: set[str], refold: bool) -> dict[str, ClusterRun]:
        """New runs for clusters whose machines, demand, parked gangs or folds have changed."""
        folding = Folding(fleet)
        by_cluster = asked.demand.by_cluster
        replanned: dict[str, ClusterRun] = {}
        for name in sorted({*self._clusters, *dirty}) if refold else sorted(dirty):
            part = by_cluster.get(name)
            kept = self._clusters.get(name)
            folds = () if part is None else folding.of(part)
            if name not in dirty and kept is not None and kept.folds == folds:
                continue
            if part is None and name not in fleet.members:
                self._clusters.pop(name, None)
                continue
            plans = NO_PLANS
            if part is not None:
                plans = planned_needs(part, folds, asked.parked, fleet.kinds.scale)
            replanned[name] = run = ClusterRun(fleet, name, plans)
            self._clusters[name] = _Cluster(part, folds, run)
        return replanned

    def _look_again(self, fleet: Fleet, replanned: dict[str, ClusterRun]) -> dict[str, ClusterRun]:
        """Copies of runs that are still valid except for gangs that depend on shared supply."""
        return {
            name: kept.run.again(fleet)
            for name, kept in self._clusters.items()
            if name not in replanned and kept.run.waits
        }

    def _list_in_order(self, replanned: dict[str, ClusterRun]) -> None:
        """Keep all needs in list order; kept entries are in order already, so only new ones are sorted and merged in."""
        there = self._clusters
        kept = [block for block in self._blocks if block.cluster not in replanned and block.cluster in there]
        self._blocks = merged(
            kept, sorted(block for run in replanned.values() for block in run.planned.blocks)
        )

    # What the later phases need

    def _asks_about(self, fleet: Fleet, needs: int) -> Asks:
        """The table of what open needs ask for, a new one where that would hold too much of the past."""
        if self._asks is None or not self._asks.serves(fleet.kinds, needs):
            self._asks = Asks(fleet.kinds)
        return self._asks

    def _holders(self, fleet: Fleet) -> Holders:
        runs = [kept.run for kept in self._clusters.values()]
        precedences = sorted({plan.need.profile.precedence for run in runs for plan in run.plans})
        places = {precedence: place for place, precedence in enumerate(precedences)}
        rank = np.full(fleet.state.size, -1, dtype=np.int32)
        for run in runs:
            members, visits = run.credited
            if members.size:
                of_visit = [places[plan.need.profile.precedence] for plan in run.plans]
                rank[run.rows(members)] = np.array(of_visit, dtype=np.int32)[visits]
        return Holders(rank, places)


def _in_order(acquired: Acquisitions, later: Sequence[Sequence[Action]]) -> list[Action]:
    """All actions, phase by phase."""
    return [*acquired.actions(), *chain.from_iterable(later)]


def _tells_apart(fleet: Fleet, snapshot: InventorySnapshot, named: frozenset[str]) -> bool:
    """Whether the kept kinds still distinguish everything that demand asks about."""
    return (
        named <= fleet.kinds.named.union(fleet.named_wide)
        and fleet.follows(snapshot)
        and not (fleet.named_wide and fleet.kinds.outgrown)
        and not any(key in snapshot.wide for key in fleet.kinds.named)
    )


def _nothing_changed(before: _Asked, now: _Asked, *, next_due: float) -> bool:
    return (
        before.snapshot is now.snapshot
        and before.demand is now.demand
        and before.parked == now.parked
        and before.reported == now.reported
        and before.holds == now.holds
        and before.now <= now.now < next_due
    )
