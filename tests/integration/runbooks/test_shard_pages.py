"""Every runbook about a shard is played: the fault is made, the page's blocks are typed in, the fault is gone.

The shard and its provider are real processes; the cluster's side of the session is played by the test.
"""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.transport.grpc_net import GrpcNet
from tests.integration.runbooks.blocks import Page
from tests.support.builders import need
from tests.support.coordinator.processes import settled_port
from tests.support.program import AwaitedProgram, http_ask, running

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

POOLS = "pools: [{name: m, count: 20, state: Idle, instance_type: m4, zones: [za], resources: {cpu: 4, memory: 16Gi}}]\n"
TWO_OFFERINGS = """
pools:
  - {name: cheap, count: 2, state: Speculative, instance_type: m4, zones: [za], resources: {cpu: 4}, price_per_hour: 0.1}
  - {name: dear, count: 4, state: Speculative, instance_type: m6, zones: [za], resources: {cpu: 4}, price_per_hour: 0.9}
"""
CLUSTER = "prod"


class Stage:
    """Where a page is played: ports that stay, a directory, and the variables that the page names."""

    def __init__(self, directory: Path, page: str) -> None:
        self.directory, self.page = directory, Page(page)
        self.provider_port, self.shard_port = settled_port(), settled_port()
        (directory / "pools.yaml").write_text(POOLS)

    async def type_in(self, title: str, **more: object) -> str:
        variables = {
            "SHARD": f"127.0.0.1:{self.shard_port}",
            "SHARD_DATA": self.directory / "data",
            "CLUSTER": CLUSTER,
            **more,
        }
        return await asyncio.to_thread(self.page.type_in, title, self.directory, variables)

    def provider(self, *flags: str) -> AbstractAsyncContextManager[AwaitedProgram]:
        return running(
            "bigfleet-fake-provider",
            *("--addr", f"127.0.0.1:{self.provider_port}", "--control-addr", "127.0.0.1:0"),
            *("--metrics-addr", "127.0.0.1:0", "--inventory", str(self.directory / "pools.yaml")),
            *("--state", str(self.directory / "state"), "--log-format", "json", "--sync", *flags),
        )

    def shard(self, *flags: str) -> AbstractAsyncContextManager[AwaitedProgram]:
        return running(
            "bigfleet",
            "shard",
            *("--listen", f"127.0.0.1:{self.shard_port}", "--metrics-addr", "127.0.0.1:0"),
            *(
                "--provider-addr",
                f"127.0.0.1:{self.provider_port}",
                "--data-dir",
                str(self.directory / "data"),
            ),
            *("--cycle-interval", "500ms", "--log-format", "json", *flags),
        )

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[SessionPeer]:
        channel = GrpcNet().dial(f"127.0.0.1:{self.shard_port}")
        async with SessionPeer(channel, CLUSTER, SystemClock()) as peer:
            yield peer


def rows(count: int) -> list[Need]:
    """Demand in so many rows, each of one machine."""
    return [need(CLUSTER, priority=number, cpu=4) for number in range(count)]


async def decided(shard: AwaitedProgram, cycles: int = 2) -> None:
    """Wait until the shard has completed some more cycles, so that what it shows is from after now."""
    series = "bigfleet_shard_cycle_duration_seconds_count"
    wanted = await shard.metric(series) + cycles
    async with asyncio.timeout(60):
        while await shard.metric(series) < wanted:  # noqa: ASYNC110  it happens in another process
            await asyncio.sleep(0.05)


@pytest.mark.rule("packaging#runbooks")
async def test_fenced_shard(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "fenced-shard")
    async with stage.provider():
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "epoch").write_text("40")
        async with stage.shard() as shard, stage.cluster() as peer:
            await peer.demand(*rows(3))
            await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 3)
            assert await shard.end() == 0
        (tmp_path / "data" / "epoch").unlink()  # the volume is lost
        async with stage.shard() as shard, stage.cluster() as peer:
            await peer.demand()  # three releases: three calls with an epoch of yesterday
            await shard.until(lambda: bool(shard.lines("self_paused")))
            said = await stage.type_in("look")
            assert "fenced, has stopped itself" in said
            assert "find out which process is the right one" in said
            assert said.splitlines()[-1].strip() == "1"
            told = shard.lines("fenced")[0]["problem"]
            assert await shard.end() == 0
        (served_last,) = re.findall(r"a process with epoch (\d+) has started", told)
        assert served_last == "41"
        await stage.type_in("do", SERVED_LAST=served_last)
        async with stage.shard() as shard, stage.cluster() as peer:
            await peer.demand(*rows(3))
            await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 3)
            await decided(shard)
            assert "ready" in await stage.type_in("check")
            assert await shard.metric("bigfleet_shard_self_paused") == 0
    assert stage.page.left_out == set()


