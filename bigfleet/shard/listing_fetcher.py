"""Fetches listings from the provider, and asks again where an answer seems lost.

Why: a lost answer must not cost the whole deadline, which is long because a listing of half a million machines takes long.
Must never: have more than two requests in flight, or ask a slow provider twice for what it usually takes that long to answer.
Rules: `shard#dead-connections`, `shard#large-listings`, `shard#provider-calls`; ADR-0214.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bigfleet.aio.clock import monotonic_s, timeout
from bigfleet.model.machine import TRANSITIONS, MachineState
from bigfleet.provider.errors import ListTooLargeError, NeverSentError, OutcomeUnknownError
from bigfleet.shard.context import ShardContext
from bigfleet.shard.provider_link import HeldOffError, ProviderLink

SECOND_REQUEST_S: Final = 5.0
"""After this time without an answer at least, the listing is requested a second time."""
FIRST_TIME_S: Final = 10.0
"""The same for the first listing, of which no one knows how long it takes."""
USUAL_TIMES: Final = 3
"""A listing counts as late after so many times what the last one took."""


_Timed = tuple[bytes, float]  # an answer and how long it took


@dataclass(frozen=True, slots=True)
class FetchedListing:
    """One listing, or one per state where a single one is too large."""

    parts: tuple[bytes, ...]
    full: bool
    by_state: bool = False


class ListingFetcher:
    """Requests listings of one provider."""

    def __init__(self, context: ShardContext, provider: ProviderLink) -> None:
        self._timeout_s, self._clock, self._log = context.options.list_timeout_s, context.clock, context.log
        self._provider = provider
        self._took_s: dict[tuple[bool, tuple[MachineState, ...]], float] = {}

    async def fetch(self, since: bytes) -> FetchedListing:
        """List what changed since a cursor; everything if it is empty."""
        try:
            data = await self._list(since)
        except ListTooLargeError as error:
            if since:
                raise
            self._log.warning("listing_too_large", problem=error.detail)
            # Every state there is, in one fixed order.
            parts = [await self._list(b"", (state,)) for state in TRANSITIONS]
            return FetchedListing(tuple(parts), full=True, by_state=True)
        return FetchedListing((data,), full=not since)

    async def _list(self, since: bytes, states: tuple[MachineState, ...] = ()) -> bytes:
        """Request a listing; a second time if the connection of the first one died."""
        deadline_s = self._now_s() + self._timeout_s
        try:
            return await self._twice_if_late(since, states, self._timeout_s)
        except (OutcomeUnknownError, NeverSentError) as error:
            left_s = deadline_s - self._now_s()
            if isinstance(error, HeldOffError) or left_s <= 0:
                raise
            self._log.warning("listing_repeated", problem=error.detail)
            return await self._twice_if_late(since, states, left_s)

    async def _twice_if_late(self, since: bytes, states: tuple[MachineState, ...], timeout_s: float) -> bytes:
        """The first answer to a request, or to a second one if the first seems lost."""
        key = (bool(since), states)
        usual_s = self._took_s.get(key)
        late_s = FIRST_TIME_S if usual_s is None else max(SECOND_REQUEST_S, USUAL_TIMES * usual_s)
        asked = [self._request(since, states, timeout_s)]
        try:
            if late_s < timeout_s:
                await self._wait(asked, late_s)
                if not asked[0].done():
                    self._log.warning("listing_late", waited_s=round(late_s, 3))
                    asked.append(self._request(since, states, timeout_s - late_s))
            answer, took_s = await _first_answer(asked)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.wait(asked)
        self._took_s[key] = took_s
        return answer

    def _request(
        self, since: bytes, states: Sequence[MachineState], timeout_s: float
    ) -> "asyncio.Task[_Timed]":
        async def ask() -> _Timed:
            began_s = self._now_s()
            answer = await self._provider.list(since=since, states=states, timeout_s=timeout_s)
            return answer, self._now_s() - began_s

        return asyncio.get_running_loop().create_task(ask(), name="provider listing request")

    async def _wait(self, tasks: "Sequence[asyncio.Task[_Timed]]", seconds: float) -> None:
        try:
            async with timeout(self._clock, seconds):
                await asyncio.wait(tasks)
        except TimeoutError:
            return

    def _now_s(self) -> float:
        return monotonic_s(self._clock)


async def _first_answer(asked: "Sequence[asyncio.Task[_Timed]]") -> _Timed:
    """The first good answer; if there is none, the error of the last request."""
    waiting = list(asked)
    while True:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in [each for each in waiting if each.done()]:
            if task.exception() is None or len(waiting) == 1:
                return task.result()
            waiting.remove(task)
