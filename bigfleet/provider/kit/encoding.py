"""Encodes records as pieces of protobuf that can be joined without decoding them.

Why: protobuf allows the fields of a message in any order and in several pieces. A record is its own fields followed by the
bytes of a shared shape, and a listing is a sequence of such records.
Must never: return bytes that are not a plain message of the contract.
Rules: `wire#machine-record`, `wire#listing`, `providers#encoded-records`.
"""

from typing import Final

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import MachineState, Shape
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import shape_from_proto

_LISTED: Final = b"\x0a"  # MachineList.machines, field 1, length-delimited
_REVISION: Final = b"\x12"  # MachineList.revision, field 2
_OPERATION: Final = b"\x0a"  # TransitionAck.operation_id, field 1
_ACKED: Final = b"\x12"  # TransitionAck.machine, field 2

# Tags of Machine and its inner messages: field number and wire type in one byte.
_ID, _STATE, _HOST, _LAST_ERROR, _CLUSTER, _METADATA = b"\x0a", b"\x10", b"\x1a", b"\x62", b"\x72", b"\x7a"
_PROVIDER, _REF = b"\x0a", b"\x12"
_KEY, _VALUE = b"\x0a", b"\x12"
_SMALL: Final = tuple(bytes((number,)) for number in range(128))


class RecordCodec:
    """Encodes the records of one provider; every host reference carries the provider's name."""

    def __init__(self, provider: str) -> None:
        self._host = b"".join((_PROVIDER, *_sized(provider.encode())))

    def own(self, machine: MachineRecord) -> bytes:
        # By hand, in the order of field numbers: building a million messages would take most of the time of a start. A
        # property test compares the bytes with those of the library.
        parts = [_ID, *_sized(machine.id.encode()), _STATE, _SMALL[machine.state]]
        if machine.host:
            ref = machine.host.encode()
            size = _varint(len(ref))
            parts += (_HOST, _varint(len(self._host) + 1 + len(size) + len(ref)), self._host, _REF, size, ref)
        if machine.last_error:
            parts += (_LAST_ERROR, *_sized(machine.last_error.encode()))
        if machine.cluster:
            parts += (_CLUSTER, *_sized(machine.cluster.encode()))
        for key in sorted(machine.shard_metadata):
            entry = b"".join(
                (_KEY, *_sized(key.encode()), _VALUE, *_sized(machine.shard_metadata[key].encode()))
            )
            parts += (_METADATA, *_sized(entry))
        return b"".join(parts)

    def shape(self, shape: Shape) -> bytes:
        return encode_shape(shape)

    def machine(self, own: bytes, shape: Shape) -> MachineRecord:
        record = pb.Machine.FromString(own)
        return MachineRecord(
            id=record.id,
            state=MachineState(record.state),
            shape=shape,
            host=record.host.ref,
            cluster=record.cluster,
            shard_metadata=FrozenMap(record.shard_metadata) if record.shard_metadata else NO_TEXTS,
            last_error=record.last_error,
        )

    def listed(self, own: bytes, shape_bytes: int) -> bytes:
        return b"".join((_LISTED, _varint(len(own) + shape_bytes), own))

    def unlisted(self, listed: bytes) -> bytes:
        start = 1
        while listed[start] & 0x80:
            start += 1
        return listed[start + 1 :]


def encode_shape(shape: Shape) -> bytes:
    """Encode a shape as fields of a machine record, with map entries in key order."""
    record = pb.Machine(
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=pb.CapacityType.ValueType(int(shape.capacity_type)),
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        labels=shape.labels,
    )
    if shape.resources:
        record.resources.resources.update(shape.resources)
    if shape.allocatable:
        record.allocatable.resources.update(shape.allocatable)
    return record.SerializeToString(deterministic=True)


def decode_shape(data: bytes) -> Shape:
    return shape_from_proto(pb.Machine.FromString(data))


def id_of(own: bytes) -> str:
    """Return the id at the start of an own part without decoding the rest."""
    length, start = _read_varint(own, 1)
    return own[start : start + length].decode()


def ack(operation_id: str, own: bytes, shape: bytes) -> bytes:
    text = operation_id.encode()
    size = _varint(len(own) + len(shape))
    return b"".join((_OPERATION, _varint(len(text)), text, _ACKED, size, own, shape))


def listing(pieces: list[bytes], revision: bytes) -> bytes:
    """Return a MachineList; appends to `pieces`."""
    pieces += (_REVISION, _varint(len(revision)), revision)
    return b"".join(pieces)


def listing_bytes(pieces: list[bytes], revision: bytes) -> int:
    """Return the length of `listing` for these pieces."""
    return sum(map(len, pieces)) + 1 + len(_varint(len(revision))) + len(revision)


def _sized(data: bytes) -> tuple[bytes, bytes]:
    return _varint(len(data)), data


def _varint(number: int) -> bytes:
    if number < 128:
        return _SMALL[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, start
        shift += 7
