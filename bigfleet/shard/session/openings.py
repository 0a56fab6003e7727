"""Streams that have not said Hello yet: how many there may be, and for how long.

Why: a stream that says nothing costs the shard 25 KB and its peer nothing.
Must never: turn a newcomer away because of streams that keep silent: the one that has been silent longest goes.
Rules: `shard#session-opening`; ADR-0234.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bigfleet.aio.clock import Clock, timeout

PER_IDENTITY: Final = 2
"""Silent streams of one certificate's identity. An operator has one, for milliseconds. The library receives a first frame whole before its
length is known, so this bounds what one certificate can make the shard hold."""


class CrowdedOutError(TimeoutError):
    """So many newer streams came that this one, silent for longest, has to go."""


class _Opening:
    def __init__(self, identity: str) -> None:
        self.identity, self.crowded_out = identity, False
        self.scope: asyncio.Timeout | None = None


class Openings:
    """The streams that are silent so far, oldest first."""

    def __init__(self, clock: Clock, *, within_s: float, limit: int) -> None:
        self._clock, self._within_s, self._limit = clock, within_s, limit
        self._silent: dict[_Opening, None] = {}
        self._by_identity: dict[str, dict[_Opening, None]] = {}

    def __len__(self) -> int:
        return len(self._silent)

    @asynccontextmanager
    async def one(self, identity: str) -> AsyncIterator[None]:
        """Bound what the block waits: raises `TimeoutError`, or `CrowdedOutError`. The identity is empty on plaintext."""
        opening = _Opening(identity)
        self._enter(opening)
        try:
            async with timeout(self._clock, self._within_s) as opening.scope:
                yield
        except TimeoutError as error:
            if opening.crowded_out:
                raise CrowdedOutError from error
            raise
        finally:
            self._leave(opening)

    def _enter(self, opening: _Opening) -> None:
        own = self._by_identity.setdefault(opening.identity, {}) if opening.identity else {}
        if len(own) >= PER_IDENTITY:
            self._crowd_out(next(iter(own)))
        elif len(self._silent) >= self._limit:
            self._crowd_out(next(iter(self._silent)))
        self._silent[opening] = None
        if opening.identity:
            self._by_identity.setdefault(opening.identity, {})[opening] = None

    def _crowd_out(self, opening: _Opening) -> None:
        self._leave(opening)
        # A scope that has expired is ending its stream anyway, and must not be moved.
        if opening.scope is not None and not opening.scope.expired():
            opening.crowded_out = True
            opening.scope.reschedule(float("-inf"))

    def _leave(self, opening: _Opening) -> None:
        self._silent.pop(opening, None)
        own = self._by_identity.get(opening.identity, {})
        own.pop(opening, None)
        if not own:
            self._by_identity.pop(opening.identity, None)
