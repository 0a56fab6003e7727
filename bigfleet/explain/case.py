"""A case: a situation, the decision on it, and both in the form in which questions are asked.

Why: an explanation looks at every machine once; machines that are alike in everything an explanation can say are one group.
`bigfleet.explain.cycle_case` is the same for a running shard.
Must never: decide. Who holds what is read off the decision.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from bigfleet.document.compare_costs import first_actions
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.verdicts import needs_of, short_places
from bigfleet.explain.usable import in_flight
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import Situation

NOBODY = -1


class Group(NamedTuple):  # a tuple, as a fleet has tens of thousands of them
    """Machines that are alike: of one shape, state and stamp, held by one need, treated in one way."""

    first: Machine
    """The first by id."""
    holder: int
    """Place of the need that claims them, NOBODY when none does."""
    preemptor: int
    """Place of the need they leave for, NOBODY when they do not."""
    drains_for: int
    """Place of the need for which they drain already and are counted, NOBODY when they do not."""
    ids: Sequence[str]
    """Ascending."""

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.ids)

    @property
    def capacity(self) -> Resources:
        """What they offer together."""
        return self.first.shape.capacity.scaled(self.size)


class Mates(NamedTuple):
    """Where a Configured machine stands among those of its cluster, the first to be kept first."""

    position: int
    machines: int
    claimed: int
    """How many of them some need holds."""


class Case:
    """Everything an explanation may look at."""

    def __init__(self, document: SnapshotDocument, decision: Decision) -> None:
        self._document, self.decision = document, decision
        self.unresolved: Mapping[int, Resources] = {left.need: left.deficit for left in decision.unresolved}
        self.needs: Sequence[Need] = needs_of(decision.verdicts)
        """By place: the normalised demand."""

    @property
    def document(self) -> SnapshotDocument:
        """The situation, and which need of a document is which of its needs."""
        return self._document

    @property
    def situation(self) -> Situation:
        """What was decided on."""
        return self._document.situation

    @cached_property
    def _actions(self) -> Mapping[str, Action]:
        return first_actions(self.decision.actions)

    def action_on(self, machine_id: str) -> Action | None:
        """What is to be done to a machine."""
        return self._actions.get(machine_id)

    @cached_property
    def _preemptor(self) -> Mapping[str, int]:
        return {
            action.machine_id: NOBODY if action.need is None else action.need
            for action in self.decision.actions
            if action.kind is ActionKind.PREEMPT
        }

    # The machines, in whatever form they are kept

    @cached_property
    def machines(self) -> Mapping[str, Machine]:
        """Every machine by id."""
        return {machine.id: machine for machine in self.situation.machines}

    @cached_property
    def _in_flight(self) -> Mapping[str, int]:
        verdicts = self.decision.verdicts
        return in_flight(self.machines, verdicts, short_places(verdicts))

    def in_flight_for(self, place: int) -> tuple[str, ...]:
        """Machines that drain for a need already and are counted for it, by id."""
        return tuple(machine_id for machine_id, found in sorted(self._in_flight.items()) if found == place)

    @cached_property
    def _holder(self) -> Mapping[str, int]:
        return {
            machine_id: place
            for place, verdict in enumerate(self.decision.verdicts)
            for machine_id in verdict.claimed
        }

    @cached_property
    def groups(self) -> Sequence[Group]:
        """All machines, told apart by all that an explanation can say."""
        # By identity of shape and stamp: documents and inventories share them, and to compare them costs far more. Where
        # they are not shared there are only more groups, which are put together again by what is said of them.
        found: dict[tuple[int, int, int, str, float, int, int, int], list[str]] = {}
        for machine_id in sorted(self.machines):
            machine = self.machines[machine_id]
            key = (
                id(machine.shape),
                id(machine.assigned),
                int(machine.state),
                machine.cluster,
                machine.drain_grace_remaining_s,
                self._holder.get(machine_id, NOBODY),
                self._preemptor.get(machine_id, NOBODY),
                self._in_flight.get(machine_id, NOBODY),
            )
            found.setdefault(key, []).append(machine_id)
        return tuple(Group(self.machines[ids[0]], *key[5:], tuple(ids)) for key, ids in found.items())

    def group_of(self, machine_id: str) -> Group:
        """The group of one machine, which must be there."""
        return next(group for group in self.groups if machine_id in group.ids)

    def mates(self, machine: Machine) -> Mates:
        """Where a Configured machine stands in the keep order of its cluster."""
        there = [
            other
            for other in self.situation.machines
            if other.state is MachineState.CONFIGURED and other.cluster == machine.cluster
        ]
        there.sort(
            key=lambda other: (other.shape.price_per_hour, -other.assigned.reclamation_penalty, other.id)
        )
        position = 1 + next(place for place, other in enumerate(there) if other.id == machine.id)
        return Mates(position, len(there), sum(other.id in self._holder for other in there))

    # The needs

    def verdict(self, place: int) -> Verdict:
        """How the need at a place fares."""
        return self.decision.verdicts[place]

    def domain(self, place: int) -> str | None:
        """Where the gang at a place was told to gather."""
        return self.verdict(place).domain

    def need(self, place: int) -> Need:
        """The need at a place of the normalised demand."""
        return self.needs[place]

    def numbers(self, place: int) -> tuple[int, ...]:
        """The numbers, in the document, of the needs that one place stands for."""
        places = self.document.places
        return tuple(sorted(places[source] for source in self.verdict(place).folded_from))

    def place_of(self, number: int) -> int:
        """The place in the normalised demand of a need of the document."""
        cluster = self.document.situation.needs[self._sources[number]].cluster
        return next(place for place in self._places_of[cluster] if number in self.numbers(place))

    @cached_property
    def _sources(self) -> Mapping[int, int]:
        return {number: source for source, number in enumerate(self.document.places)}

    @cached_property
    def _places_of(self) -> Mapping[str, Sequence[int]]:
        """Where the needs of each cluster stand; folded ones stay with their cluster."""
        found: dict[str, list[int]] = {}
        for place, need in enumerate(self.needs):
            found.setdefault(need.cluster, []).append(place)
        return found

    def places_of(self, cluster: str) -> Sequence[int]:
        """Where the needs of a cluster stand."""
        return self._places_of.get(cluster, ())

    def open_after_preemption(self, place: int) -> Resources:
        """What a need misses even when every machine that drains for it is counted."""
        return self.unresolved.get(place, ZERO)
