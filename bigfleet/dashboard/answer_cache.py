"""Shares one answer between all requests for the same thing within two seconds.

Why: a hundred open tabs must cost the fleet one call. A request that comes while the call is running waits for its answer;
a request soon after gets the same answer.
Must never: keep a failure, or more answers than its bound.
Rules: `dashboard#budgets`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, TypeVar, cast

from bigfleet.aio.clock import Clock, monotonic_s

FRESH_S: Final = 2.0
_KEPT: Final = 128
"""A page of a large fleet is about 200 KB."""
T = TypeVar("T")


class AnswerCache:
    """Recent answers, and calls that are running."""

    def __init__(self, clock: Clock, *, fresh_s: float = FRESH_S) -> None:
        self._clock, self.fresh_s = clock, fresh_s
        self._kept: OrderedDict[Hashable, tuple[float, object]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[object]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer for a key; call `ask` only if there is none from the last two seconds."""
        kept = self._kept.get(key)
        if kept is not None and monotonic_s(self._clock) - kept[0] < self.fresh_s:
            return cast("T", kept[1])
        task = self._asking.get(key)
        if task is None:
            task = asyncio.ensure_future(self._ask(key, ask))
            self._asking[key] = task
        # A request that is cancelled must not cancel the call for the others.
        return cast("T", await asyncio.shield(task))

    def forget(self) -> None:
        """Drop all answers, as after a change of the fleet."""
        self._kept.clear()

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[object]]) -> object:
        try:
            answer = await ask()
        finally:
            self._asking.pop(key, None)
        self._kept[key] = (monotonic_s(self._clock), answer)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return answer
