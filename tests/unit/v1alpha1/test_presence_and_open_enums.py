"""What the stubs keep of a message beyond its known values: absence, and numbers that have no name.

Rules: `wire#rollup-all-or-nothing`, `wire#presence`.
"""

import pytest
from google.protobuf.message import Message

from bigfleet.v1alpha1.capacity_pb2 import CapacityNeed, NodeSelectorRequirement, TopologySpread
from bigfleet.v1alpha1.provider_pb2 import (
    CapacityType,
    ListFilter,
    Machine,
    MachineState,
    Resources,
    TransitionAck,
)


@pytest.mark.parametrize(
    ("message", "name", "number"),
    [
        pytest.param(CapacityNeed(), "interruption_penalty_bucket", 28, id="bucket 28"),
        pytest.param(CapacityNeed(), "reclamation_penalty_bucket", -1, id="bucket -1"),
        pytest.param(NodeSelectorRequirement(), "operator", 6, id="operator 6"),
        pytest.param(TopologySpread(), "when_unsatisfiable", 3, id="when unsatisfiable 3"),
        pytest.param(Machine(), "state", 9, id="machine state 9"),
        pytest.param(Machine(), "capacity_type", 2**31 - 1, id="largest capacity type"),
    ],
)
def test_an_enum_number_without_a_name_reaches_the_validation_rules_as_it_is(
    message: Message, name: str, number: int
) -> None:
    setattr(message, name, number)
    decoded = type(message).FromString(message.SerializeToString())
    assert getattr(decoded, name) == number
    assert decoded.SerializeToString() == message.SerializeToString()


def test_an_unknown_state_in_a_filter_stays_in_its_place_among_known_ones() -> None:
    states = [MachineState.MACHINE_STATE_IDLE, MachineState.ValueType(99), MachineState.MACHINE_STATE_FAILED]
    assert list(ListFilter.FromString(ListFilter(states=states).SerializeToString()).states) == states


def full_machine() -> Machine:
    return Machine(
        id="m-1",
        state=MachineState.MACHINE_STATE_CONFIGURED,
        capacity_type=CapacityType.CAPACITY_TYPE_SPOT,
        cluster="blue",
        shard_metadata={"bigfleet.lucy.sh/owner-shard": "s-1", "not ours": "\u2603 \x00 kept"},
        resources=Resources(resources={"cpu": "96"}),
        allocatable=Resources(resources={"cpu": "95500m"}),
    )


def test_cluster_shard_metadata_and_allocatable_survive_a_round_trip_unchanged() -> None:
    machine = full_machine()
    encoded = machine.SerializeToString(deterministic=True)
    decoded = Machine.FromString(encoded)
    assert decoded == machine
    assert decoded.SerializeToString(deterministic=True) == encoded


def test_an_absent_allocatable_stays_absent_and_an_empty_one_stays_present() -> None:
    absent, empty = full_machine(), full_machine()
    absent.ClearField("allocatable")
    empty.allocatable.Clear()
    empty.allocatable.SetInParent()
    assert not Machine.FromString(absent.SerializeToString()).HasField("allocatable")
    assert Machine.FromString(empty.SerializeToString()).HasField("allocatable")
    assert absent != empty


def test_reading_an_absent_allocatable_does_not_make_it_present() -> None:
    machine = Machine.FromString(Machine(id="m-1").SerializeToString())
    assert dict(machine.allocatable.resources) == {}
    assert not machine.HasField("allocatable")
    assert machine.SerializeToString() == Machine(id="m-1").SerializeToString()


def test_an_ack_tells_a_missing_machine_from_an_empty_one() -> None:
    assert not TransitionAck.FromString(TransitionAck(operation_id="o").SerializeToString()).HasField(
        "machine"
    )
    assert TransitionAck.FromString(TransitionAck(machine=Machine()).SerializeToString()).HasField("machine")
