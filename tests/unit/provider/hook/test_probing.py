"""The probe hook: every sixty seconds, three bad answers in a row, `probe: …` (`providers#hook-protocol`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.processes import SpawnError
from bigfleet.testing.loop import run_virtual
from tests.support.scripted_hooks import HookReply
from tests.unit.provider.hook.harness import FILE, FREE_POOL, POWER_MANAGED, World, inventory

PROBED = inventory(["m-1", "m-2"], (*FREE_POOL, "probe"))
BAD = HookReply(1, errors=("no ping",))


@asynccontextmanager
async def probing(world: World) -> AsyncIterator[None]:
    task = asyncio.ensure_future(world.provider.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_idle_and_configured_machines_are_probed_every_sixty_seconds() -> None:
    async def scenario() -> None:
        async with World(PROBED) as world, probing(world):
            await world.configured("m-1")
            await world.clock.sleep(185)
            assert [world.hooks.count(HookKind.PROBE, name) for name in ("m-1", "m-2")] == [3, 3]
            (call, *_) = (call for call in world.hooks.calls if call.kind is HookKind.PROBE)
            assert (call.document["cluster"], call.document["operation_id"]) == ("prod", "")

    run_virtual(scenario())


def test_three_failures_in_a_row_fail_the_machine_with_the_last_word_of_the_hook() -> None:
    async def scenario() -> None:
        async with World(PROBED) as world, probing(world):
            await world.configured("m-1")
            world.hooks.always(HookKind.PROBE, BAD)
            await world.clock.sleep(125)
            assert world.machine("m-1").state is S.CONFIGURED
            await world.clock.sleep(60)
            machine = world.machine("m-1")
            assert (machine.state, machine.last_error, machine.cluster) == (
                S.FAILED,
                "probe: no ping",
                "prod",
            )
            assert world.machine("m-2").last_error == "probe: no ping"
            before = world.hooks.count(HookKind.PROBE)
            await world.clock.sleep(300)
            assert world.hooks.count(HookKind.PROBE) == before  # a Failed machine is left alone

    run_virtual(scenario())


def test_a_good_answer_resets_the_count_and_not_yet_leaves_it() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], (*FREE_POOL, "probe"))) as world, probing(world):
            world.hooks.next(HookKind.PROBE, BAD, BAD, HookReply(0), BAD, BAD, HookReply(100))
            await world.clock.sleep(6 * 60 + 5)
            assert world.machine("m-1").state is S.IDLE
            world.hooks.next(HookKind.PROBE, BAD)
            await world.clock.sleep(60)
            assert world.machine("m-1").state is S.FAILED

    run_virtual(scenario())


def test_a_probe_that_hangs_counts_as_a_failure() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], (*FREE_POOL, "probe"))) as world, probing(world):
            world.hooks.always(HookKind.PROBE, HookReply(takes_s=1000))
            await world.clock.sleep(400)
            assert world.machine("m-1").last_error == "probe: no answer within 30 s"

    run_virtual(scenario())


def test_a_probe_hook_that_cannot_be_started_says_nothing_about_the_machines() -> None:
    async def scenario() -> None:
        async with World(PROBED) as world, probing(world):
            world.hooks.always(HookKind.PROBE, SpawnError("/etc/bf/probe: No such file or directory"))
            await world.clock.sleep(1000)
            assert world.machine("m-1").state is S.IDLE
            assert "probe_not_run" in world.log_text

    run_virtual(scenario())


def test_a_slot_without_a_host_and_a_machine_on_its_way_are_not_probed() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1", "m-2"], (*POWER_MANAGED, "probe"))) as world, probing(world):
            world.hooks.always(HookKind.CREATE, HookReply(takes_s=59))
            await world.clock.sleep(10)
            await world.client.create("m-1")
            await world.clock.sleep(55)
            assert world.hooks.count(HookKind.PROBE) == 0
            await world.clock.sleep(60)
            assert world.hooks.count(HookKind.PROBE, "m-1") == 1
            assert world.hooks.count(HookKind.PROBE, "m-2") == 0

    run_virtual(scenario())


def test_an_operation_waits_for_a_probe_of_the_same_machine_so_they_never_overlap() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], (*FREE_POOL, "probe"))) as world, probing(world):
            world.hooks.always(HookKind.PROBE, HookReply(takes_s=20))
            await world.clock.sleep(65)
            await world.client.configure("m-1", "prod")
            assert (await world.settled("m-1")).state is S.CONFIGURED
            assert world.hooks.most_at_once == 1

    run_virtual(scenario())


def test_a_probe_hook_taken_out_of_the_inventory_is_no_longer_called() -> None:
    async def scenario() -> None:
        async with World(PROBED) as world, probing(world):
            await world.clock.sleep(65)
            world.write(FILE, inventory(["m-1", "m-2"]))
            await world.clock.sleep(300)
            assert world.hooks.count(HookKind.PROBE) == 2

    run_virtual(scenario())
