"""A snapshot without some machines (`shard#offering-cool-off`)."""

from dataclasses import replace

import numpy as np

from bigfleet.model.inventory import Inventory, Rows, SnapshotMask
from bigfleet.model.machine import MachineState
from tests.support.builders import machine

S = MachineState


def inventory_of(*ids: str) -> Inventory:
    inventory = Inventory()
    for machine_id in ids:
        inventory.insert(machine(machine_id, S.SPECULATIVE), 0.0)
    return inventory


def rows(*numbers: int) -> Rows:
    return np.array(numbers, dtype=np.intp)


def test_a_masked_snapshot_lacks_the_rows_and_numbers_the_others_as_before() -> None:
    full = inventory_of("a", "b", "c").snapshot()
    masked = SnapshotMask().without(full, rows(1))
    assert [record.id for record in masked.machines()] == ["a", "c"]
    assert (len(masked), masked.row_of("b"), masked.row_of("c")) == (2, None, full.row_of("c"))
    assert [masked.machine_id(int(row)) for row in masked.in_state(S.SPECULATIVE)] == ["a", "c"]
    assert [record.id for record in full.machines()] == ["a", "b", "c"]  # unchanged


def test_nothing_left_out_and_nothing_changed_give_the_very_same_snapshot() -> None:
    full, mask = inventory_of("a", "b").snapshot(), SnapshotMask()
    assert mask.without(full, rows()) is full
    masked = mask.without(full, rows(0))
    assert mask.without(full, rows(0)) is masked
    assert mask.without(full, rows(1)) is not masked


def test_a_change_of_states_alone_keeps_the_order_of_ids() -> None:
    inventory, mask = inventory_of("a", "b", "c"), SnapshotMask()
    before = mask.without(inventory.snapshot(), rows(1))
    inventory.apply(replace(inventory.get("c"), state=S.CREATING), 1.0)
    after = mask.without(inventory.snapshot(), rows(1))
    assert after.columns["id_offset"] is before.columns["id_offset"]
    assert [(record.id, record.state) for record in after.machines()] == [
        ("a", S.SPECULATIVE),
        ("c", S.CREATING),
    ]
    inventory.insert(machine("d", S.SPECULATIVE), 2.0)
    assert [record.id for record in mask.without(inventory.snapshot(), rows(1)).machines()] == ["a", "c", "d"]
