"""A case: a situation, the decision on it, and both in the form in which questions are asked.

Why: an explanation looks at every machine once; machines that are alike in everything an explanation can say are one group.
Called by: the explanations of this room, which share one case.
Must never: decide. Who holds what is read off the decision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bigfleet.document.compare_costs import first_actions
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.usable import in_flight
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Group:
    """Machines that are alike: of one shape, state and stamp, held by one need, treated in one way."""

    first: Machine
    holder: int
    """Place of the need that claims them, NOBODY when none does."""
    preemptor: int
    """Place of the need they leave for, NOBODY when they do not."""
    drains_for: int
    """Place of the need for which they drain already and are counted, NOBODY when they do not."""
    ids: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.ids)


class Case:
    """Everything an explanation may look at."""

    def __init__(self, document: SnapshotDocument, decision: Decision) -> None:
        self.document, self.decision = document, decision
        self.situation = document.situation
        self.machines: Mapping[str, Machine] = {machine.id: machine for machine in self.situation.machines}
        self.holder = {
            machine_id: place
            for place, verdict in enumerate(decision.verdicts)
            for machine_id in verdict.claimed
        }
        self.actions: Mapping[str, Action] = first_actions(decision.actions)
        self.preemptor = {
            action.machine_id: NOBODY if action.need is None else action.need
            for action in decision.actions
            if action.kind is ActionKind.PREEMPT
        }
        self.unresolved: Mapping[int, Resources] = {left.need: left.deficit for left in decision.unresolved}
        self.in_flight: Mapping[str, int] = in_flight(self.machines, decision.verdicts)
        self.groups = self._groups()

    def _groups(self) -> tuple[Group, ...]:
        # By identity of shape and stamp: documents and inventories share them, and to compare them costs far more. Where
        # they are not shared there are only more groups, which are put together again by what is said of them.
        found: dict[tuple[int, int, int, str, int, int, int], list[str]] = {}
        for machine_id in sorted(self.machines):
            machine = self.machines[machine_id]
            key = (
                id(machine.shape),
                id(machine.assigned),
                int(machine.state),
                machine.cluster,
                self.holder.get(machine_id, NOBODY),
                self.preemptor.get(machine_id, NOBODY),
                self.in_flight.get(machine_id, NOBODY),
            )
            found.setdefault(key, []).append(machine_id)
        return tuple(Group(self.machines[ids[0]], *key[4:], tuple(ids)) for key, ids in found.items())

    def verdict(self, place: int) -> Verdict:
        """How the need at a place fares."""
        return self.decision.verdicts[place]

    def need(self, place: int) -> Need:
        """The need at a place of the normalised demand."""
        return self.decision.verdicts[place].need

    def numbers(self, place: int) -> tuple[int, ...]:
        """The numbers, in the document, of the needs that one place stands for."""
        places = self.document.places
        return tuple(sorted(places[source] for source in self.verdict(place).folded_from))

    def place_of(self, number: int) -> int:
        """The place in the normalised demand of a need of the document."""
        return next(place for place in range(len(self.decision.verdicts)) if number in self.numbers(place))

    def capacity(self, machine_ids: Iterable[str]) -> Resources:
        """What some machines offer together."""
        total = ZERO
        for machine_id in machine_ids:
            total += self.machines[machine_id].shape.capacity
        return total

    def open_after_preemption(self, place: int) -> Resources:
        """What a need misses even when every machine that drains for it is counted."""
        return self.unresolved.get(place, ZERO)
