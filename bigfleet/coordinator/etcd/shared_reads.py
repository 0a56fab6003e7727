"""Readers that wait for one read of etcd together.

Must never: let a reader share a read that began before it asked.
Rules: `coordinator#etcd-barrier`.
"""

import asyncio
from collections.abc import Awaitable, Callable

from bigfleet.coordinator.log import LogError


class SharedReads:
    """One read at a time for all who wait; `read` returns what to tell them, None for success."""

    def __init__(self, read: Callable[[], Awaitable[LogError | None]]) -> None:
        self._read = read
        self._readers: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Return after a read that began after this call; raises what that read gave."""
        loop = asyncio.get_running_loop()
        reader: asyncio.Future[None] = loop.create_future()
        self._readers.append(reader)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        await reader

    async def stop(self) -> None:
        """Give up the read under way; who still waits waits until its own deadline."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._readers:
            readers, self._readers = self._readers, []
            error = await self._read()
            for reader in readers:
                if reader.done():
                    continue
                if error is None:
                    reader.set_result(None)
                else:
                    reader.set_exception(error)
