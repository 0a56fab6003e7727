"""Two decisions side by side: what differs in needs, machines, actions and money.

Why: a what-if is asked for its difference; the rest of both decisions is the same and would hide it.
Must never: take a need for another because its number changed or its class was folded otherwise. Needs are followed row by
row of the documents; without numbers of an edit they are known by cluster, fingerprint and group.
Rules: `dashboard#what-if`.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from bigfleet.document.compare_costs import (
    OTHER_CLASS,
    PRIORITY_CLASSES,
    Costs,
    costs_of,
    first_actions,
    priority_class,
)
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Reason, Verdict
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need, NeedKey
from bigfleet.model.resources import ZERO, Resources

T = TypeVar("T")


class NeedChangeKind(StrEnum):
    """How a need changed; the first that applies."""

    ADDED = "added"
    REMOVED = "removed"
    SATISFIED = "becomes satisfied"
    SHORT = "becomes short"
    LESS_SHORT = "less short"
    SHORTER = "shorter"
    SHORT_OTHERWISE = "short of something else"
    MOVED = "other domain"
    OTHER_MACHINES = "other machines"
    OTHER_REASON = "short for another reason"


@dataclass(frozen=True, slots=True)
class Side:
    """A document and the decision on it."""

    document: SnapshotDocument
    decision: Decision


@dataclass(frozen=True, slots=True)
class NeedSide:
    """The state of a need on one side."""

    need: Need
    satisfied: bool
    reason: Reason
    deficit: Resources
    open: Resources
    """What is missing even when every machine that drains for it is counted."""
    domain: str | None
    machines: tuple[str, ...]
    victims: int


@dataclass(frozen=True, slots=True)
class NeedChange:
    """A need, or several that are folded into one on both sides, that fares differently."""

    numbers: tuple[int, ...]
    change: NeedChangeKind
    before: NeedSide | None
    after: NeedSide | None

    @property
    def shown(self) -> NeedSide:
        """The side whose need is shown: the later one if it has the need."""
        return _either(self.after, self.before)


@dataclass(frozen=True, slots=True)
class MachineSide:
    """Who holds a machine on one side, and what is done to it."""

    machine: Machine
    holder: tuple[int, ...] = ()  # numbers of the need; several when it was folded
    cluster: str = ""
    action: ActionKind | None = None


@dataclass(frozen=True, slots=True)
class MachineChange:
    """A machine that is held by another, treated differently, or there on one side only."""

    machine_id: str
    before: MachineSide | None
    after: MachineSide | None

    @property
    def shown(self) -> MachineSide:
        """The side whose machine is shown: the later one if it has the machine."""
        return _either(self.after, self.before)


def _either(after: T | None, before: T | None) -> T:
    found = after or before
    if found is None:
        raise ValueError("a change has at least one side")
    return found


@dataclass(frozen=True, slots=True)
class Totals:
    """One side in figures."""

    actions: Mapping[ActionKind, int]
    costs: Costs
    shortfalls: Mapping[str, int]
    """Needs that are short, by class of priority."""
    missing: Resources
    """What all of them miss together."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs, and both sides in figures."""

    needs: tuple[NeedChange, ...]
    machines: tuple[MachineChange, ...]
    before: Totals
    after: Totals

    @property
    def same(self) -> bool:
        """Whether nothing differs at all."""
        return not self.needs and not self.machines and self.before == self.after


def compare(
    before: Side, after: Side, numbers: Sequence[int] | None = None, *, states: bool = False
) -> Comparison:
    """Compare two decisions; `numbers` are those of an edit, for each need of the second document in its order.

    With `states` a machine that is only in another state differs too, as after several cycles.
    """
    return Comparer(before).against(after, numbers, states=states)


class Comparer:
    """Compares one decision with others; what there is to know about the first is found out once."""

    def __init__(self, before: Side) -> None:
        self._before = before
        self._table = _Table(before, range(len(before.document.places)))

    def against(
        self, after: Side, numbers: Sequence[int] | None = None, *, states: bool = False
    ) -> Comparison:
        """Compare with another; see `compare`."""
        first, second = self._table, self._other(after, numbers)
        return Comparison(
            _needs(first, second), _machines(first, second, states), _totals(self._before), _totals(after)
        )

    def needs(self, after: Side, numbers: Sequence[int] | None = None) -> tuple[NeedChange, ...]:
        """Only the needs that changed, for callers that compare often."""
        return _needs(self._table, self._other(after, numbers))

    def _other(self, after: Side, numbers: Sequence[int] | None) -> "_Table":
        return _Table(after, _numbers(self._before, after) if numbers is None else numbers)


