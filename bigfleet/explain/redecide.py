"""Decides on situations that are nearly the same, one after the other.

Why: to try a change on a large fleet must not cost what it costs to read the fleet; most of a decision on plain records
is to put them into columns.
Must never: differ from `bigfleet.engine.cycle.decide_situation`. Machines are compared by identity, so a changed
record must be another object, as records are frozen.
"""

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide
from bigfleet.engine.reporter import Reporter
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import Inventory, InventorySnapshot
from bigfleet.model.machine import Machine
from bigfleet.model.situation import Situation


class Redecider:
    """Holds the machines of the last situation in columns."""

    def __init__(self) -> None:
        self._inventory = Inventory()
        self._held: dict[str, Machine] = {}

    def __call__(self, situation: Situation, reporter: Reporter | None = None) -> Decision:
        """Decide on a situation."""
        return self._decide(situation, reporter)[1]

    def cycle(self, document: SnapshotDocument, reporter: Reporter | None = None) -> DecidedCycle:
        """Decide on a document, and return its cycle for explanations."""
        return DecidedCycle.of_document(document, *self._decide(document.situation, reporter))

    def _decide(self, situation: Situation, reporter: Reporter | None) -> tuple[InventorySnapshot, Decision]:
        self._follow({machine.id: machine for machine in situation.machines})
        snapshot = self._inventory.snapshot()
        return snapshot, decide(
            snapshot,
            situation.needs,
            parked=situation.parked,
            reported_clusters=situation.reported_clusters,
            holds=situation.holds,
            now=situation.now,
            reporter=reporter,
        )

    def _follow(self, wanted: dict[str, Machine]) -> None:
        held = self._held
        for machine_id, machine in held.items():
            if wanted.get(machine_id) is not machine:
                self._inventory.remove(machine_id)
        for machine_id, machine in wanted.items():
            if held.get(machine_id) is not machine:
                self._inventory.insert(machine, None)
        self._held = wanted
