"""Machine records: the provider's message to and from the model, with every validation rule.

Why: the provider boundary is the one place where records are checked (ADR-0005); behind it everybody trusts them.
Must never: repair a record. It is taken as it is or refused, the refusal naming the field. Two things alone are left
out: labels that are none or look secret, and the end of an error text longer than people read.
Rules: `wire#machine-record`, `wire#text-lengths`, `wire#labels-left-out`; ADR-0239.
"""

from collections.abc import Mapping

from bigfleet.model.errors import InvalidFieldError, InvariantError, cut
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import (
    MAX_ID_BYTES,
    MAX_TEXT_BYTES,
    NO_HOST,
    TRANSITIONS,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    Shape,
    check,
)
from bigfleet.model.resources import Resources
from bigfleet.model.texts import checked_name
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.labels import labels_taken
from bigfleet.wire.metadata import assignment_from_metadata

MAX_NAME_BYTES = 253
"""Of an instance type, a zone, a provider and a cluster: what Kubernetes allows an object's name."""
MAX_ERROR_CHARACTERS = 4096
"""Of a machine's last error; there may be one on every machine, and people read its beginning."""


def machine_from_proto(record: pb.Machine) -> Machine:
    """Read one record; the assignment is taken from the metadata, which is kept beside it."""
    check_texts(record)
    machine = Machine(
        id=record.id,
        state=state_from_proto(record.state),
        shape=taken_shape(record),
        host=HostRef(record.host.provider, record.host.ref) if record.HasField("host") else NO_HOST,
        cluster=record.cluster,
        assigned=assignment_from_metadata(record.shard_metadata)[0],
        last_error=cut(record.last_error, MAX_ERROR_CHARACTERS),
        metadata=_texts(record.shard_metadata),
    )
    check(machine)
    if (flaw := oversold(machine.shape)) is not None:
        raise flaw
    return machine


def check_texts(record: pb.Machine) -> None:
    """Refuse names that are too long or have a control character."""
    checked_name(record.id, "id", MAX_ID_BYTES, InvariantError)
    checked_name(record.host.provider, "host.provider", MAX_NAME_BYTES, InvariantError)
    checked_name(record.host.ref, "host.ref", MAX_TEXT_BYTES, InvariantError)
    checked_name(record.cluster, "cluster", MAX_NAME_BYTES, InvariantError)
    check_shape_texts(record)


def check_shape_texts(record: pb.Machine) -> None:
    """The same for the names that machines of one shape share."""
    checked_name(record.instance_type, "instance_type", MAX_NAME_BYTES, InvariantError)
    checked_name(record.zone, "zone", MAX_NAME_BYTES, InvariantError)


def oversold(shape: Shape) -> InvariantError | None:
    """What a shape promises pods beyond what the machine has; None when every amount is there."""
    if not shape.allocatable or not shape.resources:
        return None
    there, promised = Resources.parse(shape.resources), Resources.parse(shape.allocatable)
    for name, amount in promised.items():
        if name in shape.resources and amount > there.amount(name):
            return InvariantError(
                f"allocatable[{name}]",
                shape.allocatable[name],
                f"at most the {shape.resources[name]} of resources",
            )
    return None


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


def taken_shape(record: pb.Machine) -> Shape:
    """Read the shape as a shard takes it over: without labels that are none or look secret."""
    shape = shape_from_proto(record)
    return shape.with_labels(labels_taken(shape.labels))


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
