"""The thread that owns the Raft object: what it survives, what ends it, and what shows that it is stuck."""

import asyncio
import threading
from typing import cast

import pytest

from bigfleet.aio.clock import SystemClock, nanoseconds
from bigfleet.app.coordinator.serve import WEDGED_S, not_alive
from bigfleet.coordinator.log import FatalLogError, LogDiskError
from bigfleet.coordinator.raft.replica import Replica, ReplicaListeners
from bigfleet.coordinator.raft.replica_thread import ReplicaThread


class HandClock(SystemClock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_ns(self) -> int:
        return nanoseconds(self.now_s)


class ScriptedReplica:
    """A replica whose every tick is handed out by the test; after the last one it waits."""

    def __init__(self) -> None:
        self.ticks = threading.Semaphore(0)
        self.ticked = threading.Semaphore(0)
        self.error: Exception | None = None
        self.destroyed = False

    def tick(self) -> None:
        self.ticked.release()
        self.ticks.acquire()
        error, self.error = self.error, None
        if error is not None:
            raise error

    def destroy(self) -> None:
        self.destroyed = True


class World:
    def __init__(self) -> None:
        self.clock, self.replica = HandClock(), ScriptedReplica()
        self.fatal: list[FatalLogError] = []
        self.trouble: list[str] = []
        listeners = ReplicaListeners(on_fatal=self.fatal.append, on_error=self.trouble.append)
        self.thread = ReplicaThread(lambda: cast("Replica", self.replica), listeners, self.clock)

    async def end(self) -> None:
        self.thread._stopping.set()
        self.replica.ticks.release()
        await self.thread.stop()


@pytest.mark.rule("coordinator#tick-stalled", "coordinator#probes")
def test_a_tick_that_never_ends_fails_liveness_after_30_s() -> None:
    async def scenario() -> None:
        world = World()
        await world.thread.start()
        await asyncio.to_thread(world.replica.ticked.acquire)  # it hangs in its first tick
        world.clock.now_s += WEDGED_S
        assert not_alive(world.thread) == []
        world.clock.now_s += 1
        assert not_alive(world.thread) == ["the Raft loop has been silent for 31 s"]
        world.replica.ticks.release()
        await asyncio.to_thread(world.replica.ticked.acquire)
        assert not_alive(world.thread) == []  # it ticks again
        await world.end()

    assert WEDGED_S == 30
    asyncio.run(scenario())


def test_a_tick_that_raises_is_told_and_the_next_one_comes() -> None:
    async def scenario() -> None:
        world = World()
        world.replica.error = ZeroDivisionError("odd")
        await world.thread.start()
        world.replica.ticks.release(2)
        for _ in range(3):
            await asyncio.to_thread(world.replica.ticked.acquire)
        assert world.trouble == ["a tick failed: ZeroDivisionError: odd"]
        assert not world.fatal
        await world.end()

    asyncio.run(scenario())


@pytest.mark.rule("coordinator#disk-error")
def test_a_failing_disk_ends_the_thread_and_closes_what_peers_see() -> None:
    async def scenario() -> None:
        world = World()
        world.replica.error = failure = LogDiskError("full")
        await world.thread.start()
        world.replica.ticks.release()
        await asyncio.to_thread(world.thread._thread.join)
        assert world.fatal == [failure]
        assert world.replica.destroyed
        await world.thread.stop()

    asyncio.run(scenario())
