"""Machine records at the provider boundary (`wire#rollup-all-or-nothing`, `wire#presence`)."""

import math

import pytest
from hypothesis import given

from bigfleet.model.errors import InvalidFieldError, InvariantError
from bigfleet.model.machine import CapacityType, Machine
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import machine_from_proto, machine_to_proto, rejection_reason
from bigfleet.wire.metadata import PRIORITY
from tests.support.records import machines


def record() -> pb.Machine:
    message = pb.Machine(
        id="m-1",
        state=pb.MACHINE_STATE_CONFIGURED,
        host=pb.HostRef(provider="p", ref="h"),
        cluster="a",
        price_per_hour=1.5,
        shard_metadata={PRIORITY: "7", "foreign": "kept"},
    )
    message.resources.resources["cpu"] = "4"
    message.allocatable.resources["cpu"] = "3900m"
    return message


def test_cluster_metadata_and_allocatable_survive_a_round_trip_unchanged() -> None:
    assert machine_to_proto(machine_from_proto(record())) == record()


def test_an_absent_allocatable_stays_absent() -> None:
    message = record()
    message.ClearField("allocatable")
    assert not machine_to_proto(machine_from_proto(message)).HasField("allocatable")


def test_the_spelling_of_a_quantity_survives() -> None:
    message = record()
    message.resources.resources["memory"] = "0.5Ti"
    assert machine_to_proto(machine_from_proto(message)).resources.resources["memory"] == "0.5Ti"


@given(machines())
def test_what_is_written_reads_back_equal_but_for_the_assignment_which_travels_as_metadata(
    machine: Machine,
) -> None:
    back = machine_from_proto(machine_to_proto(machine))
    assert machine_to_proto(back) == machine_to_proto(machine)
    assert (back.id, back.state, back.shape, back.host, back.cluster, back.last_error) == (
        machine.id, machine.state, machine.shape, machine.host, machine.cluster, machine.last_error,
    )  # fmt: skip


def test_the_assignment_is_read_from_the_metadata() -> None:
    assert machine_from_proto(record()).assigned.priority == 7


def test_an_unknown_capacity_type_reads_as_unspecified() -> None:
    message = record()
    message.capacity_type = 9  # type: ignore[assignment]  # an open enum takes any number
    assert machine_from_proto(message).shape.capacity_type is CapacityType.UNSPECIFIED


@pytest.mark.parametrize("number", [9, -1, 1000])
def test_an_unknown_state_is_refused_naming_those_that_exist(number: int) -> None:
    message = record()
    message.state = number  # type: ignore[assignment]
    with pytest.raises(
        InvalidFieldError, match=rf"state: found {number}, allowed is one of 1 Speculative, 2 Creating"
    ):
        machine_from_proto(message)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("price_per_hour", -1.0, "price"),
        ("price_per_hour", math.inf, "price"),
        ("interruption_probability", math.nan, "interruption_probability"),
        ("cluster", "", "structural"),
        ("id", "", "structural"),
    ],
)
def test_a_refusal_names_the_field_and_is_counted_by_reason(field: str, value: object, reason: str) -> None:
    message = record()
    setattr(message, field, value)
    with pytest.raises(InvariantError) as refused:
        machine_from_proto(message)
    assert refused.value.field == field
    assert rejection_reason(refused.value) == reason
