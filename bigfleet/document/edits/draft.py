"""A snapshot document while it is being edited: machines by id, needs by number.

Why: edits are applied one after the other and name needs by number, so a number must keep its meaning while other needs
come and go, and a need must stay the same need when its priority, and so its fingerprint, changes.
Must never: change the document it was made from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bigfleet.document.snapshot import SnapshotDocument, sorted_places
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef, Situation


@dataclass(frozen=True, slots=True)
class DraftNeed:
    """One need of the draft; its number is its place in the first document, or counted on from there."""

    number: int
    need: Need
    parked: bool = False


@dataclass(frozen=True, slots=True)
class EditedDocument:
    """The document after the edits."""

    document: SnapshotDocument
    numbers: tuple[int, ...]
    """For each need of the new document its number: below the old document's count it is the need of that place there."""


class Draft:
    """The parts of a situation that edits replace."""

    def __init__(self, document: SnapshotDocument) -> None:
        situation = document.situation
        self.now, self.holds = situation.now, situation.holds
        self.reported_clusters = situation.reported_clusters
        self.machines: dict[str, Machine] = {machine.id: machine for machine in situation.machines}
        by_place = dict(zip(document.places, situation.needs, strict=True))
        self.rows = [
            DraftNeed(place, by_place[place], gang_ref(by_place[place]) in situation.parked)
            for place in range(len(by_place))
        ]
        self._sort_needs = document.sort_needs
        self._next_number = len(self.rows)

    def add_need(self, need: Need) -> None:
        """Put a need at the end of the list."""
        self.rows.append(DraftNeed(self._next_number, need))
        self._next_number += 1

    def replace_needs(self, needs: Mapping[int, Need]) -> None:
        """Put other needs in the places of some, by number; a gang that was parked stays so while it is a gang."""
        self.rows = [
            replace(row, need=needs[row.number]) if row.number in needs else row for row in self.rows
        ]

    def finished(self) -> EditedDocument:
        """The draft as a document; `x-` keys are left behind, as their places may have moved."""
        needs = [row.need for row in self.rows]
        places = sorted_places(needs) if self._sort_needs else range(len(needs))
        situation = Situation(
            now=self.now,
            machines=tuple(self.machines.values()),
            needs=tuple(needs[place] for place in places),
            parked=frozenset(gang_ref(row.need) for row in self.rows if row.parked and is_gang(row.need)),
            reported_clusters=self.reported_clusters,
            holds=self.holds,
        )
        document = SnapshotDocument(situation, tuple(places), self._sort_needs)
        return EditedDocument(document, tuple(row.number for row in self.rows))


def gang_ref(need: Need) -> GangRef:
    """How a list of parked gangs names a need."""
    return GangRef(need.cluster, need.group, need.profile.fingerprint)


def is_gang(need: Need) -> bool:
    """Whether a need gathers in one domain, so that it can be parked."""
    return need.profile.same_key is not None
