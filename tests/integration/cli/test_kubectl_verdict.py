"""`kubectl bigfleet why --shard` over a real connection: the verdict, and what is said when there is none.

Rules: `operator#plugin-why`.
"""

import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.app.kubectl_bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.cli.kubectl.verdict import READ, verdicts
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import capacity_pb2, shardread_pb2

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

REQUEST: dict[str, Any] = {"spec": {"priority": 7, "requirements": [], "resources": {}}}


class Shard:
    """Answers as a shard does."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self.asked: list[str] = []

    async def inspect_needs(
        self, request: shardread_pb2.InspectNeedsRequest, call: object
    ) -> AsyncIterator[shardread_pb2.InspectNeedsResponse]:
        self.asked.append(request.cluster_id)
        if self.refuse:
            raise RpcRefusedError(Code.PERMISSION_DENIED, "readonly or admin")
        yield shardread_pb2.InspectNeedsResponse(header=shardread_pb2.InspectNeedsHeader(cycle=9))
        need = capacity_pb2.CapacityNeed(priority=7)
        view = shardread_pb2.NeedView(need=need, satisfied=True, claimed_machine_count=2)
        yield shardread_pb2.InspectNeedsResponse(need=view)


def console() -> Console:
    return Console(PROGRAM, io.StringIO(), io.StringIO(), {}, lambda: datetime(2026, 1, 1, tzinfo=UTC))


async def ask(shard: Shard) -> tuple[str, ...]:
    server = await GrpcNet().serve("127.0.0.1:0", [READ.bind(shard)])
    try:
        return await verdicts(TlsFlags(), f"127.0.0.1:{server.port}", "eu-1", REQUEST, console())
    finally:
        await server.stop(1)


async def test_the_verdict_of_the_last_cycle_is_reported() -> None:
    shard = Shard()
    assert await ask(shard) == ("cycle 9: covered by 2 machines",)
    assert shard.asked == ["eu-1"]


async def test_a_refusal_is_an_exit_code_and_a_line() -> None:
    with pytest.raises(CommandError, match="PERMISSION_DENIED: readonly or admin") as refused:
        await ask(Shard(refuse=True))
    assert refused.value.code is ExitCode.PERMISSION


async def test_a_shard_that_is_not_there_is_an_exit_code_and_a_line() -> None:
    with pytest.raises(CommandError, match=r"--shard 127\.0\.0\.1:1:") as refused:
        await verdicts(TlsFlags(), "127.0.0.1:1", "eu-1", REQUEST, console())
    assert refused.value.code is ExitCode.UNAVAILABLE
