"""A client process that assigns one new domain after another and records each acknowledged one.

Why: exactly the acknowledged writes must survive, so the client must outlive the servers it writes to.
Must never: write a line before the answer, or assign one name twice.
Rules: `coordinator#leader-killed`, `coordinator#replicas-killed`.

A line is the domain's value, and the start and end of the call in nanoseconds of the host's monotonic clock.
"""

import asyncio
import sys
import time
from itertools import count
from pathlib import Path
from typing import IO

from bigfleet.aio.net import Code, RpcError
from bigfleet.transport.coordinator import ASSIGN_DOMAIN, facts_of
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import coordinator_pb2 as pb

KEY = "written"
SHARD = "shard-0"
TIMEOUT_S = 2.0
_ELSEWHERE = (Code.FAILED_PRECONDITION, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED)


async def _write(out: IO[str], name: str, addresses: list[str]) -> None:
    net = GrpcNet()
    channels = {address: net.dial(address) for address in addresses}
    at = 0
    address = addresses[0]
    for number in count():
        value = f"{name}.{number}"
        request = pb.AssignDomainRequest(topology_key=KEY, topology_value=value, shard_id=SHARD)
        began = time.monotonic_ns()
        try:
            await channels[address].unary(ASSIGN_DOMAIN, request, timeout_s=TIMEOUT_S)
        except RpcError as error:
            if error.code not in _ELSEWHERE:
                raise
            hint = facts_of(error.trailing).leader
            at += 1
            address = hint if hint in channels else addresses[at % len(addresses)]
            await asyncio.sleep(0.02)
            continue
        out.write(f"{value} {began} {time.monotonic_ns()}\n")
        out.flush()


async def _run(out: IO[str], name: str, callers: int, addresses: list[str]) -> None:
    await asyncio.gather(*(_write(out, f"{name}-{caller}", addresses) for caller in range(callers)))


def main(arguments: list[str]) -> None:
    """Write until the process is killed."""
    path, name, callers, *addresses = arguments
    with Path(path).open("w", encoding="utf-8") as out:
        asyncio.run(_run(out, name, int(callers), addresses))


if __name__ == "__main__":
    main(sys.argv[1:])
