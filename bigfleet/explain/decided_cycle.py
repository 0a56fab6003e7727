"""One cycle with its decision, in the form that explanations read.

Why: a shard with half a million machines must explain a need without a record per machine; making them all took half a
minute, during which cycles and sessions had to share the interpreter. A document is explained in the same way, from the
columns on which it was decided.
Must never: decide, or compute what the question does not ask for: everything here is made on first use.
How: `bigfleet.explain.columns` has a number per machine; kinds and stamps are those the engine decided with.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.verdicts import Verdicts
from bigfleet.explain.columns import Codes, Flags, MachineColumns, Places
from bigfleet.explain.usable import in_flight
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import Machine, MachineState, NeedRef
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import Situation

NO_NEED = -1


class MachineGroup(NamedTuple):  # a tuple, as a fleet has tens of thousands of them
    """Machines that are alike: of one shape, state and stamp, held by one need, treated in one way."""

    first: Machine
    """The first by id."""
    holder: int
    """Place of the need that claims them, or NO_NEED."""
    preemptor: int
    """Place of the need they leave for, or NO_NEED."""
    drains_for: int
    """Place of the need for which they already drain and are counted, or NO_NEED."""


@dataclass(frozen=True, slots=True)
class KeepOrder:
    """The position of a machine among the Configured machines of its cluster, the first to be kept first."""

    position: int
    machines: int
    claimed: int
    """How many of them some need holds."""
    reported: bool
    """Whether the cluster has reported its demand, so that anything may be reclaimed from it."""


class DecidedCycle:
    """Everything an explanation may look at."""

    def __init__(
        self,
        snapshot: InventorySnapshot,
        decision: Decision,
        situation: Situation,
        demand: Demand | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """`demand` holds the needs where the situation does not list them; `numbers` are those a document gives them."""
        if not isinstance(decision.verdicts, Verdicts):
            raise TypeError(
                f"a cycle is explained by the engine's verdicts, not by {type(decision.verdicts).__name__}"
            )
        self._snapshot, self.decision, self.situation = snapshot, decision, situation
        self._demand, self._numbers = demand, numbers
        self._verdicts = decision.verdicts
        self.columns = MachineColumns(snapshot, self._verdicts)
        self.needs: Sequence[Need] = self._verdicts.needs()
        """By place: the normalised demand."""
        self._unresolved = {left.need: left.deficit for left in decision.unresolved}
        self._actions: dict[str, Action | None] = {}
        self._drains: dict[NeedRef, Mapping[str, int]] = {}

    @classmethod
    def of_document(
        cls, document: SnapshotDocument, snapshot: InventorySnapshot, decision: Decision
    ) -> "DecidedCycle":
        """The cycle of a document, with the snapshot of its machines on which was decided."""
        listed = document.places == tuple(range(len(document.places)))
        return cls(snapshot, decision, document.situation, numbers=None if listed else document.places)

    def action_on(self, machine_id: str) -> Action | None:
        """The action on a machine; a Preempt comes before a Reclaim of the same one."""
        if machine_id not in self._actions:
            found = (action for action in self.decision.actions if action.machine_id == machine_id)
            self._actions[machine_id] = next(found, None)
        return self._actions[machine_id]

    # The machines

    @cached_property
    def machines(self) -> Mapping[str, Machine]:
        """Every machine by id; a record is made when it is looked up."""
        return _Machines(self._snapshot)

    def in_flight_for(self, place: int) -> tuple[str, ...]:
        """Machines that already drain for a need and are counted for it, by id."""
        need = NeedRef(*self.need(place).stamp_key)
        return tuple(
            machine_id for machine_id, found in sorted(self._counted(need).items()) if found == place
        )

    def draining_places(self, place: int) -> Places:
        """The same by their places in the order of ids."""
        return np.array([self._place(machine_id) for machine_id in self.in_flight_for(place)], dtype=np.intp)

    def _counted(self, need: NeedRef) -> Mapping[str, int]:
        """What drains for the needs of one name, of which there may be several."""
        known = self._drains.get(need)
        if known is None:
            known = self._drains[need] = self._count(need)
        return known

    def _count(self, need: NeedRef) -> Mapping[str, int]:
        snapshot, state = self._snapshot, self._snapshot.columns["state"]
        draining = [
            snapshot.machine(row)
            for row, wanted in snapshot.drains.items()
            # The profile first, which differs most often: to compare whole references is slow.
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
            if place in short and NeedRef(*self.need(place).stamp_key) == need
        ]
        return in_flight({machine.id: machine for machine in draining}, self._verdicts, places)

    @cached_property
    def groups(self) -> Sequence[MachineGroup]:
        """All machines, in groups that differ in something a proposal may depend on."""
        columns, everyone = self.columns, np.arange(len(self.columns))
        holder, preemptor, drains_for = columns.holder, columns.preemptor(), self._drains_for()
        told_apart_by = (
            columns.kind,
            columns.shape(everyone),
            columns.stamp(everyone),
            columns.state,
            columns.cluster,
            holder,
            preemptor,
            drains_for,
        )
        codes = np.zeros(len(columns), dtype=np.int64)
        for column in told_apart_by:
            values, numbers = np.unique(column, return_inverse=True)
            if values.size > 1:
                codes = np.unique(codes * values.size + numbers, return_inverse=True)[1]
        firsts = np.unique(codes, return_index=True)[1]
        return [
            MachineGroup(machine, int(holder[place]), int(preemptor[place]), int(drains_for[place]))
            for machine, place in zip(columns.records(firsts), firsts.tolist(), strict=True)
        ]

    def _drains_for(self) -> Codes:
        """For each machine the place of the need for which it already drains, or NO_NEED."""
        found = np.full(len(self.columns), NO_NEED, dtype=np.int32)
        for need in dict.fromkeys(self._snapshot.drains.values()):
            for machine_id, place in self._counted(need).items():
                found[self._place(machine_id)] = place
        return found

    def group_of(self, machine_id: str) -> MachineGroup:
        """The machine as a group by itself."""
        machine = self.machines[machine_id]
        action, waiting = self.action_on(machine_id), machine.draining_for
        preemptor = action.need if action is not None and action.kind is ActionKind.PREEMPT else None
        return MachineGroup(
            machine,
            int(self.columns.holder[self._place(machine_id)]),
            NO_NEED if preemptor is None else preemptor,
            NO_NEED if waiting is None else self._counted(waiting).get(machine_id, NO_NEED),
        )

    def keep_order(self, machine: Machine) -> KeepOrder:
        """The position of a Configured machine in the keep order of its cluster."""
        columns, number = self.columns, self._snapshot.clusters.number(machine.cluster)
        configured = (columns.state == MachineState.CONFIGURED) & (columns.cluster == number)
        places = np.flatnonzero(configured)
        prices = columns.kinds.price[columns.kind[places]]
        penalties = columns.stamps.reclamation[columns.stamp(places)]
        price, penalty = machine.shape.price_per_hour, machine.assigned.reclamation_penalty
        dearer = (penalties > penalty) | ((penalties == penalty) & (places < self._place(machine.id)))
        before = (prices < price) | ((prices == price) & dearer)
        reported = self.situation.reported_clusters
        return KeepOrder(
            position=1 + int(np.count_nonzero(before)),
            machines=places.size,
            claimed=int(np.count_nonzero(columns.holder[places] >= 0)),
            reported=reported is None or machine.cluster in reported,
        )

    def _place(self, machine_id: str) -> int:
        row = self._snapshot.row_of(machine_id)
        if row is None:
            raise KeyError(machine_id)
        return self.columns.at(row)

    def usable_kinds(self, verdict: Verdict) -> Flags:
        """The kinds that could serve a need in its domain: `bigfleet.explain.usable.Usable`, for all of them."""
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
        # The values are in order; a table of them may be as large as the fleet.
        place = bisect_left(values.values, domain)
        known = place < len(values.values) and values.values[place] == domain
        flags: Flags = values.codes == place if known else np.zeros_like(values.present)
        return flags

    # The needs

    def verdict(self, place: int) -> Verdict:
        """The verdict on the need at a place."""
        return self.decision.verdicts[place]

    def domain(self, place: int) -> str | None:
        """The domain in which the gang at a place gathers, without its verdict being made."""
        return self._verdicts.domain(place)

    def need(self, place: int) -> Need:
        """The need at a place of the normalised demand."""
        return self.needs[place]

    @cached_property
    def needs_by_number(self) -> Mapping[int, Need]:
        """The needs as they were listed, by their numbers."""
        needs = self.situation.needs if self._demand is None else self._demand.rows
        return dict(zip(range(len(needs)) if self._numbers is None else self._numbers, needs, strict=True))

    def numbers(self, place: int) -> tuple[int, ...]:
        """The numbers of the listed needs that one place represents."""
        folded = self.verdict(place).folded_from
        if self._numbers is None:
            return tuple(folded)
        return tuple(sorted(self._numbers[source] for source in folded))

    def first_by_number(self, places: Sequence[int], count: int) -> list[int]:
        """Of needs at some places, given in ascending order, those with the lowest numbers."""
        if self._numbers is not None:
            return sorted(places, key=self.numbers)[:count]
        # Needs that are not folded are in the order of their numbers, so only the folded ones are asked for theirs.
        classes_from = self._verdicts.classes_from
        single = [place for place in places if place < classes_from][:count]
        folded = [place for place in places if place >= classes_from]
        return sorted((*single, *folded), key=self.numbers)[:count] if folded else single

    def place_of(self, number: int) -> int:
        """The place in the normalised demand of a need with a number."""
        cluster = self.needs_by_number[number].cluster
        return next(place for place in self.places_of(cluster) if number in self.numbers(place))

    @cached_property
    def _places_of(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for place, need in enumerate(self.needs):
            found.setdefault(need.cluster, []).append(place)
        return found

    def places_of(self, cluster: str) -> Sequence[int]:
        """The places of the needs of a cluster; folded ones stay with their cluster."""
        return self._places_of.get(cluster, ())

    def open_after_preemption(self, place: int) -> Resources:
        """What a need misses even when every machine that drains for it is counted."""
        return self._unresolved.get(place, ZERO)

    def not_below(self, precedence: tuple[int, int, int]) -> Flags:
        """By place whether a need does not rank below a precedence; the last entry is for NO_NEED."""
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
