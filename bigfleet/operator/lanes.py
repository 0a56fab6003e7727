"""One line of work per machine: in order, one item at a time, newest state only.

Why: two writers of one object undo each other, and a state that was overtaken is not worth a call. Nobody who files an item
waits for anything, so the stream is always read.
Must never: lose an item that is filed while its lane empties: there is no await between finding a lane empty and removing it.
Rules: operator 3.5 and 3.6.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import structlog

from bigfleet.kube.errors import KubeError
from bigfleet.obs.metrics import Metrics

I = TypeVar("I")  # noqa: E741  an item

Handle = Callable[[str, I], Awaitable[None]]


class Lanes(Generic[I]):
    """Lanes by key; items of the types named in `newest_only` replace a waiting one of their type."""

    def __init__(
        self,
        handle: Handle[I],
        permits: asyncio.Semaphore,
        metrics: Metrics,
        *,
        newest_only: tuple[type, ...],
    ) -> None:
        self._handle, self._permits, self._metrics, self._newest_only = handle, permits, metrics, newest_only
        self._waiting: dict[str, deque[I]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._log = structlog.get_logger("bigfleet.operator")

    def file(self, lane: str, item: I) -> None:
        """Put an item at the end of its lane; returns at once."""
        waiting = self._waiting.get(lane)
        if waiting is None:
            waiting = self._waiting[lane] = deque()
            self._workers[lane] = asyncio.get_running_loop().create_task(self._work(lane))
        if isinstance(item, self._newest_only):
            for place, other in enumerate(waiting):
                if type(other) is type(item):
                    del waiting[place]
                    break
        waiting.append(item)

    def has_newer(self, lane: str, *kinds: type) -> bool:
        """Tell whether an item of one of these types waits in a lane; what is being handled is then not worth more tries."""
        return any(isinstance(item, kinds) for item in self._waiting.get(lane, ()))

    def __len__(self) -> int:
        """How many lanes there are."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._waiting))

    async def close(self) -> None:
        """Stop all work."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)

    async def _work(self, lane: str) -> None:
        waiting = self._waiting[lane]
        try:
            while waiting:
                # The permit first and then the item: what is overtaken while the lane waits for its turn is never begun.
                async with self._permit():
                    item = waiting.popleft()
                    await self._safely(lane, item)
        finally:
            del self._waiting[lane]
            del self._workers[lane]

    @asynccontextmanager
    async def _permit(self) -> Any:
        # Any: an asynchronous iterator of nothing, as the decorator wants it.
        async with self._permits:
            self._metrics.gauge("bigfleet_operator_dispatch_inflight").inc()
            try:
                yield
            finally:
                self._metrics.gauge("bigfleet_operator_dispatch_inflight").dec()

    async def _safely(self, lane: str, item: I) -> None:
        try:
            await self._handle(lane, item)
        except KubeError as error:
            self._log.error("handler_refused", lane=lane, item=type(item).__name__, error=str(error))
        except (
            Exception
        ) as error:  # a defect in one handler must not end the session, nor stop the machine's lane
            self._log.error("handler_defect", lane=lane, item=type(item).__name__, exc_info=error)
