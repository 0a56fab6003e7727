"""Kill -9 of a real shard in the middle of each call to a real provider process, before and after it was accepted.

The sweep over every await point is in `tests/unit/shard/test_restart_sweep.py`; here processes really die.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.model.machine import MachineState
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.builders import need
from tests.support.program import AwaitedProgram, http_ask, http_get, running

pytestmark = pytest.mark.integration

S = MachineState
POOLS = """
pools:
  - {name: m, count: 2, instance_type: m6i.large, zones: [zone-a], resources: {cpu: 4}, price_per_hour: 1.0,
     capacity_type: Spot, interruption_probability: 0.1}
"""
FREE = ("--metrics-addr", "127.0.0.1:0", "--log-format", "json")
CASES = [
    pytest.param(
        rpc,
        accepted,
        sync,
        id=f"{rpc}, {'accepted' if accepted else 'on its way'}, {'sync' if sync else 'async'}",
    )
    for rpc in ("Create", "Configure", "Drain")
    for accepted in (False, True)
    for sync in (False, True)
]
CHOSEN = CASES[6:7]


@asynccontextmanager
async def provider(tmp_path: Path, *flags: str) -> AsyncIterator[AwaitedProgram]:
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    listen = ("--addr", "127.0.0.1:0", "--control-addr", "127.0.0.1:0", *FREE)
    where = ("--inventory", str(pools), "--state", str(tmp_path / "state"))
    async with running("bigfleet-fake-provider", *listen, *where, *flags) as program:
        yield program


async def control(fake: AwaitedProgram, verb: str, **fields: object) -> None:
    """Ask the fake's control to do something."""
    status, _, text = await http_ask(fake.ports["control_port"], "POST", f"/{verb}", fields)
    assert status == 200, text


async def called(fake: AwaitedProgram, rpc: str) -> None:
    async with asyncio.timeout(60):
        while rpc not in (await http_get(fake.ports["control_port"], f"/calls?rpc={rpc}"))[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def killed_in(tmp_path: Path, rpc: str, accepted: bool, sync: bool) -> None:
    async with provider(tmp_path, *(["--sync"] if sync else [])) as fake:
        if accepted:
            await control(fake, "lose-answer", rpc=rpc, times=1)
        else:
            await control(fake, "pause-rpc", rpc=rpc, seconds=8)
        flags = (
            *("shard", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), *FREE),
            *("--provider-addr", f"127.0.0.1:{fake.ports['port']}", "--cycle-interval", "500ms"),
        )
        shard = await AwaitedProgram.start("bigfleet", *flags)
        async with operator(shard) as peer:
            await peer.demand(need(cpu=4))
            if rpc == "Drain":
                await peer.until(lambda: peer.in_state(S.CONFIGURED) == ["m-0"])
                await peer.demand()
            await called(fake, rpc)
            await shard.end(signal.SIGKILL)
        async with running("bigfleet", *flags) as again, operator(again) as peer:
            await peer.demand(need(cpu=8))
            await peer.until(lambda: peer.in_state(S.CONFIGURED) == ["m-0", "m-1"], within_s=100)
            assert peer.acks[0].shard_epoch == 2
            machines = json.loads((await http_get(fake.ports["control_port"], "/machines"))[1])
            assert sorted(machine["id"] for machine in machines) == ["m-0", "m-1"]  # none lost, none twice


def operator(shard: AwaitedProgram) -> SessionPeer:
    channel = GrpcNet().dial(f"127.0.0.1:{shard.ports['port']}")
    return SessionPeer(channel, "prod", SystemClock())


@pytest.mark.asyncio
@pytest.mark.parametrize(("rpc", "accepted", "sync"), CHOSEN)
async def test_killed_in_the_middle_of_a_call_the_fleet_ends_as_demand_wants(
    tmp_path: Path, rpc: str, accepted: bool, sync: bool
) -> None:
    await killed_in(tmp_path, rpc, accepted, sync)


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.parametrize(("rpc", "accepted", "sync"), CASES)
async def test_killed_in_the_middle_of_any_call_the_fleet_ends_as_demand_wants(
    tmp_path: Path, rpc: str, accepted: bool, sync: bool
) -> None:
    await killed_in(tmp_path, rpc, accepted, sync)
