"""The naive twin of the explanations: every machine as a record, classified and counted one by one.

Why: the explanations of production count in columns; whatever they say must be what a plain count of records says.
Must never: be made faster at the price of a line that the rules do not say.
Rules: `dashboard#explain-classes`, `engine#phase-2`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import pytest

from bigfleet.document.compare_costs import first_actions
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain import fleet_summary, need, preemption
from bigfleet.explain.decided_cycle import NO_NEED, DecidedCycle, KeepOrder, MachineGroup
from bigfleet.explain.fit import CHOSEN, FitChecker, FitResult, MachineFit, step_of
from bigfleet.explain.fleet_summary import (
    FIT_RESULTS,
    STEPS,
    WAITING,
    ChosenClass,
    FleetSummary,
    Looks,
    RefusedClass,
    cost_for,
    looks_of,
)
from bigfleet.explain.preemption import PreemptionCandidates
from bigfleet.explain.usable import Usable, in_flight
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import victim_cost
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO

S = MachineState
Fits = Sequence[tuple[MachineFit, "RecordGroup"]]


@dataclass(frozen=True)
class RecordGroup:
    """A group of alike machines with all their ids, ascending."""

    group: MachineGroup
    ids: Sequence[str]

    @property
    def first(self) -> Machine:
        return self.group.first


class RecordCycle(DecidedCycle):
    """A cycle that looks at the records of a document alone."""

    def __init__(self, document: SnapshotDocument, snapshot: InventorySnapshot, decision: Decision) -> None:
        super().__init__(snapshot, decision, document.situation, numbers=document.places)

    @cached_property
    def _first_actions(self) -> Mapping[str, Action]:
        return first_actions(self.decision.actions)

    def action_on(self, machine_id: str) -> Action | None:
        return self._first_actions.get(machine_id)

    @cached_property
    def machines(self) -> Mapping[str, Machine]:
        return {machine.id: machine for machine in self.situation.machines}

    @cached_property
    def _in_flight(self) -> Mapping[str, int]:
        verdicts = self.decision.verdicts
        short = [place for place, verdict in enumerate(verdicts) if not verdict.satisfied]
        return in_flight(self.machines, verdicts, short)

    def in_flight_for(self, place: int) -> tuple[str, ...]:
        return tuple(machine_id for machine_id, found in sorted(self._in_flight.items()) if found == place)

    @cached_property
    def _holder(self) -> Mapping[str, int]:
        return {
            machine_id: place
            for place, verdict in enumerate(self.decision.verdicts)
            for machine_id in verdict.claimed
        }

    def group_of(self, machine_id: str) -> MachineGroup:
        action = self.action_on(machine_id)
        leaves = action is not None and action.kind is ActionKind.PREEMPT
        return MachineGroup(
            self.machines[machine_id],
            self._holder.get(machine_id, NO_NEED),
            action.need if action is not None and leaves and action.need is not None else NO_NEED,
            self._in_flight.get(machine_id, NO_NEED),
        )

    @cached_property
    def _by_host(self) -> bool:
        """Whether some need asks for host names, in which no two machines need be alike."""
        profiles = [entry.need.profile for entry in self.decision.verdicts]
        keys = [item.key for profile in profiles for item in profile.requirements]
        keys += [item.topology_key for profile in profiles for item in profile.spreads]
        return "kubernetes.io/hostname" in keys

    @cached_property
    def record_groups(self) -> Sequence[RecordGroup]:
        """All machines, in groups that differ in something an explanation can say."""
        found: dict[tuple[object, ...], tuple[MachineGroup, list[str]]] = {}
        for machine_id in sorted(self.machines):
            group = self.group_of(machine_id)
            machine = group.first
            key = (
                id(machine.shape),
                machine_id if self._by_host else "",
                id(machine.assigned),
                machine.state,
                machine.cluster,
                machine.drain_grace_remaining_s,
                *group[1:],
            )
            found.setdefault(key, (group, []))[1].append(machine_id)
        return [RecordGroup(group, tuple(ids)) for group, ids in found.values()]

    def keep_order(self, machine: Machine) -> KeepOrder:
        there = [
            other
            for other in self.situation.machines
            if other.state is S.CONFIGURED and other.cluster == machine.cluster
        ]
        there.sort(
            key=lambda other: (other.shape.price_per_hour, -other.assigned.reclamation_penalty, other.id)
        )
        position = 1 + next(place for place, other in enumerate(there) if other.id == machine.id)
        reported = self.situation.reported_clusters
        claimed = sum(other.id in self._holder for other in there)
        return KeepOrder(position, len(there), claimed, reported is None or machine.cluster in reported)


@contextmanager
def explained_by_records() -> Iterator[None]:
    """Let the explanations count the records of a `RecordCycle` in place of its columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(need, "summarize_fleet", summarize_fleet)
        patch.setattr(preemption, "candidates_for", candidates_for)
        yield


def summarize_fleet(cycle: RecordCycle, checker: FitChecker) -> FleetSummary:
    """Count every group of machines once."""
    fits = [(checker.fit(record.group), record) for record in cycle.record_groups]
    fitting, taken = dict.fromkeys(STEPS, 0), dict.fromkeys(STEPS, 0)
    offered = dict.fromkeys(STEPS, ZERO)
    for _, record in fits:
        state, size = record.first.state, len(record.ids)
        if state in fitting and _could_take(checker, record.group):
            fitting[state] += size
        if record.group.holder == checker.place:
            taken[state] += size
            offered[state] += checker.need.counted(record.first.shape).scaled(size)
    return FleetSummary(
        fitting,
        taken,
        offered,
        chosen=_chosen(fits),
        next_best=_next_best(checker.need, fits),
        refused=_refused(cycle, fits),
        held=_held(cycle, fits),
    )