@pytest.mark.rule("packaging#runbooks")
async def test_quarantined_roll_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "quarantined-roll-up")
    async with stage.provider(), stage.shard() as shard, stage.cluster() as peer:
        await peer.demand(*rows(12))
        await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 12)
        await peer.demand(*rows(1))  # an operator whose cache is lost
        await shard.until(lambda: bool(shard.lines("rollup_held")))
        await decided(shard)
        said = await stage.type_in("look")
        assert re.search(rf"^{CLUSTER} +connected +12 +0 +0 +0 +— +12 +12 +1$", said, re.MULTILINE), said
        assert f"1 roll-up of {CLUSTER} in a row held back" in said
        assert "12 needs" in said
        await peer.demand(*rows(12))  # it was restarted
        await decided(shard, 3)
        said = await stage.type_in("check")
        assert re.search(rf"^{CLUSTER} +connected +12 +0 +0 +0 +— +12 +12 +0$", said, re.MULTILINE), said
        assert len(peer.in_state(S.CONFIGURED)) == 12
        assert peer.instructions == []
    assert stage.page.left_out == set()


@pytest.mark.rule("packaging#runbooks")
async def test_stuck_drain(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "stuck-drain")
    async with (
        stage.provider("--drain-until-empty") as provider,
        stage.shard() as shard,
        stage.cluster() as peer,
    ):
        await peer.demand(*rows(2))
        await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 2)
        await peer.demand(*rows(1))
        await peer.until(lambda: len(peer.in_state(S.DRAINING)) == 1)
        (machine,) = peer.in_state(S.DRAINING)
        await decided(shard)
        said = await stage.type_in("look", MACHINE=machine)
        assert f"{machine}" in said
        assert "1 Draining" in said
        await _empty(provider, machine)  # the budget allows it again, and the last pod has left
        await peer.until(lambda: machine not in peer.in_state(S.DRAINING))
        await decided(shard)
        said = await stage.type_in("check", MACHINE=machine)
        assert "Draining" not in said
        assert re.search(rf"^{machine} +Idle", said, re.MULTILINE), said
    assert stage.page.left_out == set()


async def _empty(provider: AwaitedProgram, machine: str) -> None:
    status, _, text = await http_ask(provider.ports["control_port"], "POST", "/emptied", {"id": machine})
    assert status == 200, text


@pytest.mark.rule("packaging#runbooks")
async def test_provider_outage(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "provider-outage")
    async with stage.provider() as provider, stage.shard() as shard, stage.cluster() as peer:
        await peer.demand(*rows(2))
        await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 2)
        await provider.end(signal.SIGKILL)
        await shard.until(lambda: bool(shard.lines("reconcile_failed")))
        await peer.demand(*rows(3))
        await decided(shard)
        said = await stage.type_in("look")
        assert "Configured" in said  # what is known stays
        assert len(peer.in_state(S.CONFIGURED)) == 2
        async with stage.provider():
            await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 3)
            await decided(shard)
            said = await stage.type_in("check")
            assert "All 3 needs covered" in said
            assert "0 of " in said
    assert stage.page.left_out == set()


@pytest.mark.rule("packaging#runbooks")
async def test_stock_out(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "stock-out")
    (tmp_path / "pools.yaml").write_text(TWO_OFFERINGS)
    async with stage.provider() as provider, stage.shard() as shard, stage.cluster() as peer:
        asked = {"type": "m4", "zone": "za"}
        status, _, text = await http_ask(provider.ports["control_port"], "POST", "/stockout", asked)
        assert status == 200, text
        await peer.demand(*rows(1))
        await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 1)
        (machine,) = peer.in_state(S.CONFIGURED)
        assert machine.startswith("dear")
        await decided(shard)
        assert "m6" in await stage.type_in("look")
        status, _, text = await http_ask(provider.ports["control_port"], "POST", "/stockout", {"over": True})
        assert status == 200, text
        await decided(shard)
        assert re.search(rf"^{machine} +Configured", await stage.type_in("check"), re.MULTILINE)
    assert stage.page.left_out == set()
