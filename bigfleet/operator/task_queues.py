"""One task queue per key, such as a machine: tasks run in order, one at a time, and a newer state replaces an older one.

Why: two concurrent writers of one object undo each other. `put` never waits, so the stream is always read.
Must never: lose a task that is put while its queue empties: there is no await between finding a queue empty and removing it.
Rules: `operator#frame-dispatch`, `operator#lanes`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import structlog

from bigfleet.kube.errors import KubeError
from bigfleet.obs.metrics import Metrics

Task = TypeVar("Task")

Handle = Callable[[str, Task], Awaitable[None]]


class TaskQueues(Generic[Task]):
    """Queues by key; a task of a type in `newest_only` replaces a waiting one of its type."""

    def __init__(
        self,
        handle: Handle[Task],
        permits: asyncio.Semaphore,
        metrics: Metrics,
        *,
        newest_only: tuple[type, ...],
    ) -> None:
        self._handle, self._permits, self._metrics, self._newest_only = handle, permits, metrics, newest_only
        self._waiting: dict[str, deque[Task]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._log = structlog.get_logger("bigfleet.operator")

    def put(self, key: str, task: Task) -> None:
        """Append a task to a queue and return at once."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = deque()
            self._workers[key] = asyncio.get_running_loop().create_task(self._work(key))
        if isinstance(task, self._newest_only):
            for place, other in enumerate(waiting):
                if type(other) is type(task):
                    del waiting[place]
                    break
        waiting.append(task)

    def has_waiting(self, key: str, *types: type) -> bool:
        """Return whether a task of one of these types waits in a queue; the running task is then stale."""
        return any(isinstance(task, types) for task in self._waiting.get(key, ()))

    def __len__(self) -> int:
        """How many queues there are."""
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

    async def _work(self, key: str) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                # The permit first and then the task: a task that is replaced while its queue waits for a permit never starts.
                async with self._permit():
                    task = waiting.popleft()
                    await self._run(key, task)
        finally:
            del self._waiting[key]
            del self._workers[key]

    @asynccontextmanager
    async def _permit(self) -> Any:
        # Any: an asynchronous iterator of nothing, as the decorator wants it.
        async with self._permits:
            self._metrics.gauge("bigfleet_operator_dispatch_inflight").inc()
            try:
                yield
            finally:
                self._metrics.gauge("bigfleet_operator_dispatch_inflight").dec()

    async def _run(self, key: str, task: Task) -> None:
        name = type(task).__name__
        try:
            await self._handle(key, task)
        except KubeError as error:
            self._log.error("handler_refused", key=key, task=name, error=str(error))
        except Exception as error:
            # A defect in one handler must not end the session or stop the queue of the machine.
            self._log.error("handler_defect", key=key, task=name, exc_info=error)
