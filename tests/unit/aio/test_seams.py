"""The bundle: real forms for a program, virtual ones for a test, both fit for production code."""

from typing import cast

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.net import Net
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.seams import Seams, system_seams
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process

NO_NET = cast("Net", object())  # the bundle only carries it


def test_a_program_gets_the_system_forms_and_its_own_net_and_process() -> None:
    proc = SystemProc()
    seams = system_seams(NO_NET, proc)
    assert isinstance(seams.clock, SystemClock)
    assert isinstance(seams.disk, SystemDisk)
    assert seams.proc is proc
    assert seams.net is NO_NET


def test_two_virtual_processes_of_one_seed_differ_and_repeat() -> None:
    async def ids_of(name: str) -> str:
        seams: Seams = virtual_process(name, seed=5).seams(NO_NET)
        return seams.ids.operation()

    assert run_virtual(ids_of("shard-0")) == run_virtual(ids_of("shard-0"))
    assert run_virtual(ids_of("shard-0")) != run_virtual(ids_of("shard-1"))


def test_a_busy_host_makes_the_clock_of_its_process_late() -> None:
    async def main() -> int:
        process = virtual_process(costs_s={"cycle": 2.0})
        process.host.stall(3.0)
        await process.clock.sleep(1.0)
        return process.clock.monotonic_ns()

    assert run_virtual(main()) == 3_000_000_000
