"""Machines, cycles and amounts: from the model to the messages of the insight service.

Why: every reader sees the names of the snapshot document.
Must never: hold a blob, a token, or the provider's metadata.
Rules: `dashboard#insight-service`, `engine#snapshot-defaults`, `engine#machine-invariants`.
"""

from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.machine import UNASSIGNED, Assignment, Machine, NeedRef
from bigfleet.model.times import NANOSECONDS


def machine_to_proto(machine: Machine, *, pending: bool = False) -> pb.MachineRow:
    """Write one machine; what is empty stays absent."""
    shape = machine.shape
    row = pb.MachineRow(
        id=machine.id,
        state=machine.state.label,
        host_provider=machine.host.provider,
        host_ref=machine.host.ref,
        cluster=machine.cluster,
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=shape.capacity_type.label,
        capacity=shape.capacity.texts(),
        labels=shape.labels,
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        drain_grace_remaining_seconds=machine.drain_grace_remaining_s,
        last_error=machine.last_error,
        pending=pending,
    )
    if machine.idle_since is not None:
        row.idle_since_unix_nanos = round(machine.idle_since * NANOSECONDS)
    if machine.assigned != UNASSIGNED:
        row.assigned.CopyFrom(_assignment(machine.assigned))
    if machine.draining_for is not None:
        row.draining_for.CopyFrom(need_key_to_proto(machine.draining_for))
    return row


def need_key_to_proto(need: NeedRef) -> pb.NeedKey:
    """Write what makes a need itself."""
    return pb.NeedKey(cluster=need.cluster, fingerprint=need.fingerprint, group=need.group)


def need_key_from_proto(message: pb.NeedKey) -> NeedRef:
    """Read what makes a need itself."""
    return NeedRef(message.cluster, message.fingerprint, message.group)


def _assignment(assigned: Assignment) -> pb.Assignment:
    return pb.Assignment(
        priority=assigned.priority,
        interruption_penalty=assigned.interruption_penalty,
        reclamation_penalty=assigned.reclamation_penalty,
        fingerprint=assigned.fingerprint,
        group=assigned.group,
        cluster=assigned.cluster,
    )
