"""Writes the status of CapacityRequests: acknowledged, or left out of the demand and why.

Why: a slow API server must not delay the next roll-up, and no request may be written twice at once.
Must never: acknowledge a request before its roll-up was sent, exceed its concurrency, or give up on a request that still exists:
the next roll-up offers it again.
Rules: `operator#rollup-cadence`, `operator#left-out-requests`, `operator#acknowledgement`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.kube.events import EventRecorder, ObjectReference
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey
from bigfleet.model.times import rfc3339_of_ns
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.refusal import RequestRefusal, RollupRefusal
from bigfleet.operator.core.request_status import RequestView, acknowledged_status, refused_status


@dataclass(frozen=True, slots=True)
class _Job:
    key: ObjectKey
    view: RequestView
    whole: RollupRefusal | None = None
    """Set when not the request but its whole roll-up was refused."""


class Acknowledger:
    """Writes the status of requests, a few at a time."""

    def __init__(
        self,
        client: KubeClient,
        caches: OperatorCaches,
        events: EventRecorder,
        *,
        clock: Clock,
        metrics: Metrics,
        concurrency: int,
    ) -> None:
        self._client, self._caches, self._events = client, caches, events
        self._clock, self._metrics, self._concurrency = clock, metrics, concurrency
        # Consumed one by one: making 50,000 jobs at once would block the event loop.
        self._sent: Iterator[tuple[ObjectKey, RequestView]] = iter(())
        self._refused: OrderedDict[ObjectKey, RequestView] = OrderedDict()
        self._whole: OrderedDict[ObjectKey, _Job] = OrderedDict()
        self._began_s: float | None = None
        self._filled = asyncio.Event()
        self._writing: set[ObjectKey] = set()
        self._refusals_written: dict[ObjectKey, tuple[str, int]] = {}
        self._log = structlog.get_logger("bigfleet.operator")

    def acknowledge(self, pending: Mapping[ObjectKey, RequestView]) -> None:
        """Acknowledge these requests, whose roll-up was just sent; they replace those still waiting from an earlier roll-up."""
        if pending:
            self._sent = iter(pending.items())
            self._begin()

    def refuse(self, key: ObjectKey, view: RequestView) -> None:
        """Write to a request that it is left out; once for each generation of its spec."""
        if self._refusals_written.get(key) != (view.uid, view.generation):
            self._refused[key] = view
            self._begin()

    def mark(self, key: ObjectKey, view: RequestView, refusal: RollupRefusal) -> None:
        """Write to a request that the roll-up with it was refused; the next acknowledgement takes that back."""
        self._whole[key] = _Job(key, view, refusal)
        self._begin()

    def _begin(self) -> None:
        if self._began_s is None:
            self._began_s = monotonic_s(self._clock)
        self._filled.set()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while (job := self._next()) is None:
                self._filled.clear()
                await self._filled.wait()
            self._writing.add(job.key)
            try:
                await self._write(job)
            except NotFoundError:
                pass  # deleted together with its pod
            except KubeError as error:
                self._log.warning("acknowledge_failed", request=str(job.key), error=str(error))
            finally:
                self._writing.discard(job.key)

    def _next(self) -> _Job | None:
        """Return the next request that is not being written; None, and the batch is over, when there is none."""
        while self._refused:
            key, view = self._refused.popitem(last=False)
            if key not in self._writing:
                return _Job(key, view)
        while self._whole:
            key, job = self._whole.popitem(last=False)
            if key not in self._writing:
                return job
        for key, view in self._sent:
            if key not in self._writing:
                return _Job(key, view)
        if self._began_s is not None and not self._writing:
            self._metrics.histogram("bigfleet_operator_acknowledge_duration_seconds").observe(
                monotonic_s(self._clock) - self._began_s
            )
            self._began_s = None
        return None

    async def _write(self, job: _Job) -> None:
        current = self._caches.requests.get(job.key)
        if current is None or current.uid != job.view.uid:
            return  # another request has the name now, and was in no roll-up yet
        found, now = job.whole or job.view.found, rfc3339_of_ns(self._clock.wall_ns(), 0)
        if isinstance(found, RequestRefusal):
            status = refused_status(current, found, now)
        elif current.wants_acknowledgement:
            status = acknowledged_status(job.view, now)
        else:
            return
        document = await self._client.merge_patch(
            CAPACITY_REQUESTS, job.key, {"status": status}, subresource="status", urgency=Urgency.BULK
        )
        self._caches.requests.observe(document)
        if isinstance(found, RollupRefusal):
            return
        if isinstance(found, RequestRefusal):
            self._record_refusal(job, found)
        else:
            self._refusals_written.pop(job.key, None)
            self._metrics.counter("bigfleet_operator_acknowledged_total").inc()

    def _record_refusal(self, job: _Job, refusal: RequestRefusal) -> None:
        # Remembered too: a definition without conditions prunes them, and every roll-up would write the refusal again.
        if len(self._refusals_written) > 2 * len(self._caches.requests) + 1000:
            self._refusals_written.clear()
        self._refusals_written[job.key] = (job.view.uid, job.view.generation)
        self._log.warning(
            "request_left_out", request=str(job.key), reason=refusal.reason, why=refusal.message
        )
        about = ObjectReference(CAPACITY_REQUESTS, job.key, job.view.uid)
        self._events.record(
            about, "Warning", refusal.condition_reason, f"left out of the demand: {refusal.message}"
        )
