"""The thread that owns a replica: it builds, ticks and destroys it.

Why: no two threads touch the library, and one place turns an error into the end of the process or a log line.
Must never: tick after a FatalLogError; memory would be ahead of the disk.
Rules: `coordinator#process`, `coordinator#durability`. Deviation from 11: the thread is ours, not the library's, see
the README.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from pysyncobj import SyncObjException

from bigfleet.aio.clock import NANOSECONDS, Clock
from bigfleet.coordinator.log import FatalLogError
from bigfleet.coordinator.raft.library import TICK_S
from bigfleet.coordinator.raft.replica import Replica, ReplicaListeners

_BUILD_ATTEMPTS = 5
_T = TypeVar("_T")


class ReplicaThread:
    """One replica on its own thread; created and stopped on the asyncio loop."""

    def __init__(self, build: Callable[[], Replica], listeners: ReplicaListeners, clock: Clock) -> None:
        """`build` runs on the thread; it runs again, with another port, if its port was taken."""
        self._build, self._listeners, self._clock = build, listeners, clock
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="raft", daemon=True)
        self._ticked_ns = clock.monotonic_ns()
        self.replica: Replica | None = None
        """The replica once it is built."""

    async def start(self) -> None:
        """Return once the replica is built, or its build has failed; the listeners get the error."""
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)

    async def stop(self) -> None:
        """Return once the replica is destroyed and the thread has ended."""
        self._stopping.set()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    async def call(self, work: Callable[[Replica], _T], replica: Replica) -> _T:
        """Call `work` with the replica before its next tick and return its result."""
        answer: Future[_T] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work(replica))
                except Exception as error:  # the caller gets it, not the tick
                    answer.set_exception(error)

        replica.post(run)
        return await asyncio.wrap_future(answer)

    def tick_age_s(self) -> float:
        """Return the time since the end of the last tick."""
        return (self._clock.monotonic_ns() - self._ticked_ns) / NANOSECONDS

    def _run(self) -> None:
        try:
            replica = self._built()
        except FatalLogError as error:
            self._listeners.on_fatal(error)
            return
        finally:
            self._ready.set()
        try:
            self._tick_until_stopped(replica)
        except FatalLogError as error:
            self._listeners.on_fatal(error)
        finally:
            # After a failure the journal writes nothing; closed connections let the peers notice at once.
            with suppress(FatalLogError):
                replica.destroy()

    def _built(self) -> Replica:
        for _ in range(_BUILD_ATTEMPTS):
            with suppress(SyncObjException):  # its port was taken in between
                self.replica = self._build()
                return self.replica
        raise FatalLogError(f"no loopback port could be bound for Raft in {_BUILD_ATTEMPTS} attempts")

    def _tick_until_stopped(self, replica: Replica) -> None:
        while not self._stopping.is_set():
            try:
                replica.tick()
            except FatalLogError:
                raise
            except Exception as error:  # as the library's own thread does: log, wait, go on
                self._listeners.on_error(f"a tick failed: {type(error).__name__}: {error}")
                self._stopping.wait(TICK_S)
            self._ticked_ns = self._clock.monotonic_ns()
