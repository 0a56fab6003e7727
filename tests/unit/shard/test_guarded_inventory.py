"""The gate in front of the inventory, and keeping it tidy."""

import asyncio
from dataclasses import replace

from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import HostRef, MachineState
from bigfleet.shard.guarded_inventory import GuardedInventory
from tests.support.builders import machine


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
