"""Invalid requests against the program: it keeps running, answers with a named error, and does not grow.

Rules: `providers#argument-limits`.
"""

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.provider.contract import CALLS, SERVICE
from bigfleet.transport.status import GENERIC_DETAIL
from tests.integration.provider.programs import MACHINES, ProviderProgram, running
from tests.property.test_provider_fuzz_laws import odd_request

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

IN_FLIGHT = 32
CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "INTERNAL"}
"""INTERNAL is a machine out of position, or bytes that are no message at all, which gRPC libraries answer like that."""


async def bombard(channel: grpc.aio.Channel, stream: RandomStream, count: int) -> set[str]:
    """Send odd requests, many at a time, as bytes that no client of ours would let through; return the codes seen."""
    seen: set[str] = set()

    async def worker(share: int) -> None:
        for _ in range(share):
            call = stream.choice(CALLS)
            method: Any = channel.unary_unary(f"/{SERVICE}/{call}")  # Any: bytes in, bytes out
            try:
                await method(odd_request(call, stream), timeout=60)
                seen.add("OK")
            except grpc.aio.AioRpcError as error:
                seen.add("a defect of ours" if error.details() == GENERIC_DETAIL else error.code().name)

    await asyncio.gather(*(worker(count // IN_FLIGHT) for _ in range(IN_FLIGHT)))
    return seen


def resident_mb(program: ProviderProgram) -> float:
    lines = Path(f"/proc/{program.running.pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1000


async def rounds(pools: str, seed: int, warm_up: int, count: int) -> tuple[float, float]:
    """Return the memory after a warm-up and after all of it."""
    stream = SeededRng(seed).stream("fuzz over a socket")
    flags = ("--inventory", pools, "--control-addr", "127.0.0.1:0")
    async with running("bigfleet-fake-provider", *flags) as program:
        target = f"127.0.0.1:{program.ports['port']}"
        async with grpc.aio.insecure_channel(target) as channel:
            seen = await bombard(channel, stream, warm_up)
            before_mb = resident_mb(program)
            seen |= await bombard(channel, stream, count)
            after_mb = resident_mb(program)
        assert seen <= CODES
        assert seen >= {"OK", "INVALID_ARGUMENT", "NOT_FOUND"}
        assert len((await program.client.list()).machines) == MACHINES
        assert program.running.code is None
        assert not re.search("Traceback|rpc_defect", program.running.log.read_text())
        return before_mb, after_mb


@pytest.mark.rule("providers#argument-limits")
async def test_odd_requests_over_a_socket_are_refused_by_name_and_the_program_lives(pools: str) -> None:
    await rounds(pools, 1, 320, 1280)


@pytest.mark.rule("providers#argument-limits")
@pytest.mark.long
async def test_fifty_thousand_odd_requests_do_not_make_the_program_grow(pools: str) -> None:
    # The warm-up fills most of what is bounded: the record of calls, allocator and gRPC buffers. What may still grow is the
    # record of the newest 100,000 events, some hundred bytes each.
    before_mb, after_mb = await rounds(pools, 2, 30_000, 50_000)
    print(f"resident after 30,000 odd requests {before_mb:.1f} MB, after 80,000 {after_mb:.1f} MB")
    assert after_mb < before_mb * 1.25 + 10
