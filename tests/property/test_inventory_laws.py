"""The columnar inventory against its naive twin: a dict of records."""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bigfleet.model.errors import IllegalTransitionError
from bigfleet.model.inventory import Inventory, InventorySnapshot
from bigfleet.model.machine import Machine, MachineState, check_transition
from tests.support.records import machines

IDS = st.sampled_from([f"m-{number}" for number in range(12)])


class InventoryTwin(RuleBasedStateMachine):
    """Every operation on both; every snapshot ever taken must stay as it was."""

    def __init__(self) -> None:
        super().__init__()
        # Labels turn wide at once, so that a handful of machines exercises the move.
        patcher = patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 2)
        patcher.start()
        self.stop = patcher.stop
        self.inventory = Inventory()
        self.twin: dict[str, Machine] = {}
        self.now = 0.0
        self.snapshots: list[tuple[InventorySnapshot, list[Machine]]] = []

    def teardown(self) -> None:
        self.stop()

    @rule(record=machines(IDS))
    def insert(self, record: Machine) -> None:
        self.now += 1
        if record.id not in self.twin:
            self.inventory.insert(record, self.now)
            stamp = self.now if record.state is MachineState.IDLE else None
            self.twin[record.id] = replace(record, idle_since=stamp)

    @rule(record=machines(IDS), adopt=st.booleans())
    def write(self, record: Machine, adopt: bool) -> None:
        self.now += 1
        before = self.twin.get(record.id)
        if before is None:
            return
        if adopt:
            self.inventory.adopt(record, self.now)
        else:
            try:
                check_transition(record.id, before.state, record.state)
            except IllegalTransitionError:
                return
            self.inventory.apply(record, self.now)
        entered = record.state is MachineState.IDLE and before.state is not MachineState.IDLE
        stamp = self.now if entered else before.idle_since
        self.twin[record.id] = replace(
            record, idle_since=stamp if record.state is MachineState.IDLE else None
        )

    @rule(records=st.lists(machines(IDS), max_size=4, unique_by=lambda record: record.id))
    def adopt_many(self, records: list[Machine]) -> None:
        self.now += 1
        known = [record for record in records if record.id in self.twin]
        self.inventory.adopt_many([(record, 7) for record in known], self.now)
        for record in known:
            before = self.twin[record.id]
            entered = record.state is MachineState.IDLE and before.state is not MachineState.IDLE
            stamp = self.now if entered else before.idle_since
            self.twin[record.id] = replace(
                record, idle_since=stamp if record.state is MachineState.IDLE else None
            )

    @rule(machine_id=IDS)
    def remove(self, machine_id: str) -> None:
        if self.twin.pop(machine_id, None):
            self.inventory.remove(machine_id)

    @rule()
    def compact(self) -> None:
        self.inventory.compact()

    @rule()
    def snapshot(self) -> None:
        expected = sorted(self.twin.values(), key=lambda record: record.id)
        self.snapshots.append((self.inventory.snapshot(), expected))

    @precondition(lambda self: self.snapshots)
    @rule()
    def snapshots_never_change(self) -> None:
        for snapshot, expected in self.snapshots:
            assert list(snapshot.machines()) == expected

    @invariant()
    def holds_what_the_twin_holds(self) -> None:
        assert len(self.inventory) == len(self.twin)
        assert {machine_id: self.inventory.get(machine_id) for machine_id in self.twin} == self.twin


TestInventoryTwin = InventoryTwin.TestCase
TestInventoryTwin.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
