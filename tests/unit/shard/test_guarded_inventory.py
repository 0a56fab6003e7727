"""The gate in front of the inventory, and keeping it tidy."""

import asyncio
from dataclasses import replace

import pytest

from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import HostRef, MachineState
from bigfleet.shard.guarded_inventory import GuardedInventory
from tests.support.builders import machine, shape


def test_while_the_gate_is_shut_writers_wait_and_the_loop_goes_on() -> None:
    async def story() -> None:
        guarded, order = GuardedInventory(), list[str]()
        begun, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(_inventory: Inventory) -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
            order.append("worked")

        async def write() -> None:
            await guarded.available()
            order.append("wrote")

        working = asyncio.ensure_future(guarded.exclusively(work))
        await begun.wait()
        writing = asyncio.ensure_future(write())
        order.append("the loop goes on")
        go_on.set()
        await asyncio.gather(working, writing)
        assert order == ["the loop goes on", "worked", "wrote"]

    asyncio.run(story())  # with a real thread, which is what this is about


def test_the_gate_opens_again_after_a_failure() -> None:
    async def story() -> None:
        guarded = GuardedInventory()

        def fail(_inventory: Inventory) -> None:
            raise ValueError("a defect")

        try:
            await guarded.exclusively(fail)
        except ValueError:
            await guarded.available()
            return
        raise AssertionError("the failure was lost")

    asyncio.run(story())


def test_texts_that_nobody_uses_are_given_back() -> None:
    async def story() -> None:
        guarded = GuardedInventory(waste_bytes=10_000)
        guarded.inventory.insert(machine("m-1", MachineState.IDLE), None)
        for number in range(1000):
            host = HostRef("rack", f"host-{number:06d}-with-a-name-that-is-rather-long")
            guarded.inventory.adopt(replace(guarded.inventory.get("m-1"), host=host), 0.0)
            await guarded.compact_if_wasteful()
        assert guarded.inventory.size().texts < 20_000
        assert guarded.inventory.get("m-1").host.ref.startswith("host-000999")
        assert len(await guarded.snapshot()) == 1

    asyncio.run(story())


@pytest.mark.rule("shard#shared-values")
def test_shapes_of_past_prices_are_collected_and_a_snapshot_in_use_stays_as_it_was() -> None:
    async def story() -> None:
        guarded = GuardedInventory(waste_values=100)
        inventory = guarded.inventory
        for number in range(10):
            inventory.insert(machine(f"m-{number}", shape=shape(price=1.0)), 0.0)
        await guarded.compact_if_wasteful()
        before = await guarded.snapshot()
        most = 0
        for price in range(1, 200):
            for number in range(10):
                known = inventory.get(f"m-{number}")
                dearer = replace(known.shape, price_per_hour=price + number / 16)
                inventory.adopt(replace(known, shape=dearer), 0.0)
            await guarded.compact_if_wasteful()
            most = max(most, inventory.shared_values)
        assert most < 200
        assert inventory.get("m-3").shape.price_per_hour == 199 + 3 / 16
        assert [each.shape.price_per_hour for each in before.machines()] == [1.0] * 10

    asyncio.run(story())
