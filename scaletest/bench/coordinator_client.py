"""Clients of the coordinator in a process of their own that speak gRPC with as little work as can be.

Why: on two cores the clients take from the replicas whatever they use themselves; the gRPC library's own client costs more per
call than a follower does. What arrives at the server is what that client would send: HTTP/2, header compression with a
dynamic table, one connection per client.
Must never: count what was not acknowledged. A call that succeeds has a message in its answer, a refused one has none; and what
was counted is looked up in the coordinator's tables at the end by the process that started this.

Each client assigns one new domain after another, the next when the last was acknowledged. Printed at the end, as JSON: how many
answers came in the measured time, how long each took in nanoseconds, how many each client has got in all, and the processor time.
"""

import asyncio
import json
import resource
import struct
import sys
import time
from functools import partial

from bigfleet.transport.coordinator import ASSIGN_DOMAIN
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.ack_writer import KEY, SHARD

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW = 0, 1, 3, 4, 6, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STREAM = struct.Struct(">I")
_WIDE_WINDOW = (1 << 30).to_bytes(4, "big")
_AGAIN_S = 0.05


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return one HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + _STREAM.pack(stream) + payload


def text(value: str) -> bytes:
    """Return a string of a header block, as it is."""
    return bytes((len(value),)) + value.encode()


def headers(address: str) -> tuple[bytes, bytes]:
    """Return the header block of a first call, which both ends remember, and of every other, which refers to it."""
    named = [
        (b"\x44", ASSIGN_DOMAIN.path),  # :path
        (b"\x41", address),  # :authority
        (b"\x40" + text("te"), "trailers"),
        (b"\x5f", "application/grpc"),  # content-type
        (b"\x40" + text("grpc-timeout"), "10S"),
        (b"\x7a", "bench"),  # user-agent
    ]
    post_over_http = b"\x83\x86"
    first = post_over_http + b"".join(name + text(value) for name, value in named)
    newest_first = 62
    again = bytes(0x80 | newest_first + place for place in reversed(range(len(named))))
    return first, post_over_http + again


class Client(asyncio.Protocol):
    """One connection with one call at a time."""

    def __init__(self, name: str, blocks: tuple[bytes, bytes]) -> None:
        self._name, self._blocks = name, blocks
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._stream = -1
        self._began = 0
        self._has_message = False
        self.acked = 0
        self.refused = 0
        self.times: list[tuple[int, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream is wanted")
        self._transport = transport
        transport.write(_PREFACE + frame(_SETTINGS, 0, 0, b"") + frame(_WINDOW, 0, 0, _WIDE_WINDOW))
        self._call()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < 9 + length:
                return
            kind, flags = self._buffer[3], self._buffer[4]
            (stream,) = _STREAM.unpack_from(self._buffer, 5)
            payload, self._buffer = self._buffer[9 : 9 + length], self._buffer[9 + length :]
            if stream in (0, self._stream):
                self._frame(kind, flags, payload)

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _DATA and payload:
            self._has_message = True
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            self._ended(self._has_message)
        elif kind == _RESET:
            self._ended(False)
        elif kind in (_SETTINGS, _PING) and not flags & _ACK and self._transport is not None:
            self._transport.write(frame(kind, _ACK, 0, b"" if kind == _SETTINGS else payload))

    def _ended(self, acknowledged: bool) -> None:
        if acknowledged:
            self.times.append((self._began, time.monotonic_ns()))
            self.acked += 1
            self._call()
        else:
            self.refused += 1
            asyncio.get_running_loop().call_later(_AGAIN_S, self._call)

    def _call(self) -> None:
        if self._transport is None:
            return
        self._stream += 2
        self._has_message = False
        request = pb.AssignDomainRequest(
            topology_key=KEY, topology_value=f"{self._name}.{self.acked}", shard_id=SHARD
        ).SerializeToString()
        block = self._blocks[self._stream > 1]
        self._began = time.monotonic_ns()
        self._transport.write(
            frame(_HEADERS, _END_HEADERS, self._stream, block)
            + frame(_DATA, _END_STREAM, self._stream, b"\0" + _STREAM.pack(len(request)) + request)
        )


def _same(client: Client) -> Client:
    return client


async def _run(address: str, name: str, clients: int, warm_s: float, seconds: float) -> dict[str, object]:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    blocks = headers(address)
    made = [Client(f"{name}-{number}", blocks) for number in range(clients)]
    for client in made:
        await loop.create_connection(partial(_same, client), host, int(port))
    await asyncio.sleep(warm_s)
    began, used = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(seconds)
    ended, spent = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF)
    found = [(start, end) for client in made for start, end in client.times if began <= end <= ended]
    return {
        "answers": len(found),
        "seconds": (ended - began) / 1e9,
        "latencies": [end - start for start, end in found],
        "acked": {client._name: client.acked for client in made},
        "refused": sum(client.refused for client in made),
        "processor_s": spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime,
    }


def main(arguments: list[str]) -> None:
    """Write for a while, then print what came of it."""
    address, name, clients, warm_s, seconds = arguments
    print(json.dumps(asyncio.run(_run(address, name, int(clients), float(warm_s), float(seconds)))))


if __name__ == "__main__":
    main(sys.argv[1:])
