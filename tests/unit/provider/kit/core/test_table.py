"""Records in columns beside their bytes."""

from dataclasses import replace

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.kit.core.changes import NO_OPERATIONS, PutMachine
from bigfleet.provider.kit.core.table import RecordTable
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.encoding import RecordCodec, listing
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.builders import shape

CODEC = RecordCodec("acme")


def put(
    machine: MachineRecord, revision: int = 1, operations: tuple[int, int, int, int] = NO_OPERATIONS
) -> PutMachine:
    own = CODEC.own(machine)
    return PutMachine(machine.id, machine.state, own, machine.shape, machine.shape, operations, revision)


def listed(table: RecordTable) -> dict[str, pb.Machine]:
    message = pb.MachineList.FromString(listing(table.pieces(table.rows()), b"1"))
    return {machine.id: machine for machine in message.machines}


def test_a_record_comes_back_as_it_was_put() -> None:
    table = RecordTable(CODEC)
    machine = MachineRecord(
        "a/b", S.CONFIGURED, shape(labels={"rack": "r1"}), "h-1", "c", FrozenMap({"k": "\0v", "e": ""}), ""
    )
    row = table.put(put(machine, operations=(1, 2, 0, 0)))
    assert table.machine(row) == machine
    assert table.operations(row) == (1, 2, 0, 0)
    message = listed(table)["a/b"]
    assert (message.host.provider, message.host.ref, message.cluster) == ("acme", "h-1", "c")
    assert dict(message.shard_metadata) == {"k": "\0v", "e": ""}
    assert message.labels["rack"] == "r1"


def test_a_shape_is_kept_once_and_goes_with_its_last_machine() -> None:
    table = RecordTable(CODEC)
    cheap, dear = shape(price=1.0), shape(price=2.0)
    for number in range(2000):
        table.put(put(MachineRecord(f"m-{number}", S.SPECULATIVE, shape(price=1.0))))
    assert len(table._shapes) == 1
    table.put(put(MachineRecord("m-0", S.SPECULATIVE, dear)))
    assert len(table._shapes) == 2
    table.put(put(MachineRecord("m-0", S.SPECULATIVE, cheap)))
    assert len(table._shapes) == 1
    assert {machine.price_per_hour for machine in listed(table).values()} == {1.0}


def test_prices_that_move_for_ever_leave_nothing_behind() -> None:
    table = RecordTable(CODEC)
    for tick in range(500):
        table.put(put(MachineRecord("m", S.SPECULATIVE, shape(price=float(tick)))))
    assert len(table._shapes) == 1
    assert len(table._shapes.pieces) <= 2


def test_a_dropped_row_is_used_again_and_carries_nothing_over() -> None:
    table = RecordTable(CODEC)
    row = table.put(put(MachineRecord("old", S.IDLE, shape(), "h"), operations=(5, 6, 7, 8)))
    table.put(replace(put(MachineRecord("stays", S.SPECULATIVE, shape())), gone_at_s=9))
    assert table.drop("old") == row
    assert table.drop("old") is None
    assert table.put(put(MachineRecord("new", S.SPECULATIVE, shape()))) == row
    assert table.operations(row) == NO_OPERATIONS
    assert sorted(listed(table)) == ["new", "stays"]
    assert table.counts[S.IDLE] == 0
    assert table.counts[S.SPECULATIVE] == 2
    assert [table.id(one) for one in table.tombstones()] == ["stays"]


def test_rows_are_selected_by_the_union_of_states() -> None:
    table = RecordTable(CODEC)
    for number, state in enumerate([S.SPECULATIVE, S.IDLE, S.FAILED, S.IDLE] * 600):
        error = "x" if state is S.FAILED else ""
        table.put(
            put(
                MachineRecord(f"m-{number}", state, shape(), "h" if state is S.IDLE else "", last_error=error)
            )
        )
    assert len(table.rows()) == 2400
    assert len(table.rows([S.IDLE])) == 1200
    assert len(table.rows([S.FAILED, S.SPECULATIVE])) == 1200
    assert len(table.rows([S.DRAINING])) == 0
    assert len(table.rows_of(table.rows()[:4], [S.IDLE])) == 2
