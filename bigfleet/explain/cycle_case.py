"""A case on the columns of a running shard: the same answers, without a record per machine.

Why: a shard with half a million machines is asked why one need fares as it does. Making every record, naming every machine of
every need and sorting all of it took half a minute, during which cycles and sessions had to share the interpreter with it.
Must never: give another answer than `Case` on the records of the same cycle; a property test holds that. Must never work out
what the question does not ask for: all that is here is made when somebody looks at it.
How: `bigfleet.explain.columns` has a number per machine, and kinds and stamps are those the engine decided with.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.verdicts import Verdicts
from bigfleet.explain.case import NOBODY, Case, Group, Mates
from bigfleet.explain.columns import Columns, Flags, Places
from bigfleet.explain.usable import in_flight
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import Machine, MachineState, NeedRef
from bigfleet.model.situation import Situation


class CycleCase(Case):
    """Everything an explanation may look at, read off one cycle of a shard."""

    def __init__(
        self, snapshot: InventorySnapshot, demand: Demand, situation: Situation, decision: Decision
    ) -> None:
        """`situation` holds all that the cycle decided on but machines and demand."""
        super().__init__(SnapshotDocument(situation, ()), decision)
        if not isinstance(decision.verdicts, Verdicts):
            raise TypeError(
                f"a cycle is explained by the engine's verdicts, not by {type(decision.verdicts).__name__}"
            )
        self._snapshot, self._demand, self._verdicts = snapshot, demand, decision.verdicts
        self.columns = Columns(snapshot, self._verdicts)
        self._looked_up: dict[str, Action | None] = {}
        self._drains: dict[NeedRef, Mapping[str, int]] = {}

    @cached_property
    def document(self) -> SnapshotDocument:
        """All but the machines; needs are put in order for it, so it is for those who ask by name or number."""
        needs = self._demand.rows
        return SnapshotDocument(replace(self.situation, needs=needs), tuple(range(len(needs))))

    def action_on(self, machine_id: str) -> Action | None:
        """What is to be done to a machine; a Preempt comes before a Reclaim of the same one."""
        if machine_id not in self._looked_up:
            found = (action for action in self.decision.actions if action.machine_id == machine_id)
            self._looked_up[machine_id] = next(found, None)
        return self._looked_up[machine_id]

    # The machines

    @cached_property
    def machines(self) -> Mapping[str, Machine]:
        """Every machine by id, made when somebody looks at it."""
        return _Machines(self._snapshot)

    def in_flight_for(self, place: int) -> tuple[str, ...]:
        """Machines that drain for a need already and are counted for it, by id."""
        need = NeedRef(*self.need(place).key)
        return tuple(
            machine_id for machine_id, found in sorted(self._counted(need).items()) if found == place
        )

    def draining_places(self, place: int) -> Places:
        """The same by their places in the order of ids."""
        rows = [self._snapshot.row_of(machine_id) for machine_id in self.in_flight_for(place)]
        return np.array([self.columns.at(row) for row in rows if row is not None], dtype=np.intp)

    def _counted(self, need: NeedRef) -> Mapping[str, int]:
        """What drains for needs of one name, which may be several; what drains for others is none of their business."""
        known = self._drains.get(need)
        if known is None:
            known = self._drains[need] = self._count(need)
        return known

    def _count(self, need: NeedRef) -> Mapping[str, int]:
        snapshot, state = self._snapshot, self._snapshot.columns["state"]
        draining = [
            snapshot.machine(row)
            for row, wanted in snapshot.drains.items()
            # The profile first, which tells most of them apart: whole references are compared slowly.
            if wanted.fingerprint == need.fingerprint
            and wanted == need
            and state[row] == MachineState.DRAINING
        ]
        if not draining:
            return {}
        short = frozenset(self._verdicts.short_places)
        places = [
            place
            for place in self.places_of(need.cluster)
            if place in short and NeedRef(*self.need(place).key) == need
        ]
        return in_flight({machine.id: machine for machine in draining}, self._verdicts, places)

    def group_of(self, machine_id: str) -> Group:
        """The machine by itself: nobody asks who else is like it."""
        row = self._snapshot.row_of(machine_id)
        if row is None:
            raise KeyError(machine_id)
        machine = self._snapshot.machine(row)
        action, waiting = self.action_on(machine_id), machine.draining_for
        preemptor = action.need if action is not None and action.kind is ActionKind.PREEMPT else None
        return Group(
            machine,
            int(self.columns.holder[self.columns.at(row)]),
            NOBODY if preemptor is None else preemptor,
            NOBODY if waiting is None else self._counted(waiting).get(machine_id, NOBODY),
            (machine_id,),
        )

    def mates(self, machine: Machine) -> Mates:
        """Where a Configured machine stands in the keep order of its cluster."""
        columns, number = self.columns, self._snapshot.clusters.number(machine.cluster)
        configured = (columns.state == MachineState.CONFIGURED) & (columns.cluster == number)
        places = np.flatnonzero(configured)
        prices = columns.kinds.price[columns.kind[places]]
        penalties = columns.stamps.reclamation[columns.stamp(places)]
        price, penalty = machine.shape.price_per_hour, machine.assigned.reclamation_penalty
        dearer = (penalties > penalty) | ((penalties == penalty) & (places < self._place(machine)))
        before = (prices < price) | ((prices == price) & dearer)
        return Mates(
            1 + int(np.count_nonzero(before)),
            places.size,
            int(np.count_nonzero(columns.holder[places] >= 0)),
        )

    def _place(self, machine: Machine) -> int:
        row = self._snapshot.row_of(machine.id)
        if row is None:
            raise KeyError(machine.id)
        return self.columns.at(row)

    def usable_kinds(self, verdict: Verdict) -> Flags:
        """The kinds that could serve a need where it stands: `bigfleet.explain.usable.Usable`, for all of them."""
        kinds, profile = self.columns.kinds, verdict.need.profile
        flags = kinds.acquirable(profile, verdict.need.unit)
        if profile.same_key is None:
            return flags
        if verdict.domain is None:
            return np.zeros_like(flags)
        inside: Flags = flags & self.kinds_in(profile.same_key, verdict.domain)
        return inside

    def kinds_in(self, key: str, domain: str) -> Flags:
        """The kinds that have one value of a key."""
        values = self.columns.kinds.values(key)
        place = bisect_left(
            values.values, domain
        )  # they are in order; a table of them may be as large as the fleet
        known = place < len(values.values) and values.values[place] == domain
        flags: Flags = values.codes == place if known else np.zeros_like(values.present)
        return flags

    # The needs

    def domain(self, place: int) -> str | None:
        """Where the gang at a place was told to gather, without its verdict being made."""
        return self._verdicts.domain(place)

    def numbers(self, place: int) -> tuple[int, ...]:
        """The numbers of the needs that one place stands for: where they stand in the list."""
        return tuple(self.verdict(place).folded_from)

    def first_by_number(self, places: Sequence[int], count: int) -> list[int]:
        """Of needs at some places, given in ascending order, those with the lowest numbers.

        Needs that stand for themselves are in the order of their numbers, so few are asked; those that are folded are.
        """
        classes_from = self._verdicts.classes_from
        single = [place for place in places if place < classes_from][:count]
        folded = [place for place in places if place >= classes_from]
        return sorted((*single, *folded), key=self.numbers)[:count] if folded else single

    def not_below(self, precedence: tuple[int, int, int]) -> Flags:
        """By place whether a need does not rank below; the last entry is nobody's."""
        flags = [need.profile.precedence >= precedence for need in self.needs]
        return np.array([*flags, False], dtype=np.bool_)


class _Machines(Mapping[str, Machine]):
    """Every machine of a snapshot by id."""

    def __init__(self, snapshot: InventorySnapshot) -> None:
        self._snapshot = snapshot

    def __len__(self) -> int:
        return len(self._snapshot)

    def __iter__(self) -> Iterator[str]:
        return (text or "" for text in self._snapshot.ids.many(self._snapshot.id_order))

    def __contains__(self, machine_id: object) -> bool:
        return isinstance(machine_id, str) and self._snapshot.row_of(machine_id) is not None

    def __getitem__(self, machine_id: str) -> Machine:
        row = self._snapshot.row_of(machine_id)
        if row is None:
            raise KeyError(machine_id)
        return self._snapshot.machine(row)