def _could_take(checker: FitChecker, group: MachineGroup) -> bool:
    """Whether the need may take this machine in its domain, unless another need does."""
    unheld = checker.fit(MachineGroup(group.first, NO_NEED, NO_NEED, NO_NEED))
    fits = FIT_RESULTS.index(unheld.result) > FIT_RESULTS.index(FitResult.CLAIMED)
    return fits and _inside(checker, group.first)


def _inside(checker: FitChecker, machine: Machine) -> bool:
    key = checker.need.profile.same_key
    return key is None or checker.domain in (None, machine.label(key))


def _examples(records: Iterable[RecordGroup]) -> tuple[str, ...]:
    """The first machines by id of some groups."""
    return tuple(
        sorted(machine_id for record in records for machine_id in record.ids)[: fleet_summary.EXAMPLES]
    )


def _size(records: Iterable[RecordGroup]) -> int:
    return sum(len(record.ids) for record in records)


def _looks(machine: Machine) -> Looks:
    return looks_of(machine.state, machine.shape)


def _chosen(fits: Fits) -> list[ChosenClass]:
    found: dict[tuple[object, ...], tuple[Machine, str, list[RecordGroup]]] = {}
    for fit, record in fits:
        if fit.result in CHOSEN:
            how = fit.detail if fit.result is FitResult.TAKEN else fit.result.value
            found.setdefault((how, *_looks(record.first)), (record.first, how, []))[2].append(record)
    return [
        ChosenClass(how, machine.state, machine.shape, _size(records), _examples(records))
        for machine, how, records in found.values()
    ]


def _next_best(wanted: Need, fits: Fits) -> ChosenClass | None:
    """The machine that would be taken next if the need wanted more and could have it."""
    free = [
        record
        for fit, record in fits
        if fit.result in WAITING and record.first.state in (S.IDLE, S.SPECULATIVE)
    ]
    if not free:
        return None

    def order(record: RecordGroup) -> tuple[bool, float, float, str]:
        machine = record.first
        if machine.state is S.IDLE:
            penalty = machine.assigned.reclamation_penalty
            return (False, cost_for(machine.shape, wanted), penalty, record.ids[0])
        return (True, cost_for(machine.shape, wanted), 0.0, record.ids[0])

    best = min(free, key=order).first
    same = [record for record in free if _looks(record.first) == _looks(best)]
    return ChosenClass(f"would be {step_of(best)}", best.state, best.shape, _size(same), _examples(same))


def _refused(cycle: RecordCycle, fits: Fits) -> list[RefusedClass]:
    found: dict[MachineFit, list[RecordGroup]] = {}
    for fit, record in fits:
        if fit.result not in CHOSEN:
            found.setdefault(fit, []).append(record)
    refused = [RefusedClass(fit, _size(records), _examples(records)) for fit, records in found.items()]
    refused.sort(key=lambda item: _refused_order(cycle, item))
    return [
        shown
        for _, same in groupby(refused, key=lambda item: item.fit.result)
        for shown in _most_common(list(same))
    ]


def _refused_order(cycle: RecordCycle, item: RefusedClass) -> tuple[object, ...]:
    fit = item.fit
    numbers = cycle.numbers(fit.need) if fit.result is FitResult.CLAIMED else ()
    return (FIT_RESULTS.index(fit.result), -item.count, fit.detail, numbers)


def _most_common(refused: list[RefusedClass]) -> list[RefusedClass]:
    """Refusals with one result, the smallest put together where there are too many."""
    most = fleet_summary.REFUSALS_SHOWN
    if len(refused) <= most:
        return refused
    shown, rest = refused[: most - 1], refused[most - 1 :]
    examples = sorted(machine_id for item in rest for machine_id in item.examples)
    count = sum(item.count for item in rest)
    others = MachineFit(rest[0].fit.result)
    return [*shown, RefusedClass(others, count, tuple(examples[: fleet_summary.EXAMPLES]), len(rest))]


def _held(cycle: RecordCycle, fits: Fits) -> list[tuple[MachineFit, int]]:
    held: dict[MachineFit, int] = {}
    for fit, record in fits:
        if fit.result is FitResult.CLAIMED:
            held[fit] = held.get(fit, 0) + len(record.ids)
    ordered = sorted(held.items(), key=lambda item: (-item[1], cycle.numbers(item[0].need)))
    return ordered[: fleet_summary.COMPETITORS]


def candidates_for(cycle: RecordCycle, place: int) -> PreemptionCandidates:
    """Look at every Configured machine that could serve the need."""
    verdict = cycle.verdict(place)
    usable = Usable(verdict)
    mine, priority = verdict.need.profile.precedence, verdict.need.profile.priority
    taken: list[Machine] = []
    left: list[Machine] = []
    protected = not_lower = others = 0
    for machine_id in cycle.machines:
        machine, holder, preemptor, _ = cycle.group_of(machine_id)
        if machine.state is not S.CONFIGURED or holder == place or not usable(machine):
            continue
        if preemptor == place:
            taken.append(machine)
        elif preemptor != NO_NEED:
            others += 1
        elif machine.assigned.priority >= priority:
            not_lower += 1
        elif holder != NO_NEED and cycle.need(holder).profile.precedence >= mine:
            protected += 1
        else:
            left.append(machine)
    return PreemptionCandidates(
        taken=sorted(taken, key=_victim_order)[: preemption.VICTIMS_SHOWN],
        taken_count=len(taken),
        runner_up=min(left, key=_victim_order, default=None),
        left=len(left),
        protected=protected,
        not_lower=not_lower,
        taken_by_others=others,
    )


def _victim_order(machine: Machine) -> tuple[float, int, str]:
    return (victim_cost(machine), machine.assigned.priority, machine.id)
