"""A client process that writes and reads domains and records every call, one line each.

Why: clients must not share a process with the servers that are killed, nor with each other.
Must never: repeat a call of unknown outcome under the same line; a repetition is another call.
Rules: `coordinator#linearizable-reads`: through gRPC, from separate processes.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import IO

from bigfleet.aio.net import Channel, Code, RpcError
from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.transport.coordinator import (
    ASSIGN_DOMAIN,
    LIST_DOMAIN_ASSIGNMENTS,
    UNASSIGN_DOMAIN,
    facts_of,
)
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.domain_history import RecordedCall, to_line

KEY = "rack"
SHARDS = ("shard-0", "shard-1", "shard-2")
TIMEOUT_S = 3.0
CALLERS = 4
_NOTHING_HAPPENED = (Code.FAILED_PRECONDITION, Code.NOT_FOUND)


class Client:
    """Makes one call after another at the replica it takes for the leader, and sometimes at another one."""

    def __init__(self, addresses: list[str], stream: RandomStream, out: IO[str], domains: int) -> None:
        self._net = GrpcNet()
        self._channels: dict[str, Channel] = {address: self._net.dial(address) for address in addresses}
        self._stream, self._out, self._domains = stream, out, domains
        self._at = stream.choice(addresses)

    async def run(self) -> None:
        while True:
            await self._one()

    async def _one(self) -> None:
        # Sometimes at another replica: one that lost leadership must not answer from memory.
        if self._stream.random() < 0.1:
            self._at = self._stream.choice(sorted(self._channels))
        domain = f"d{self._stream.randrange(self._domains)}"
        shard = self._stream.choice(SHARDS)
        kind = self._stream.choice(("assign", "assign", "unassign", "list"))
        began = time.monotonic_ns()
        try:
            call = await self._call(kind, domain, shard, began)
        except RpcError as error:
            refused = await self._refused(error, kind, domain, shard, began)
            if refused is None:
                return
            call = refused
        self._out.write(to_line(call) + "\n")
        self._out.flush()

    async def _call(self, kind: str, domain: str, shard: str, began: int) -> RecordedCall:
        channel = self._channels[self._at]
        match kind:
            case "assign":
                request = pb.AssignDomainRequest(topology_key=KEY, topology_value=domain, shard_id=shard)
                await channel.unary(ASSIGN_DOMAIN, request, timeout_s=TIMEOUT_S)
            case "unassign":
                undo = pb.UnassignDomainRequest(topology_key=KEY, topology_value=domain)
                await channel.unary(UNASSIGN_DOMAIN, undo, timeout_s=TIMEOUT_S)
            case _:
                listing = pb.ListDomainAssignmentsRequest()
                reply = await channel.unary(LIST_DOMAIN_ASSIGNMENTS, listing, timeout_s=TIMEOUT_S)
                rows = tuple((row.topology_value, row.shard_id) for row in reply.message.assignments)
                return RecordedCall("list", began, time.monotonic_ns(), rows=rows)
        return RecordedCall(kind, began, time.monotonic_ns(), domain, shard)

    async def _refused(
        self, error: RpcError, kind: str, domain: str, shard: str, began: int
    ) -> RecordedCall | None:
        hint = facts_of(error.trailing).leader
        if error.code in _NOTHING_HAPPENED:
            self._at = hint if hint in self._channels else self._stream.choice(sorted(self._channels))
            await asyncio.sleep(0.02)
            return None
        if error.code is Code.ALREADY_EXISTS:
            owner = next((name for name in SHARDS if name != shard and name in error.detail), "")
            if owner:
                return RecordedCall(kind, began, time.monotonic_ns(), domain, shard, owner=owner)
            return None  # refused, and nothing to compare with
        self._at = self._stream.choice(sorted(self._channels))
        await asyncio.sleep(0.02)
        return None if kind == "list" else RecordedCall(kind, began, None, domain, shard)


async def _run(out: IO[str], seed: int, domains: int, addresses: list[str]) -> None:
    stream = SeededRng(seed).stream("client")
    await asyncio.gather(*(Client(addresses, stream, out, domains).run() for _ in range(CALLERS)))


def main(arguments: list[str]) -> None:
    """Run the callers until the process is killed."""
    path, seed, domains, *addresses = arguments
    with Path(path).open("w", encoding="utf-8") as out:
        asyncio.run(_run(out, int(seed), int(domains), addresses))


if __name__ == "__main__":
    main(sys.argv[1:])
