"""Providers killed with -9 while machines are in transition, and started again: no machine fails, all arrive."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.integration.provider.programs import ProviderProgram, start, until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.rule("providers#restart")]

MACHINES = 12
DURING = (S.CREATING, S.CONFIGURING, S.DRAINING)
TARGETS = (S.IDLE, S.CONFIGURED, S.IDLE)
POOLS = f"""
pools:
  - {{name: m, count: {MACHINES}, instance_type: m6i.large, zones: [zone-a], resources: {{cpu: 2}}}}
"""
HOOK = """#!/bin/sh
# Fast until the file `slow` appears; then it waits for the file `go`, which its successor after a restart finds.
cd "$(dirname "$0")"
echo "$1 $2" >>calls
if [ -e slow ]; then while [ ! -e go ]; do sleep 0.05; done; fi
"""


async def in_states(program: ProviderProgram, wanted: tuple[S, ...]) -> bool:
    """Return whether every third machine is in the first of these states, and so on."""
    return [S(machine.state) for machine in await listed(program)] == [
        wanted[number % 3] for number in range(MACHINES)
    ]


async def listed(program: ProviderProgram) -> list[pb.Machine]:
    machines = (await program.client.list()).machines
    return sorted(machines, key=lambda machine: machine.id)


async def kill_in_transition(
    begin: Callable[[], Awaitable[ProviderProgram]], slow: Callable[[ProviderProgram], Awaitable[None]]
) -> ProviderProgram:
    """Bring a third of the machines into each transitional state, kill the provider and start it again."""
    program = await begin()
    ids = [machine.id for machine in await listed(program)]
    later = [machine_id for number, machine_id in enumerate(ids) if number % 3]
    await asyncio.gather(*(program.client.create(machine_id) for machine_id in later))
    await until(lambda: idle(program, len(later)))
    drained = ids[2::3]
    await asyncio.gather(*(program.client.configure(each, "prod", blob=b"join") for each in drained))
    await until(lambda: configured(program, len(drained)))
    await slow(program)
    await asyncio.gather(*(program.client.create(each) for each in ids[0::3]))
    await asyncio.gather(*(program.client.configure(each, "prod", blob=b"join") for each in ids[1::3]))
    await asyncio.gather(*(program.client.drain(each, grace_s=1) for each in drained))
    assert await in_states(program, DURING)
    assert await program.end(signal.SIGKILL) == -signal.SIGKILL
    again = await begin()
    assert not (await again.client.list([S.FAILED])).machines
    return again


async def idle(program: ProviderProgram, count: int) -> bool:
    return len((await program.client.list([S.IDLE])).machines) == count


async def configured(program: ProviderProgram, count: int) -> bool:
    return len((await program.client.list([S.CONFIGURED])).machines) == count


async def check_arrived(program: ProviderProgram) -> None:
    await until(lambda: in_states(program, TARGETS))
    for number, machine in enumerate(await listed(program)):
        assert (machine.last_error, machine.cluster) == ("", "prod" if number % 3 == 1 else "")
        assert machine.host.ref


async def test_a_fake_provider_that_was_killed_fails_no_machine(tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    flags = ("--inventory", str(pools), "--state", str(tmp_path / "state"), "--control-addr", "127.0.0.1:0")

    async def begin() -> ProviderProgram:
        return await start("bigfleet-fake-provider", *flags)

    async def slow(program: ProviderProgram) -> None:
        for kind in ("create", "configure", "drain"):
            assert (await program.ask("POST", "/hold", {"kind": kind}))[0] == 200

    program = await kill_in_transition(begin, slow)
    try:
        await check_arrived(program)
    finally:
        program.running.kill()


async def test_a_hook_provider_that_was_killed_fails_no_machine(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    machines = [
        {
            "id": f"m-{number:02}",
            "ref": f"h-{number:02}",
            "instance_type": "a",
            "zone": "z",
            "capacity_type": "on-demand",
            "resources": {"cpu": "2"},
        }
        for number in range(MACHINES)
    ]
    inventory = tmp_path / "inventory.json"
    hooks = dict.fromkeys(("create", "configure", "drain", "delete"), str(hook))
    inventory.write_text(json.dumps({"hooks": hooks, "machines": machines}))

    async def begin() -> ProviderProgram:
        flags = ("--inventory", str(inventory), "--state", str(tmp_path / "state"))
        return await start("bigfleet-hook-provider", *flags)

    async def slow(_program: ProviderProgram) -> None:
        (tmp_path / "slow").touch()

    program = await kill_in_transition(begin, slow)
    try:
        assert await in_states(program, DURING)
        (tmp_path / "go").touch()
        await check_arrived(program)
    finally:
        program.running.kill()
