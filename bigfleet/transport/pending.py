"""A read that may be given up without losing what it would have read.

Why: grpc.aio ends a whole call when a task that reads from it is cancelled, and a server's read that is cancelled swallows
the next message. A reader that waits 30 s and then sends a hello needs this, and the seam promises it.
Must never: have two reads under way at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PendingRead(Generic[T]):
    """Turns a read function into one whose callers may be cancelled; one caller at a time."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._read = read
        self._task: asyncio.Task[T] | None = None

    async def next(self) -> T:
        """Return what the read under way brings, or begin one."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())
            self._task.add_done_callback(_look_at)
        task = self._task
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._task = None

    def abandon(self) -> None:
        """Drop the read under way; for the end of a call."""
        if self._task is not None:
            self._task.cancel()


def _look_at(task: asyncio.Task[Any]) -> None:
    # Marks the error as seen: asyncio warns of an unseen one, and here its reader has given up.
    if not task.cancelled():
        task.exception()
