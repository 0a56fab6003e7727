"""The pod controller: one CapacityRequest per pod, for the pod's whole life.

Why: the roll-up must be total demand. What is missing for a pod is always derived anew from pod and requests, so events may
be lost, doubled or late, and a restart at any moment changes nothing.
Must never: change a pod, a node or a priority; work on one pod twice at once; act before both caches are complete.
Rules: operator 12, 16.3; ADR-0039, ADR-0105.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.rng import Rng
from bigfleet.kube.client import KubeClient
from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED
from bigfleet.kube.errors import InvalidObjectError, KubeError
from bigfleet.kube.events import EventRecorder
from bigfleet.kube.feed import Change, Feed
from bigfleet.kube.work_queue import WorkQueue
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.caches import SYNC_PATIENCE_S, Caches
from bigfleet.podcontroller.core.life import plan
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS, PenaltyDefaults
from bigfleet.podcontroller.core.views import PodView, RequestView
from bigfleet.podcontroller.pod_events import PodEvents
from bigfleet.podcontroller.request_writer import RequestWriter

COMPONENT: Final = "bigfleet-unschedulable-pod-controller"
ORPHAN_GRACE_S: Final = 60.0
"""How long a request may be without its pod: the garbage collector is quicker, and a pod's own event may be late."""
_STEPS_PER_TURN: Final = 500


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags of the program say."""

    concurrency: int = 16
    resync_s: float = 600.0
    exclude_daemonset_pods: bool = False
    pod_events: bool = True
    sync_patience_s: float = SYNC_PATIENCE_S


class PodController:
    """Keeps the requests of one cluster in step with its pods."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics,
        options: Options | None = None,
        defaults: PenaltyDefaults = NO_DEFAULTS,
        host: str = "",
    ) -> None:
        self._options = options or Options()
        self._clock, self._metrics = clock, metrics
        self.caches = Caches(
            client,
            clock=clock,
            rng=rng,
            defaults=defaults,
            exclude_daemonsets=self._options.exclude_daemonset_pods,
            with_upcoming=self._options.pod_events,
        )
        self._writer = RequestWriter(client, self.caches.requests)
        self._recorder = EventRecorder(client, COMPONENT, clock=clock, host=host)
        self._events = PodEvents(self._recorder, self.caches, clock=clock, advice=self._options.pod_events)
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, stream=rng.stream("queue"))
        self._orphans: dict[str, float] = {}
        self._looks = 0
        self._log = structlog.get_logger("bigfleet.podcontroller")

    async def keep_caches(self) -> None:
        """Keep the caches until cancelled; a standby does this too."""
        await self.caches.run()

    async def work(self) -> None:
        """Keep requests in step until cancelled; the holder of the lease alone does this."""
        await self.caches.wait_synced(self._options.sync_patience_s)
        self._log.info("synchronised", pods=len(self.caches.pods), requests=len(self.caches.requests))
        # The feeds begin with everything there is: that is the comparison at the start.
        pods, requests = self.caches.pods.feed(), self.caches.requests.feed()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_pods(pods))
                group.create_task(self._follow_requests(requests))
                group.create_task(self._compare_now_and_then())
                group.create_task(self._events.follow_nodes())
                group.create_task(self._recorder.run())
                group.create_task(
                    self._queue.work(self._look, retry=(KubeError,), workers=self._options.concurrency)
                )
        finally:
            self.caches.pods.end_feed(pods)
            self.caches.requests.end_feed(requests)

    async def settle(self) -> None:
        """Begin nothing new, and return once no pod is being worked on."""
        await self._queue.settle()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be looked at or to be told."""
        return not len(self._queue) and self._recorder.is_idle

    # ---- what makes a pod be looked at

    async def _follow_pods(self, feed: Feed[PodView]) -> None:
        while True:
            changes = [await feed.take(), *feed.take_waiting()]
            for number, change in enumerate(changes, 1):
                # A namesake may have taken the place of a pod: both are looked at.
                for pod in (change.before, change.after):
                    if pod is not None:
                        self._queue.add(pod.id)
                await self._let_others_run(number)

    async def _follow_requests(self, feed: Feed[RequestView]) -> None:
        for number, change in enumerate(feed.take_waiting(), 1):
            # Looked at, but not told of: what stands already is no news.
            if change.after is not None:
                self._queue.add(change.after.pod_id)
            await self._let_others_run(number)
        while True:
            for number, change in enumerate([await feed.take(), *feed.take_waiting()], 1):
                self._request_changed(change)
                await self._let_others_run(number)

    def _request_changed(self, change: Change[RequestView]) -> None:
        for request in (change.before, change.after):
            if request is not None:
                self._queue.add(request.pod_id)
        before, after = change.before, change.after
        if (
            after is not None
            and after.phase == ACKNOWLEDGED
            and (before is None or before.phase != ACKNOWLEDGED)
        ):
            self._events.acknowledged(after)

    async def _compare_now_and_then(self) -> None:
        while True:
            await self._clock.sleep(self._options.resync_s)
            await self.compare()

    async def compare(self) -> None:
        """Have everything looked at for which something is missing or too much."""
        for number, pod in enumerate(self.caches.pods.snapshot().values(), 1):
            if not plan(pod, self.caches.requests_of(pod.id)).is_nothing:
                self._queue.add(pod.id)
            await self._let_others_run(number)
        for number, request in enumerate(self.caches.requests.snapshot().values(), 1):
            if self.caches.pod(request.pod_id) is None:
                self._queue.add(request.pod_id)
            await self._let_others_run(number)

    async def _let_others_run(self, number: int) -> None:
        """Give way after some hundred steps that did not wait for anything."""
        if number % _STEPS_PER_TURN == 0:
            await self._clock.sleep(0)

    # ---- one look

    async def _look(self, pod_id: str) -> None:
        self._looks += 1
        await self._let_others_run(self._looks)  # most looks find nothing to do, and so wait for nothing
        try:
            outcome = await self._reconcile(pod_id)
        except KubeError as error:
            self._count("error")
            self._log.warning("pod_failed", pod=pod_id, error=str(error))
            pod = self.caches.pod(pod_id)
            if isinstance(error, InvalidObjectError) and pod is not None:
                self._events.refused(pod, f"no capacity can be asked for: {error.message}")
            raise
        self._count(outcome)

    async def _reconcile(self, pod_id: str) -> str:
        pod, requests = self.caches.pod(pod_id), self.caches.requests_of(pod_id)
        if pod is None:
            await self._look_at_orphans(pod_id, requests)
            return plan(None, requests).outcome
        self._orphans.pop(pod_id, None)
        wanted = plan(pod, requests)
        outcome = await self._writer.carry_out(wanted, pod)
        if outcome in ("cr_created", "cr_updated"):
            self._told(pod)
        return outcome

    async def _look_at_orphans(self, pod_id: str, requests: tuple[RequestView, ...]) -> None:
        """Delete requests whose pod is gone for good; the first look only takes a note."""
        if not requests:
            self._orphans.pop(pod_id, None)
            return
        now_s = monotonic_s(self._clock)
        waited_s = now_s - self._orphans.setdefault(pod_id, now_s)
        silent_s = self.caches.pods.age_s() or 0.0
        # A pod that was made before its request must have been shown by now, if the watch was heard of since.
        if waited_s >= ORPHAN_GRACE_S and silent_s < waited_s:
            for request in requests:
                await self._writer.delete(request)
            del self._orphans[pod_id]
        else:
            self._queue.add_after(pod_id, ORPHAN_GRACE_S)

    def _told(self, pod: PodView) -> None:
        for reason in pod.inexact:
            self._metrics.counter(
                "bigfleet_unschedulable_pod_controller_inexact_total", reason=reason.value
            ).inc()
        self._events.warn(pod)

    def _count(self, outcome: str) -> None:
        self._metrics.counter("bigfleet_unschedulable_pod_controller_reconciles_total", outcome=outcome).inc()