class _Table:
    """One side by numbers of needs."""

    def __init__(self, side: Side, numbers: Sequence[int]) -> None:
        self.decision = side.decision
        places = side.document.places
        self.numbers = [
            tuple(sorted(numbers[places[source]] for source in verdict.folded_from))
            for verdict in side.decision.verdicts
        ]
        self.place_of = {number: place for place, found in enumerate(self.numbers) for number in found}
        self._situation = side.document.situation
        self._open = {left.need: left.deficit for left in side.decision.unresolved}
        self._victims = Counter(
            action.need for action in side.decision.actions if action.kind is ActionKind.PREEMPT
        )

    @cached_property
    def machines(self) -> dict[str, Machine]:
        return {machine.id: machine for machine in self._situation.machines}

    @cached_property
    def holder(self) -> dict[str, int]:
        return {
            machine_id: place
            for place, verdict in enumerate(self.decision.verdicts)
            for machine_id in verdict.claimed
        }

    @cached_property
    def actions(self) -> dict[str, Action]:
        return first_actions(self.decision.actions)

    def need(self, place: int | None) -> NeedSide | None:
        if place is None:
            return None
        verdict: Verdict = self.decision.verdicts[place]
        return NeedSide(
            need=verdict.need,
            satisfied=verdict.satisfied,
            reason=verdict.reason,
            deficit=verdict.deficit,
            open=self._open.get(place, ZERO),
            domain=verdict.domain,
            machines=tuple(verdict.claimed),
            victims=self._victims[place],
        )

    def action(self, machine_id: str) -> ActionKind | None:
        action = self.actions.get(machine_id)
        return None if action is None else action.kind

    def numbers_of(self, machine_id: str) -> tuple[int, ...]:
        place = self.holder.get(machine_id)
        return () if place is None else self.numbers[place]

    def machine(self, machine_id: str) -> MachineSide | None:
        machine = self.machines.get(machine_id)
        if machine is None:
            return None
        place = self.holder.get(machine_id)
        cluster = "" if place is None else self.decision.verdicts[place].need.cluster
        return MachineSide(machine, self.numbers_of(machine_id), cluster, self.action(machine_id))


def _numbers(before: Side, after: Side) -> list[int]:
    """The numbers of the second document's needs, those that are in the first one by what makes a need that need."""
    waiting: dict[NeedKey, deque[int]] = {}
    for number, need in enumerate(_in_document_order(before.document)):
        waiting.setdefault(need.key, deque()).append(number)
    fresh = len(before.document.places)
    numbers: list[int] = []
    for need in _in_document_order(after.document):
        known = waiting.get(need.key)
        numbers.append(known.popleft() if known else fresh)
        fresh += not known
    return numbers


def _in_document_order(document: SnapshotDocument) -> list[Need]:
    by_place = dict(zip(document.places, document.situation.needs, strict=True))
    return [by_place[place] for place in range(len(by_place))]


def _needs(before: _Table, after: _Table) -> tuple[NeedChange, ...]:
    pairs: dict[tuple[int | None, int | None], list[int]] = {}
    for number in sorted(before.place_of.keys() | after.place_of.keys()):
        pairs.setdefault((before.place_of.get(number), after.place_of.get(number)), []).append(number)
    found: list[NeedChange] = []
    for (place, place_after), numbers in pairs.items():
        first, second = before.need(place), after.need(place_after)
        change = _change(first, second)
        if change is not None:
            found.append(NeedChange(tuple(numbers), change, first, second))
    return tuple(found)


def _change(before: NeedSide | None, after: NeedSide | None) -> NeedChangeKind | None:
    if before is None:
        return NeedChangeKind.ADDED
    if after is None:
        return NeedChangeKind.REMOVED
    if before.satisfied != after.satisfied:
        return NeedChangeKind.SATISFIED if after.satisfied else NeedChangeKind.SHORT
    if before.deficit != after.deficit:
        if before.deficit.covers(after.deficit):
            return NeedChangeKind.LESS_SHORT
        return (
            NeedChangeKind.SHORTER if after.deficit.covers(before.deficit) else NeedChangeKind.SHORT_OTHERWISE
        )
    if before.domain != after.domain:
        return NeedChangeKind.MOVED
    if before.machines != after.machines:
        return NeedChangeKind.OTHER_MACHINES
    outcome = (before.reason, before.open, before.victims) == (after.reason, after.open, after.victims)
    return None if outcome else NeedChangeKind.OTHER_REASON


def _machines(before: _Table, after: _Table, states: bool) -> tuple[MachineChange, ...]:
    both = before.machines.keys() & after.machines.keys()
    different = before.machines.keys() ^ after.machines.keys()
    # Most machines are free on both sides, so only those that are held or acted on are compared.
    busy = before.holder.keys() | after.holder.keys() | before.actions.keys() | after.actions.keys()
    different |= {machine_id for machine_id in both & busy if not _treated_alike(before, after, machine_id)}
    if states:
        first, second = before.machines, after.machines
        different |= {one for one in both if first[one].state is not second[one].state}
    return tuple(
        MachineChange(machine_id, before.machine(machine_id), after.machine(machine_id))
        for machine_id in sorted(different)
    )


def _treated_alike(before: _Table, after: _Table, machine_id: str) -> bool:
    if before.action(machine_id) is not after.action(machine_id):
        return False
    first, second = before.numbers_of(machine_id), after.numbers_of(machine_id)
    return first == second or bool(set(first) & set(second))


def _totals(side: Side) -> Totals:
    decision = side.decision
    kinds = Counter(action.kind for action in decision.actions)
    short = [verdict for verdict in decision.verdicts if not verdict.satisfied]
    classes = Counter(priority_class(verdict.need.profile.priority) for verdict in short)
    return Totals(
        actions={kind: kinds[kind] for kind in ActionKind},
        costs=costs_of(side.document.situation, decision),
        shortfalls={name: classes[name] for name in (*(name for name, _ in PRIORITY_CLASSES), OTHER_CLASS)},
        missing=_sum(verdict.deficit for verdict in short),
    )


def _sum(vectors: Iterable[Resources]) -> Resources:
    amounts: Counter[str] = Counter()
    for vector in vectors:
        amounts.update(dict(vector.items()))
    return Resources(amounts)
