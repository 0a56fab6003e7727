"""Frames of the session between an operator and a shard, as the shard reads and writes them.

Why: roll-ups are most of what a shard receives, and they are read from their bytes row by row; so a frame is only opened
here, and what it carries stays encoded until the lane it belongs to takes it up. What the shard sends is encoded once,
when it is put into an outbox.
Must never: decode a roll-up, show a blob (the reading of a frame has no text form), or read a byte twice: the time to open a
frame grows with its length and no faster.
Rules: `wire#session`, `wire#additions`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frames import PODS_FEATURE
from bigfleet.model.machine import Machine
from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, Profile
from bigfleet.v1alpha1 import provider_pb2
from bigfleet.v1alpha1 import shard_pb2 as pb
from bigfleet.wire.requirements import requirements_to_proto

HELLO_ECHO: Final = "hello"
ROLLUP_ECHO: Final = "rollup"
REFUSED_ECHO: Final = "rollup-refused"
RESYNC_ECHO: Final = "resync"

FEATURES: Final = (PODS_FEATURE,)

MAX_FIELDS: Final = 1024
"""Fields of a frame, payload included. An encoder writes one; stepping over a field costs its sender two bytes and the
shard a microsecond, so a frame of megabytes could hold up all other clusters for seconds."""

_LENGTH_DELIMITED: Final = 2
_SIXTY_FOUR, _THIRTY_TWO, _VARINT = 1, 5, 0


@dataclass(frozen=True, slots=True)
class Hello:
    """Opens a session, or says again that it is open."""

    cluster: str


@dataclass(frozen=True, slots=True)
class RollupBytes:
    """A roll-up, still encoded."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Blob:
    """What a machine needs to join its cluster, or why there is none."""

    request_id: str
    data: bytes = field(repr=False)
    ttl_s: int
    error: str


@dataclass(frozen=True, slots=True)
class ReclaimStarted:
    """The operator began to empty nodes."""

    instruction_id: str
    nodes: int


@dataclass(frozen=True, slots=True)
class NoPayload:
    """A frame that carries nothing this version knows."""


OperatorFrame = Hello | RollupBytes | Blob | ReclaimStarted | NoPayload


def read_operator_frame(data: bytes) -> OperatorFrame:
    """Open one frame of an operator; bytes that are no message raise protobuf's `DecodeError`.

    `InvalidFieldError` for a frame of more than `MAX_FIELDS` fields.
    """
    parts: list[memoryview] = []
    carried = 0
    for number, part in _fields(data):
        if not 1 <= number <= 4:
            continue
        # Of a oneof the last one counts; the same one twice is merged, which for encoded messages is putting them together.
        if number != carried:
            parts.clear()
        parts.append(part)
        carried = number
    payload = b"".join(parts)  # once: joined part by part, a frame of two megabytes took a minute
    match carried:
        case 1:
            return Hello(pb.Hello.FromString(payload).cluster_id)
        case 2:
            return RollupBytes(payload)
        case 3:
            blob = pb.BootstrapBlobResponse.FromString(payload)
            return Blob(blob.request_id, blob.user_data, blob.ttl_seconds, blob.error)
        case 4:
            ack = pb.ReclaimAck.FromString(payload)
            return ReclaimStarted(ack.instruction_id, ack.nodes_started)
    return NoPayload()


def _fields(data: bytes) -> Iterator[tuple[int, memoryview]]:
    """The top-level fields of a message that are made of bytes: number and content; others are stepped over."""
    view = memoryview(data)
    at, end, met = 0, len(data), 0
    while at < end:
        met += 1
        if met > MAX_FIELDS:
            raise InvalidFieldError("frame", f"more than {MAX_FIELDS} fields", f"at most {MAX_FIELDS}")
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _varint(data, at)
            if at + size > end:
                raise DecodeError("a field ends beyond its message")
            yield number, view[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_SIXTY_FOUR, _THIRTY_TWO):
            at += 8 if kind == _SIXTY_FOUR else 4
        else:
            raise DecodeError(f"unknown wire type {kind}")
    if at != end:
        raise DecodeError("a field ends beyond its message")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise DecodeError("a number ends beyond its message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def acknowledgement(echo: str, *, term: int, epoch: int, problem: str = "") -> bytes:
    """Tell the operator that a frame was taken, that a resync is complete, or why a roll-up was refused.

    The answer to Hello says which additions to demand this version understands.
    """
    features = FEATURES if echo == HELLO_ECHO else ()
    ack = pb.Acknowledgement(
        echo=echo, coordinator_term=term, shard_epoch=epoch, problem=problem, features=features
    )
    return pb.ShardMessage(ack=ack).SerializeToString()


def bootstrap_request(request_id: str, profile: Profile, cluster: str, machine_id: str) -> bytes:
    """Ask for what a machine needs to join."""
    request = pb.BootstrapRequest(
        request_id=request_id,
        requirements=requirements_to_proto(profile.requirements),
        cluster_id=cluster,
        machine_id=machine_id,
    )
    return pb.ShardMessage(bootstrap_request=request).SerializeToString()


def reclaim_instruction(
    instruction_id: str, machines: Iterable[Machine], *, grace_s: int, preemptor_priority: int
) -> bytes:
    """Ask for nodes to be emptied. The shard knows no node names, so entries are machine ids, with their hosts."""
    named = list(machines)
    instruction = pb.ReclaimInstruction(
        instruction_id=instruction_id,
        nodes=[machine.id for machine in named],
        grace_period_seconds=grace_s,
        preemptor_priority=preemptor_priority,
        targets=[pb.ReclaimTarget(machine_id=each.id, provider_id=each.host.ref) for each in named],
    )
    return pb.ShardMessage(reclaim_instruction=instruction).SerializeToString()


def node_state_key(machine_id: str) -> str:
    """What a newer update of the same machine supersedes."""
    return f"node:{machine_id}"


def node_state(machine: Machine, cluster: str) -> bytes:
    """Write the state of a machine of the cluster, or of one that has just left it."""
    shape = machine.shape
    labels = dict(shape.labels)
    if shape.instance_type:
        labels[INSTANCE_TYPE_KEY] = shape.instance_type
    if shape.zone:
        labels[ZONE_KEY] = shape.zone
    update = pb.NodeStateUpdate(
        supersedes_key=node_state_key(machine.id),
        machine_id=machine.id,
        cluster_id=cluster,
        state=provider_pb2.MachineState.ValueType(int(machine.state)),
        provider_id=machine.host.ref,
        last_error=machine.last_error,
        labels=labels,
    )
    amounts = shape.allocatable or shape.resources
    if amounts:
        update.resources.resources.update(amounts)
    return pb.ShardMessage(node_state_update=update).SerializeToString()


def available_capacity_key(fingerprint: str) -> str:
    """What a newer hint for the same profile supersedes."""
    return f"available:{fingerprint}"


def available_capacity(
    profile: Profile,
    *,
    count: int,
    confidence: int,
    cost_per_hour: float,
    resources: Mapping[str, str],
) -> bytes:
    """Write the supply that a profile could get."""
    update = pb.AvailableCapacityUpdate(
        supersedes_key=available_capacity_key(profile.fingerprint),
        requirements=requirements_to_proto(profile.requirements),
        available_count=count,
        confidence=pb.AvailableCapacityUpdate.Confidence.ValueType(confidence),
        cost_per_hour=cost_per_hour,
    )
    if resources:
        update.resources.resources.update(resources)
    return pb.ShardMessage(available_capacity=update).SerializeToString()
