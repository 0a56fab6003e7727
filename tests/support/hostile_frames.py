"""Frames that no operator sends, by what is wrong with them.

Why: the attack tests and the fuzzer need the same ones, as bytes, since no encoder writes most of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bigfleet.v1alpha1 import capacity_pb2
from bigfleet.v1alpha1 import shard_pb2 as pb

MIB: Final = 1024 * 1024


def varint(number: int) -> bytes:
    """Encode a number as protobuf does."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def field(number: int, content: bytes) -> bytes:
    """Encode a field that is made of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def hello(cluster: str) -> bytes:
    """What a good operator sends first."""
    return pb.OperatorMessage(hello=pb.Hello(cluster_id=cluster)).SerializeToString()


def nested(depth: int) -> bytes:
    """A field within a field within a field."""
    data = b""
    for _ in range(depth):
        data = field(1, data)
    return data


def rollup(cluster: str, rows: int, *, first: int = 0) -> bytes:
    """A roll-up of many rows, each of another priority, so that none is remembered from the one before."""
    needs = [
        capacity_pb2.CapacityNeed(priority=first + row, aggregate_resources={"cpu": "1"})
        for row in range(rows)
    ]
    whole = capacity_pb2.ClusterCapacityNeeds(cluster_id=cluster, timestamp_unix_nanos=1, needs=needs)
    return pb.OperatorMessage(rollup=whole).SerializeToString()


HELLO: Final = hello("prod")

BAD_FIRST_FRAMES: Final[dict[str, bytes]] = {
    "nothing": b"",
    "2 MB of repeated hellos": field(1, b"") * MIB,
    "2 MB of repeated roll-ups": field(2, b"") * MIB,
    "two payloads in turn, 2 MB": (field(2, b"") + field(3, b"")) * (MIB // 2),
    "8 MB of unknown numbers": b"\x78\x01" * (4 * MIB),
    "8 MB of unknown messages": field(77, b"") * (8 * MIB // 3),
    "many fields within the limit of bytes": b"\x78\x01" * 30_000 + HELLO,
    "a hello behind 70 KB": field(77, b"x" * 70_000) + HELLO,
    "a cluster id of 20 MB": hello("x" * 20 * MIB),
    "a cluster id of 300 characters": hello("x" * 300),
    "a hello without a cluster": hello(""),
    "a cluster id that is no text": field(1, field(1, b"\xff\xfe")),
    "nested deeper than any message": nested(20_000),
    "a length beyond the end": b"\x0a\x7f\x0a\x04prod",
    "a number without an end": b"\x0a" + b"\xff" * 11,
    "a group": b"\x0b\x0c" * 1000,
    "a wire type of no meaning": b"\x0e\x0f" + HELLO,
    "noise": bytes(range(255, 0, -1)) * 40,
    "a roll-up first": rollup("prod", 3),
    "an answer to nothing": pb.OperatorMessage(
        bootstrap_response=pb.BootstrapBlobResponse(request_id="x")
    ).SerializeToString(),
}
"""Each ends its stream when it comes first."""

BAD_LATER_FRAMES: Final[dict[str, bytes]] = {
    "2 MB of repeated roll-ups": field(2, b"") * MIB,
    "two payloads in turn, 2 MB": (field(2, b"") + field(3, b"")) * (MIB // 2),
    "8 MB of unknown numbers": b"\x78\x01" * (4 * MIB),
    "8 MB of unknown messages": field(77, b"") * (8 * MIB // 3),
    "a length beyond the end": b"\x12\x7f\x0a\x04prod",
    "a group": b"\x0b\x0c" * 1000,
    "a hello for a cluster of 20 MB": hello("x" * 20 * MIB),
    "noise": bytes(range(255, 0, -1)) * 40,
}
"""Each ends its session."""

SKIPPED_LATER_FRAMES: Final[dict[str, bytes]] = {
    "nothing": b"",
    "an unknown payload of 20 MB": field(77, b"x" * 20 * MIB),
    "an answer to no request, of 20 MB": pb.OperatorMessage(
        bootstrap_response=pb.BootstrapBlobResponse(request_id="x" * 1000, user_data=b"x" * 20 * MIB)
    ).SerializeToString(),
    "an ack of no instruction": pb.OperatorMessage(
        reclaim_ack=pb.ReclaimAck(instruction_id="x" * 1000, nodes_started=-1)
    ).SerializeToString(),
    "a roll-up that is no message": field(2, b"\xff" * 1000),
    "a roll-up of another cluster": rollup("other", 3),
    "a roll-up of 20 MB that is no message": field(2, b"\xff" * 20 * MIB),
    "nested deeper than any roll-up": field(2, field(3, nested(20_000))),
}
"""Each leaves the session as it is, with no acknowledgement."""

FLOODS: Final[Mapping[str, Callable[[], Sequence[bytes]]]] = {
    "large roll-ups of ever-new rows": lambda: [rollup("prod", 20_000, first=20_000 * n) for n in range(4)],
    "small roll-ups of ever-new rows": lambda: [rollup("prod", 900, first=900 * n) for n in range(50)],
    "roll-ups that are refused at their end": lambda: [rollup("prod", 20_000) + b"\x12\x02\xff\xff"],
    "hellos": lambda: [hello("prod")],
    "frames without payload": lambda: [b""],
    "frames that end the session": lambda: list(BAD_LATER_FRAMES.values()),
    "first frames": lambda: list(BAD_FIRST_FRAMES.values()),
}
"""What the hostile cluster sends in turn, by kind; more rows than a session remembers, so that each is read again."""
