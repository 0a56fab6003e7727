"""What the inventory accepts, what it refuses, and what a snapshot promises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.errors import (
    DuplicateMachineError,
    IllegalTransitionError,
    InvalidFieldError,
    InvariantError,
    UnknownMachineError,
)
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory import Inventory, NewRows
from bigfleet.model.inventory.arena import NO_TEXT
from bigfleet.model.inventory.snapshot import Texts
from bigfleet.model.inventory.wide_labels import MANY_VALUES
from bigfleet.model.machine import NO_HOST, Machine, MachineState, NeedRef
from tests.support.builders import assigned, machine, shape

S = MachineState


def holding(*machines: Machine, now: float = 0.0) -> Inventory:
    inventory = Inventory()
    for record in machines:
        inventory.insert(record, now)
    return inventory


def ids(inventory: Inventory, state: MachineState) -> list[str]:
    snapshot = inventory.snapshot()
    return [snapshot.machine(int(row)).id for row in snapshot.in_state(state)]


def test_a_record_comes_back_as_it_went_in() -> None:
    record = machine(
        "m-1",
        S.DRAINING,
        shape=shape(labels={"rack": "r1", "empty": ""}, allocatable={"cpu": "3900m"}),
        assigned=assigned(7, 5, 1, fingerprint="p=7", group="g"),
        draining_for=NeedRef("b", "p=9", "g2"),
        drain_grace_remaining_s=12.5,
        last_error="slow",
    )
    assert holding(record).get("m-1") == record


def test_an_insert_refuses_a_known_id_and_a_broken_invariant_and_changes_nothing() -> None:
    inventory = holding(machine("m-1", S.IDLE))
    with pytest.raises(DuplicateMachineError, match="m-1"):
        inventory.insert(machine("m-1", S.CONFIGURED), 0.0)
    with pytest.raises(InvariantError, match="host"):
        inventory.insert(machine("m-2", S.IDLE, host=NO_HOST), 0.0)
    assert len(inventory) == 1
    assert inventory.get("m-1").state is S.IDLE


def test_apply_refuses_unknown_ids_broken_invariants_and_skipped_edges_and_changes_nothing() -> None:
    inventory = holding(machine("m-1", S.IDLE), now=5.0)
    before = inventory.get("m-1")
    with pytest.raises(UnknownMachineError, match="m-2"):
        inventory.apply(machine("m-2"), 9.0)
    with pytest.raises(IllegalTransitionError, match="Idle to Configured"):
        inventory.apply(machine("m-1", S.CONFIGURED), 9.0)
    with pytest.raises(InvariantError, match="cluster"):
        inventory.apply(machine("m-1", S.CONFIGURING, cluster=""), 9.0)
    with pytest.raises(InvalidFieldError, match=r"host\.ref"):
        inventory.apply(replace(before, host=replace(before.host, ref="x" * 70_000)), 9.0)
    assert inventory.get("m-1") == before


def test_adopt_and_undo_take_any_edge_but_no_broken_invariant() -> None:
    inventory = holding(machine("m-1", S.CONFIGURED))
    inventory.adopt(machine("m-1", S.FAILED), 1.0)
    assert inventory.get("m-1").state is S.FAILED
    inventory.undo(machine("m-1", S.IDLE), 2.0)
    assert inventory.get("m-1").idle_since == 2.0
    with pytest.raises(InvariantError):
        inventory.adopt(machine("m-1", S.FAILED, last_error=""), 3.0)
    with pytest.raises(UnknownMachineError):
        inventory.undo(machine("m-2"), 3.0)


def test_adopting_many_is_all_or_nothing() -> None:
    inventory = holding(machine("m-1"), machine("m-2"))
    before = list(inventory.snapshot().machines())
    with pytest.raises(UnknownMachineError, match="m-3"):
        inventory.adopt_many([(machine("m-1", S.FAILED), 1), (machine("m-3"), 2)], 5.0)
    with pytest.raises(InvariantError, match="host"):
        inventory.adopt_many([(machine("m-1", S.FAILED), 1), (machine("m-2", host=NO_HOST), 2)], 5.0)
    assert list(inventory.snapshot().machines()) == before
    inventory.adopt_many([], 5.0)
    inventory.adopt_many([(machine("m-1", S.FAILED), 1), (machine("m-2", S.DRAINING), 2)], 5.0)
    assert [record.state for record in inventory.snapshot().machines()] == [S.FAILED, S.DRAINING]


def test_the_idle_stamp_is_set_on_entering_idle_kept_there_and_dropped_on_leaving() -> None:
    inventory = holding(machine("m-1", S.IDLE), now=10.0)
    assert inventory.get("m-1").idle_since == 10.0
    inventory.apply(machine("m-1", S.IDLE, shape=shape(price=2.0)), 20.0)
    assert inventory.get("m-1").idle_since == 10.0
    inventory.apply(machine("m-1", S.CONFIGURING), 30.0)
    assert inventory.get("m-1").idle_since is None
    inventory.apply(machine("m-1", S.IDLE), 40.0)
    assert inventory.get("m-1").idle_since == 40.0


def test_a_stamp_that_a_record_brings_along_is_kept() -> None:
    inventory = holding(machine("m-1", S.IDLE, idle_since=3.25), now=10.0)
    assert inventory.get("m-1").idle_since == 3.25
    unknown = Inventory()
    unknown.insert(machine("m-1", S.IDLE), None)
    assert unknown.get("m-1").idle_since is None


def test_remove_forgets_the_machine_and_its_row_serves_another() -> None:
    failed = machine("m-1", S.FAILED)
    inventory = holding(failed, machine("m-2"))
    inventory.remove("m-1")
    with pytest.raises(UnknownMachineError):
        inventory.remove("m-1")
    assert "m-1" not in inventory
    inventory.insert(machine("m-3", S.SPECULATIVE), 0.0)
    assert inventory.get("m-3").last_error == ""
    assert len(inventory) == 2
    inventory.insert(failed, 0.0)
    assert inventory.get("m-1") == failed


def test_a_snapshot_never_changes() -> None:
    inventory = holding(machine("m-1", S.IDLE), machine("m-2", S.FAILED), now=1.0)
    snapshot = inventory.snapshot()
    before = list(snapshot.machines())
    inventory.apply(machine("m-1", S.CONFIGURING), 2.0)
    inventory.remove("m-2")
    inventory.insert(machine("m-3", S.IDLE), 3.0)
    inventory.compact()
    assert list(snapshot.machines()) == before
    assert len(snapshot) == 2
    assert [record.id for record in inventory.snapshot().machines()] == ["m-1", "m-3"]


def test_machines_in_a_state_come_by_id_in_code_point_order() -> None:
    names = ["b", "a", "a\x00", "aa", "Z", "é", "z" * 70, "gpu-10", "gpu-2"]
    assert ids(holding(*map(machine, names)), S.IDLE) == sorted(names)
    short = names[:6]
    assert ids(holding(*map(machine, short)), S.IDLE) == sorted(short)


def test_machines_in_some_states_come_by_row_and_removed_ones_do_not() -> None:
    inventory = holding(
        machine("a"), machine("b", S.CREATING), machine("c", S.DRAINING), machine("d", S.CREATING)
    )
    inventory.remove("b")
    assert inventory.ids_of(inventory.in_states((S.CREATING, S.DRAINING))) == ["c", "d"]
    assert inventory.in_states(()).size == 0


def test_counts_by_state() -> None:
    inventory = holding(machine("a"), machine("b"), machine("c", S.FAILED))
    inventory.remove("b")
    counts = inventory.count_by_state()
    assert (counts[S.IDLE], counts[S.FAILED], counts[S.CREATING]) == (1, 1, 0)


def test_a_label_with_a_value_for_every_machine_does_not_make_every_machine_a_shape() -> None:
    def named(number: int) -> Machine:
        return machine(f"m-{number}", shape=shape(labels={"host": f"h-{number}", "rack": f"r-{number % 3}"}))

    inventory = Inventory()
    count = MANY_VALUES + 50
    for number in range(count):
        inventory.insert(named(number), 0.0)
    assert inventory.wide.keys == ("host",)
    inventory.compact()
    assert len(inventory.shapes) <= 4
    assert all(inventory.get(f"m-{number}").shape == named(number).shape for number in range(count))
    moved = machine("m-7", shape=shape(labels={"rack": "r-1"}))
    inventory.apply(moved, 1.0)
    assert inventory.get("m-7").shape.labels == FrozenMap({"rack": "r-1"})
    inventory.apply(named(7), 1.0)
    assert inventory.get("m-7").shape == named(7).shape


def test_ids_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigfleet.model.inventory.id_index.hash", lambda _: 42, raising=False)
    inventory = Inventory()
    for number in range(40):
        inventory.insert(machine(f"m-{number}"), 0.0)
    inventory.remove("m-3")
    assert "m-3" not in inventory
    assert [inventory.get(f"m-{number}").id for number in (0, 17, 39)] == ["m-0", "m-17", "m-39"]


def test_rows_numbered_before_a_renumbering_are_refused() -> None:
    inventory = Inventory()
    rows = NewRows(inventory.generation, inventory.population)
    rows.extend(["m"], [int(S.SPECULATIVE)], np.zeros((4, 1), dtype=np.int32), [b""], [1])
    inventory.compact()
    with pytest.raises(ValueError, match="read them again"):
        inventory.insert_rows(rows, 0.0)


def test_rows_read_before_another_machine_came_are_refused_as_it_might_be_the_same() -> None:
    inventory = Inventory()
    rows = NewRows(inventory.generation, inventory.population)
    rows.extend(["m"], [int(S.SPECULATIVE)], np.zeros((4, 1), dtype=np.int32), [b""], [1])
    inventory.insert(machine("m"), 0.0)
    with pytest.raises(ValueError, match="read them again"):
        inventory.insert_rows(rows, 0.0)
    assert len(inventory) == 1


@pytest.mark.parametrize("odd", ["", "ü", "Straße", "機械"])
def test_ids_read_at_once_are_those_read_one_by_one_in_any_alphabet(odd: str) -> None:
    names = [f"m-{number:03}{odd}" for number in range(50)]
    snapshot = holding(*map(machine, names)).snapshot()
    assert snapshot.ids.many(snapshot.id_order) == names
    assert snapshot.ids.many(snapshot.id_order[:1]) == names[:1]


@given(
    st.lists(st.text("ab7ü機", min_size=1, max_size=5), unique=True, max_size=12),
    st.text("ab7ü機", min_size=1, max_size=3),
)
def test_a_part_is_found_in_the_ids_that_contain_it_and_in_no_two_that_meet(
    names: list[str], part: str
) -> None:
    snapshot = holding(*map(machine, names)).snapshot()
    found = snapshot.id_order[snapshot.ids.containing(snapshot.id_order, part)]
    assert snapshot.ids.many(found) == sorted(name for name in names if part in name)


def test_a_row_without_a_text_contains_nothing() -> None:
    texts = Texts(np.frombuffer(b"abcabc", np.uint8), np.array([0, 3]), np.array([NO_TEXT, 3], np.uint16))
    assert texts.containing(np.array([0, 1]), "bc").tolist() == [False, True]


def test_many_single_additions_and_removals_stay_findable() -> None:
    inventory = Inventory()
    for number in range(5000):
        inventory.insert(machine(f"m-{number}"), 0.0)
    for number in range(0, 5000, 2):
        inventory.remove(f"m-{number}")
    for number in range(0, 5000, 4):
        inventory.insert(machine(f"m-{number}", S.SPECULATIVE), 0.0)
    expected = {f"m-{number}" for number in range(5000) if number % 2 or number % 4 == 0}
    assert {f"m-{number}" for number in range(5000) if f"m-{number}" in inventory} == expected
    assert len(inventory) == len(expected)
