"""Editing the inventory of a running provider (`providers#hook-inventory`), and coming back after a restart."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import INTERRUPTED
from bigfleet.provider.hook.core.errors import InventoryError
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.testing.loop import run_virtual
from tests.support.scripted_hooks import HookReply
from tests.unit.provider.hook.harness import FILE, FOLDER, FREE_POOL, POWER_MANAGED, World, inventory


@asynccontextmanager
async def watching(world: World) -> AsyncIterator[None]:
    """Let the provider look at its files while the block runs."""
    task = asyncio.ensure_future(world.provider.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def refusals(world: World) -> list[list[str]]:
    lines = [json.loads(line) for line in world.log_text.splitlines()]
    return [line["faults"] for line in lines if line["event"] == "inventory_refused"]


def test_a_machine_added_to_the_file_appears_without_a_restart() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world, watching(world):
            world.write(FILE, inventory(["m-1", "m-2"]))
            await world.clock.sleep(6)
            assert world.machine("m-2").state is S.IDLE

    run_virtual(scenario())


def test_a_price_changed_in_the_file_changes_the_record_and_nothing_else_of_it() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world, watching(world):
            await world.configured("m-1")
            world.write(
                FILE, inventory(["m-1"]).replace("0.5", "0.7").replace("zone: hall-7", "zone: hall-8")
            )
            await world.clock.sleep(6)
            machine = world.machine("m-1")
            assert (machine.shape.price_per_hour, machine.zone, machine.state) == (
                0.7,
                "hall-7",
                S.CONFIGURED,
            )

    run_virtual(scenario())


@pytest.mark.rule("providers#hook-inventory")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("machines: [", "allowed is YAML, JSON or CSV"),
        (inventory(["m-1", "m-2"]).replace("zone", "zoned"), "machines[0].zoned: unknown key"),
        (inventory(["m-1"], ("configure",)), "hooks.drain: missing"),
        (inventory(["m-1"]).replace("./drain", "./nothing"), "/etc/bf/nothing: no such file"),
        (inventory(["m-1"]).replace("./drain", "./inventory.yaml"), "allowed is a file that may be executed"),
        (inventory(["m-2"], POWER_MANAGED), "mode: found 'power-managed', allowed is 'free-pool'"),
        (inventory(["m-2"]).replace("hall-7\nhooks", "hall-8\nhooks"), "name: found 'hall-8'"),
    ],
)
def test_an_invalid_inventory_on_reload_changes_nothing_and_is_reported(text: str, fault: str) -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world, watching(world):
            before = await world.client.list()
            world.write(FILE, text)
            await world.clock.sleep(600)
            assert await world.client.list() == before
            assert (await world.configured("m-1")).state is S.CONFIGURED
            (faults,) = refusals(world)  # once, not at every look
            assert any(fault in line for line in faults), faults
            world.write(FILE, inventory(["m-1", "m-2"]))
            await world.clock.sleep(6)
            assert world.machine("m-2").state is S.IDLE

    run_virtual(scenario())


def test_a_file_that_vanishes_changes_nothing_and_is_reported() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world, watching(world):
            world.disk.remove(FILE)
            await world.clock.sleep(600)
            assert world.machine("m-1").state is S.IDLE
            assert refusals(world) == [[f"{FOLDER}: no file that ends in .yaml, .yml, .json, .csv"]]

    run_virtual(scenario())


def test_a_reload_can_be_asked_for_and_answers_whether_it_was_good() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world:
            world.write(FILE, inventory(["m-1", "m-2"]))
            assert await world.provider.reload()
            assert world.machine("m-2").state is S.IDLE
            world.write(FILE, "nonsense")
            assert not await world.provider.reload()

    run_virtual(scenario())


@pytest.mark.rule("providers#hook-inventory")
def test_a_removed_bound_machine_stays_until_drained_and_keeps_its_vars_for_the_hook() -> None:
    async def scenario() -> None:
        text = inventory(["m-1", "m-2"]).replace("{id: m-2,", "{id: m-2, vars: {bmc: b-2},")
        async with World(text) as world:
            await world.configured("m-2")
            world.write(FILE, inventory(["m-1"]))
            for _ in range(5):
                assert await world.provider.reload()
            assert (world.machine("m-2").state, world.machine("m-2").cluster) == (S.CONFIGURED, "prod")
            await world.client.drain("m-2")
            assert (await world.settled("m-2")).state is S.IDLE
            (drain,) = (call for call in world.hooks.calls if call.kind is HookKind.DRAIN)
            assert drain.document["machine"]["vars"] == {"bmc": "b-2"}
            await world.provider.reload()
            assert world.machine("m-2").state is S.FAILED
            assert world.machine("m-2").last_error.startswith("removed:")

    run_virtual(scenario())


def test_in_free_pool_mode_delete_is_not_offered_and_create_has_no_place_to_begin() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world:
            with pytest.raises(RpcError) as caught:
                await world.client.delete("m-1")
            assert caught.value.code is Code.UNIMPLEMENTED
            with pytest.raises(RpcError):
                await world.client.create("m-1")

    run_virtual(scenario())


def test_machines_come_from_a_discover_hook_beside_those_of_the_files() -> None:
    async def scenario() -> None:
        found = {"id": "d-1", "ref": "h", "instance_type": "a", "zone": "z", "capacity_type": "bare-metal"}
        text = inventory(["m-1"], (*FREE_POOL, "discover"))
        world = World(text)
        world.hooks.always(HookKind.DISCOVER, HookReply(output=json.dumps({"machines": [found]})))
        async with world:
            assert (world.machine("m-1").state, world.machine("d-1").state) == (S.IDLE, S.IDLE)
            await world.configured("d-1")
            (call, *_) = (call for call in world.hooks.calls if call.kind is HookKind.DISCOVER)
            assert (call.machine_id, call.document["machine"]) == ("", None)
            # An answer that is bad, or none, changes nothing.
            for reply in (
                HookReply(output='{"machines": [{}]}'),
                HookReply(1, errors=("no route",)),
                HookReply(takes_s=99),
            ):
                world.hooks.always(HookKind.DISCOVER, reply)
                for _ in range(5):
                    await world.provider.reload()
            assert (world.machine("m-1").state, world.machine("d-1").state) == (S.IDLE, S.CONFIGURED)
            assert "the discover hook failed: no route" in world.log_text
            assert "the discover hook took more than 60 s" in world.log_text

    run_virtual(scenario())


def test_a_discovered_machine_that_a_file_has_too_is_refused() -> None:
    async def scenario() -> None:
        found = {"id": "m-1", "ref": "h", "instance_type": "a", "zone": "z", "capacity_type": "bare-metal"}
        world = World(inventory(["m-1"], (*FREE_POOL, "discover")))
        world.hooks.always(HookKind.DISCOVER, HookReply(output=json.dumps({"machines": [found]})))
        with pytest.raises(InventoryError, match="m-1: found by the hook and in a file"):
            await world.provider.start()

    run_virtual(scenario())


@pytest.mark.rule("providers#restart")
def test_a_hook_that_cannot_be_repeated_says_so_and_its_machine_fails_after_a_restart() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], more="resume: false\n")) as world:
            world.hooks.next(HookKind.CONFIGURE, HookReply(takes_s=1000))
            await world.client.configure("m-1", "prod", blob=b"join me")
            await world.clock.sleep(1)
            await world.restart()
            machine = await world.settled("m-1")
            assert machine.state is S.FAILED
            assert machine.last_error == f"{INTERRUPTED}: the inventory says resume: false"
            assert (world.hooks.count(HookKind.CONFIGURE), len(world.hooks.ended)) == (1, 1)

    run_virtual(scenario())


@pytest.mark.rule("providers#restart")
@pytest.mark.parametrize("kind", ["create", "configure", "drain", "delete"])
def test_after_a_restart_the_hook_is_called_again_with_the_same_operation(kind: str) -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], POWER_MANAGED)) as world:
            if kind != "create":
                await world.client.create("m-1")
                await world.settled("m-1")
            if kind == "drain":
                await world.configured("m-1")
            world.hooks.next(HookKind(kind), HookReply(takes_s=1000))
            call = getattr(world.client, kind)
            match kind:
                case "configure":
                    await call("m-1", "prod", blob=b"join me")
                case "drain":
                    await call("m-1", grace_s=60)
                case _:
                    await call("m-1")
            await world.clock.sleep(1)
            await world.restart()
            machine = await world.settled("m-1")
            expected = {"create": S.IDLE, "configure": S.CONFIGURED, "drain": S.IDLE, "delete": S.SPECULATIVE}
            assert (machine.state, machine.last_error) == (expected[kind], "")
            first, again = (call for call in world.hooks.calls if call.kind == kind)
            assert first.document["operation_id"] == again.document["operation_id"]
            if kind == "drain":  # the rest of the grace period
                assert (first.document["grace_seconds"], again.document["grace_seconds"]) == (60, 59)
            # A blob is kept nowhere, so there is none to hand out a second time.
            assert "BF_BLOB_FILE" not in again.environment

    run_virtual(scenario())


def test_an_inventory_is_not_used_before_it_was_read() -> None:
    async def scenario() -> None:
        source = InventorySource(World(inventory(["m-1"])).disk, [FOLDER], {})
        with pytest.raises(InventoryError, match="was not read yet"):
            source.inventory  # noqa: B018  asking is enough
        assert source.has_changed()
        source.load()
        assert not source.has_changed()

    run_virtual(scenario())
