"""Machine records: the provider's message to and from the model, with every validation rule.

Why: the provider boundary is the one place where records are checked (ADR-0005); behind it everybody trusts them.
Must never: repair a record. It is taken as it is or refused, the refusal naming the field.
"""

from collections.abc import Mapping

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import (
    NO_HOST,
    TRANSITIONS,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    Shape,
    check,
)
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.metadata import assignment_from_metadata


def machine_from_proto(record: pb.Machine) -> Machine:
    """Read one record; the assignment is taken from the metadata, which is kept beside it."""
    machine = Machine(
        id=record.id,
        state=state_from_proto(record.state),
        shape=shape_from_proto(record),
        host=HostRef(record.host.provider, record.host.ref) if record.HasField("host") else NO_HOST,
        cluster=record.cluster,
        assigned=assignment_from_metadata(record.shard_metadata)[0],
        last_error=record.last_error,
        metadata=_texts(record.shard_metadata),
    )
    check(machine)
    return machine


def machine_to_proto(machine: Machine) -> pb.Machine:
    """Write one record; what is empty stays absent."""
    shape = machine.shape
    record = pb.Machine(
        id=machine.id,
        state=pb.MachineState.ValueType(int(machine.state)),
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=pb.CapacityType.ValueType(int(shape.capacity_type)),
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        labels=shape.labels,
        last_error=machine.last_error,
        cluster=machine.cluster,
        shard_metadata=machine.metadata,
    )
    if machine.host:
        record.host.CopyFrom(pb.HostRef(provider=machine.host.provider, ref=machine.host.ref))
    if shape.resources:
        record.resources.resources.update(shape.resources)
    if shape.allocatable:
        record.allocatable.resources.update(shape.allocatable)
    return record


def state_from_proto(number: int) -> MachineState:
    """Read a state; unlike other enums an unknown number is refused, as nothing safe can be made of it."""
    try:
        return MachineState(number)
    except ValueError:
        known = ", ".join(f"{state:d} {state.label}" for state in TRANSITIONS)
        raise InvalidFieldError("state", number, f"one of {known}") from None


def shape_from_proto(record: pb.Machine) -> Shape:
    """Read the shape of the machine, regardless of its cluster."""
    return Shape(
        instance_type=record.instance_type,
        zone=record.zone,
        capacity_type=_capacity_type(record.capacity_type),
        price_per_hour=record.price_per_hour,
        interruption_probability=record.interruption_probability,
        resources=_texts(record.resources.resources),
        allocatable=_texts(record.allocatable.resources),
        labels=_texts(record.labels),
    )


def _capacity_type(number: int) -> CapacityType:
    try:
        return CapacityType(number)
    except ValueError:
        return CapacityType.UNSPECIFIED  # a type of tomorrow is held like one we know nothing about


def _texts(texts: Mapping[str, str]) -> FrozenMap[str]:
    return FrozenMap(texts) if texts else NO_TEXTS


def rejection_reason(error: InvalidFieldError) -> str:
    """The label under which a refused record is counted: price, interruption_probability or structural."""
    if error.field == "price_per_hour":
        return "price"
    return error.field if error.field == "interruption_probability" else "structural"
