"""Limits how many expensive requests run and wait at the same time.

Why: some requests cost a shard seconds of CPU time; many at once must not add up to minutes.
Must never: let a request wait in an unbounded queue.
Rules: `dashboard#insight-service`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bigfleet.aio.net import Code, RpcRefusedError


class RequestLimit:
    """Runs `at_once` requests and lets `waiting` more wait; `what` names them in a refusal."""

    def __init__(self, what: str, *, at_once: int, waiting: int) -> None:
        self._what, self._most = what, at_once + waiting
        self._free = asyncio.Semaphore(at_once)
        self._here = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Run one request, after waiting if needed; RESOURCE_EXHAUSTED when too many wait already."""
        if self._here >= self._most:
            raise RpcRefusedError(
                Code.RESOURCE_EXHAUSTED,
                f"{self._here} {self._what} are under way or wait already; ask again in a moment",
            )
        self._here += 1
        try:
            async with self._free:
                yield
        finally:
            self._here -= 1
