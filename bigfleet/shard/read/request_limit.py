"""A few at a time, a few more in line, and the rest is told to come again.

Why: some questions cost a shard seconds of computing. They must not add up to minutes because many ask at once.
Must never: let somebody wait without bound.
Rules: dashboard 8.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bigfleet.aio.net import Code, RefusedError


class RequestLimit:
    """So many at once and so many waiting; `what` names them in the refusal."""

    def __init__(self, what: str, *, at_once: int, waiting: int) -> None:
        self._what, self._most = what, at_once + waiting
        self._free = asyncio.Semaphore(at_once)
        self._here = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a slot, after waiting for it if need be; RESOURCE_EXHAUSTED when too many wait already."""
        if self._here >= self._most:
            raise RefusedError(
                Code.RESOURCE_EXHAUSTED,
                f"{self._here} {self._what} are under way or wait already; ask again in a moment",
            )
        self._here += 1
        try:
            async with self._free:
                yield
        finally:
            self._here -= 1
