"""The programs as processes: many callers, signals, probes, scripts."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet
from tests.integration.provider.programs import (
    CALLERS,
    DEADLINE_S,
    MACHINES,
    ROOT,
    http,
    running,
    until,
)

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_thirty_two_callers_walk_their_machines_without_getting_in_each_others_way(pools: str) -> None:
    async with running(
        "bigfleet-fake-provider", "--inventory", pools, "--control-addr", "127.0.0.1:0"
    ) as program:
        sequence = iter(range(1, 10**6))  # one counter of one shard, as its workers share it

        async def walk(number: int) -> None:
            client = RawProviderClient(GrpcNet().dial(f"127.0.0.1:{program.ports['port']}"))
            for machine_id in (f"m-{number}", f"m-{number + CALLERS}"):
                for kind, call in (
                    (OperationKind.CREATE, client.create),
                    (OperationKind.CONFIGURE, lambda m, t: client.configure(m, "prod", t, blob=b"x" * 1000)),
                    (OperationKind.DRAIN, client.drain),
                ):
                    ack = await call(machine_id, FencingToken("shard", 1, next(sequence)))
                    assert ack.operation_id

                    async def there(machine_id: str = machine_id, due: S = EDGES[kind].target) -> bool:
                        return S((await client.get(machine_id)).state) is due

                    await until(there)

        await asyncio.gather(*map(walk, range(CALLERS)))
        _, stats = await program.ask("GET", "/stats")
        assert stats["machines"]["Idle"] == MACHINES
        assert set(stats["codes"]) == {"OK"}
        _, calls = await program.ask("GET", "/calls?rpc=Configure")
        assert len(calls) == MACHINES
        assert all(call["arguments"] == "cluster=prod blob=1000B metadata=0" for call in calls)


@pytest.mark.asyncio
@pytest.mark.parametrize("program", ["bigfleet-fake-provider", "bigfleet-fault-provider"])
async def test_a_program_answers_probes_and_ends_with_0_on_sigterm(program: str) -> None:
    async with running(program) as started:
        for path in ("/healthz", "/readyz"):
            assert (await http(started.ports["metrics_port"], "GET", path))[0] == 200
        _, (_, metrics) = await http(started.ports["metrics_port"], "GET", "/metrics")
        assert "bigfleet_provider_machines" in metrics
        assert "bigfleet_build_info" in metrics
        assert await started.end(signal.SIGTERM) == 0
        assert "Traceback" not in "".join(started.log)


@pytest.mark.asyncio
async def test_a_port_in_use_is_reported_in_one_line(pools: str) -> None:
    async with running("bigfleet-fake-provider") as first:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "cmd" / "bigfleet-fake-provider"),
            *("--addr", f"127.0.0.1:{first.ports['port']}", "--metrics-addr", "0", "--log-level", "error"),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        _, reported = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == 1
        assert reported.decode().splitlines()[-1].startswith("bigfleet-fake-provider: cannot listen on")


@pytest.mark.asyncio
async def test_a_script_plays_while_the_program_serves(pools: str, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- {at: 100ms, do: fail, zone: zone-a}\n- {at: 0, do: shed, fraction: 0.5}\n")
    async with running("bigfleet-fake-provider", "--inventory", pools, "--script", str(script)) as program:

        async def half_of_them_failed() -> bool:
            return len((await program.client.list([S.FAILED])).machines) >= MACHINES // 2

        await until(half_of_them_failed)
        assert program.process.returncode is None


@pytest.mark.asyncio
async def test_a_script_that_goes_wrong_ends_the_program_with_1(pools: str, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- {do: lie, name: white}\n")
    async with running("bigfleet-fake-provider", "--script", str(script)) as program:
        assert await asyncio.wait_for(program.process.wait(), DEADLINE_S) == 1
