"""A shard process that was replaced and wakes up again changes nothing, with real sockets, processes and signals."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.model.machine import MachineState
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.errors import FencedError
from bigfleet.transport.grpc_net import GrpcNet
from tests.integration.provider.programs import ProviderProgram, start, until
from tests.support.builders import need
from tests.support.program import AwaitedProgram
from tests.support.program import running as program_running

pytestmark = [
    pytest.mark.integration,
    pytest.mark.asyncio,
    pytest.mark.rule("providers#epoch-per-shard", "shard#fenced"),
]

POOLS = """
pools:
  - {name: slot, count: 16, instance_type: m6i.large, zones: [zone-a], resources: {cpu: 4}, price_per_hour: 1.0}
  - {name: busy, count: 2, instance_type: m6i.large, zones: [zone-a], resources: {cpu: 4}, price_per_hour: 1.0,
     state: Configured, cluster: elsewhere}
"""


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    listen = ("--control-addr", "127.0.0.1:0")
    return (*listen, "--inventory", str(pools), "--state", str(tmp_path / "provider"))


def shard_process(provider: ProviderProgram, epoch: int) -> ProviderClient:
    """Return the client of one process of shard-0."""
    channel = GrpcNet().dial(f"127.0.0.1:{provider.ports['port']}")
    return ProviderClient(channel, shard_id="shard-0", epoch=epoch)


async def machines(provider: ProviderProgram) -> dict[str, Any]:
    _, found = await provider.ask("GET", "/machines")
    return {machine["id"]: machine for machine in found}


@pytest.mark.parametrize("touch", ["Create", "List"])
async def test_a_predecessor_drains_no_machine_that_its_successor_has_not_touched(
    flags: tuple[str, ...], touch: str
) -> None:
    provider = await start("bigfleet-fake-provider", *flags)
    try:
        old, new = shard_process(provider, 1), shard_process(provider, 2)
        await old.create("slot-1")
        if touch == "Create":
            await new.create("slot-0")
        else:
            await new.list()
        await settled(provider)
        before = await machines(provider)
        with pytest.raises(FencedError, match="epoch 1 of shard-0 is over"):
            await old.drain("busy-0", 0)
        assert await machines(provider) == before

        assert await provider.end(signal.SIGKILL) == -signal.SIGKILL
        provider = await start("bigfleet-fake-provider", *flags)
        old = shard_process(provider, 1)
        for machine_id in ("busy-0", "busy-1"):
            with pytest.raises(FencedError, match="epoch 1 of shard-0 is over"):
                await old.drain(machine_id, 0)
        assert await machines(provider) == before
        await shard_process(provider, 2).drain("busy-0", 0)
    finally:
        provider.running.kill()


async def settled(provider: ProviderProgram) -> None:
    stable = {"Speculative", "Idle", "Configured"}

    async def none_moves() -> bool:
        return {machine["state"] for machine in (await machines(provider)).values()} <= stable

    await until(none_moves)


async def test_a_paused_shard_that_was_replaced_changes_nothing_and_pauses_itself(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    provider = await start("bigfleet-fake-provider", *flags)
    try:
        first, second = tmp_path / "first", tmp_path / "second"
        async with shard(provider, first) as old:
            dial = GrpcNet().dial(f"127.0.0.1:{old.ports['port']}")
            async with SessionPeer(dial, "prod", SystemClock()) as peer:
                await peer.demand(need(cpu=8))
                await peer.until(lambda: len(peer.in_state(MachineState.CONFIGURED)) == 2)
                await settled(provider)
                old.running.send(signal.SIGSTOP)
                shutil.copytree(first, second)
                async with shard(provider, second) as new:
                    await until(lambda: is_ready(new))
                    before = await machines(provider)
                    await peer.demand(need(cpu=48), at_ns=2)
                    old.running.send(signal.SIGCONT)
                    await old.until(lambda: bool(old.lines("self_paused")))
                    assert (await old.get("/readyz"))[0] == 503
                    assert await machines(provider) == before
                    await cycles(old, 1)  # calls that were under way have ended
                    fenced = await refused(provider)
                    assert len(fenced) >= 3
                    assert {call["epoch"] for call in fenced} == {1}
                    # It does not try again, and the successor was never hindered.
                    await cycles(old, 2)
                    assert len(await refused(provider)) == len(fenced)
                    assert (await new.get("/readyz"))[0] == 200
                    assert await machines(provider) == before
    finally:
        provider.running.kill()


def shard(provider: ProviderProgram, data: Path) -> Any:  # Any: a context manager of AwaitedProgram
    return program_running(
        "bigfleet",
        *("shard", "--listen", "127.0.0.1:0", "--data-dir", str(data), "--cycle-interval", "500ms"),
        *("--provider-addr", f"127.0.0.1:{provider.ports['port']}"),
        *("--metrics-addr", "127.0.0.1:0", "--log-format", "json"),
    )


async def is_ready(program: AwaitedProgram) -> bool:
    return (await program.get("/readyz"))[0] == 200


async def cycles(program: AwaitedProgram, count: int) -> None:
    """Wait for so many further cycles of a shard."""
    series = "bigfleet_shard_cycle_duration_seconds_count"
    begun = await program.metric(series)

    async def done() -> bool:
        return await program.metric(series) >= begun + count

    await until(done)


async def refused(provider: ProviderProgram) -> list[dict[str, Any]]:
    _, calls = await provider.ask("GET", "/calls")
    return [call for call in calls if call["code"] == "FAILED_PRECONDITION"]
