"""Repeats a write until the API server has carried it out.

Why: the client library never repeats a patch, and the shard sends a node state once, so a write that is dropped on an error is
lost. An API server that has just started refuses every account until it has read its roles, so a refusal can be temporary too.
Must never: repeat a refusal of the object itself, repeat a stale write, or swallow a cancellation.
Rules: `operator#un-spec`, `operator#un-merge-patch`, `operator#writes-land`, `operator#own-writes-seen`,
`operator#hint-writes`, `operator#acknowledgement`; ADR-0126.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from bigfleet.aio.backoff import Backoff, BackoffPolicy
from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import RandomStream
from bigfleet.kube.errors import ConflictError, ForbiddenError, KubeError

R = TypeVar("R")

CONFLICT_TRIES: Final = 5
CONFLICT_WAIT_S: Final = 0.01
RETRY: Final = BackoffPolicy(first_s=0.2, ceiling_s=10.0)


class WriteRetry:
    """Retries for the writes of one process."""

    def __init__(self, clock: Clock, stream: RandomStream) -> None:
        self._clock, self._stream = clock, stream
        self._log = structlog.get_logger("bigfleet.kube")

    async def until_written(
        self,
        attempt: Callable[[], Awaitable[R]],
        *,
        is_stale: Callable[[], bool] = lambda: False,
        retry_forbidden: bool = True,
    ) -> R | None:
        """Make the attempt until it succeeds and return its result; None once the attempt is stale.

        Conflicts and temporary errors are retried, ForbiddenError too unless `retry_forbidden` is off. Other errors are raised.
        """
        backoff = Backoff(self._stream, RETRY)
        while True:
            try:
                return await self._retry_conflicts(attempt)
            except KubeError as error:
                forbidden = retry_forbidden and isinstance(error, ForbiddenError)
                if not (error.temporary or forbidden or isinstance(error, ConflictError)):
                    raise
                wait_s = max(backoff.next_s(), min(error.retry_after_s or 0.0, RETRY.ceiling_s))
                self._log.warning("write_failed", error=str(error), wait_s=round(wait_s, 3))
            if is_stale():
                return None
            await self._clock.sleep(wait_s)
            if is_stale():
                return None

    async def _retry_conflicts(self, attempt: Callable[[], Awaitable[R]]) -> R:
        for _ in range(CONFLICT_TRIES - 1):
            try:
                return await attempt()
            except ConflictError:
                await self._clock.sleep(CONFLICT_WAIT_S * (1 + 0.1 * self._stream.random()))
        return await attempt()
