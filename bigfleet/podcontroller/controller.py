"""The pod controller: one CapacityRequest per pod, for the pod's whole life.

Why: the roll-up must be total demand. What is missing for a pod is always derived from the pod and its requests, so lost,
repeated or late events and restarts do no harm.
Must never: change a pod, a node or a priority; work on one pod twice at once; act before both caches are complete.
Rules: `operator#pod-controller`, `operator#pod-failures`; ADR-0039, ADR-0105, ADR-0206.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.rng import Rng
from bigfleet.kube.change_queue import ChangeQueue, StoreChange
from bigfleet.kube.client import KubeClient
from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED
from bigfleet.kube.errors import InvalidObjectError, KubeError
from bigfleet.kube.events import EventRecorder
from bigfleet.kube.work_queue import WorkQueue
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.caches import SYNC_PATIENCE_S, PodControllerCaches
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS, PenaltyDefaults
from bigfleet.podcontroller.core.request_plan import RequestPlan, request_plan
from bigfleet.podcontroller.core.views import OwnedRequest, PodView
from bigfleet.podcontroller.pod_events import PodEvents
from bigfleet.podcontroller.request_writer import RequestWriter

COMPONENT: Final = "bigfleet-unschedulable-pod-controller"
ORPHAN_GRACE_S: Final = 60.0
"""How long a request may exist without its pod: the garbage collector is faster, and the event of the pod may be late."""
_STEPS_PER_TURN: Final = 500


@dataclass(frozen=True, slots=True)
class PodControllerOptions:
    """The options of one pod controller, from its flags."""

    concurrency: int = 16
    resync_s: float = 600.0
    exclude_daemonset_pods: bool = False
    pod_events: bool = True
    sync_patience_s: float = SYNC_PATIENCE_S
    stamp_after_s: float = 5.0
    """How long a request may have no phase before it is stamped: the operator acknowledges most of them sooner."""


class PodController:
    """Keeps the requests of one cluster in step with its pods."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics,
        options: PodControllerOptions | None = None,
        defaults: PenaltyDefaults = NO_DEFAULTS,
        host: str = "",
    ) -> None:
        self._options = options or PodControllerOptions()
        self._clock, self._metrics = clock, metrics
        self.caches = PodControllerCaches(
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
        self._unstamped_s: dict[str, float] = {}
        self._seen_s: dict[str, float] = {}
        self._reconciles = 0
        self._log = structlog.get_logger("bigfleet.podcontroller")

    async def keep_caches(self) -> None:
        """Fill the caches until cancelled; a standby does this too."""
        await self.caches.run()

    async def work(self) -> None:
        """Keep requests in step until cancelled; only the holder of the lease does this."""
        await self.caches.wait_synced(self._options.sync_patience_s)
        self._log.info("synchronised", pods=len(self.caches.pods), requests=len(self.caches.requests))
        # The queues start with every object, so everything is compared at the start.
        pods, requests = self.caches.pods.subscribe(), self.caches.requests.subscribe()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_pods(pods))
                group.create_task(self._follow_requests(requests))
                group.create_task(self._compare_regularly())
                group.create_task(self._events.follow_nodes())
                group.create_task(self._recorder.run())
                group.create_task(
                    self._queue.work(
                        self._reconcile_counted, retry=(KubeError,), workers=self._options.concurrency
                    )
                )
        finally:
            self.caches.pods.unsubscribe(pods)
            self.caches.requests.unsubscribe(requests)

    async def settle(self) -> None:
        """Start no more work, and return once no pod is being worked on."""
        await self._queue.settle()

    @property
    def is_idle(self) -> bool:
        """Whether no pod and no event is queued."""
        return not len(self._queue) and self._recorder.is_idle

    # ---- what queues a pod

    async def _follow_pods(self, queue: ChangeQueue[PodView]) -> None:
        while True:
            changes = [await queue.take(), *queue.take_all()]
            for number, change in enumerate(changes, 1):
                # Another pod may have the name by now: both are queued.
                for pod in (change.before, change.after):
                    if pod is not None:
                        self._seen_s.setdefault(pod.id, monotonic_s(self._clock))
                        self._queue.add(pod.id)
                await self._yield_sometimes(number)

    async def _follow_requests(self, queue: ChangeQueue[OwnedRequest]) -> None:
        for number, change in enumerate(queue.take_all(), 1):
            # Queued, but without an event: the request is not new.
            if change.after is not None:
                self._queue.add(change.after.pod_id)
            await self._yield_sometimes(number)
        while True:
            for number, change in enumerate([await queue.take(), *queue.take_all()], 1):
                self._request_changed(change)
                await self._yield_sometimes(number)

    def _request_changed(self, change: StoreChange[OwnedRequest]) -> None:
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

    async def _compare_regularly(self) -> None:
        while True:
            await self._clock.sleep(self._options.resync_s)
            await self.compare()

    async def compare(self) -> None:
        """Queue every pod whose requests are not as they should be, and every request without a pod."""
        for number, pod in enumerate(self.caches.pods.snapshot().values(), 1):
            if not request_plan(pod, self.caches.requests_of(pod.id)).is_nothing:
                self._queue.add(pod.id)
            await self._yield_sometimes(number)
        for number, request in enumerate(self.caches.requests.snapshot().values(), 1):
            if self.caches.pod(request.pod_id) is None:
                self._queue.add(request.pod_id)
            await self._yield_sometimes(number)

    async def _yield_sometimes(self, number: int) -> None:
        """Yield to the event loop every few hundred steps."""
        if number % _STEPS_PER_TURN == 0:
            await self._clock.sleep(0)

    # ---- reconciling one pod

    async def _reconcile_counted(self, pod_id: str) -> None:
        self._reconciles += 1
        await self._yield_sometimes(self._reconciles)  # most find nothing to do, and so never wait
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
        seen_s = self._seen_s.pop(pod_id, None)
        if outcome == "cr_created" and seen_s is not None:
            self._metrics.histogram("bigfleet_unschedulable_pod_controller_request_delay_seconds").observe(
                monotonic_s(self._clock) - seen_s
            )

    async def _reconcile(self, pod_id: str) -> str:
        pod, requests = self.caches.pod(pod_id), self.caches.requests_of(pod_id)
        if pod is None:
            self._unstamped_s.pop(pod_id, None)
            await self._reconcile_orphans(pod_id, requests)
            return request_plan(None, requests).outcome
        self._orphans.pop(pod_id, None)
        wanted = request_plan(pod, requests)
        if not self._may_stamp(pod_id, wanted):
            wanted = replace(wanted, stamp=False)
        outcome = await self._writer.carry_out(wanted, pod)
        if outcome in ("cr_created", "cr_updated"):
            self._report_inexact(pod)
        return outcome

    def _may_stamp(self, pod_id: str, plan: RequestPlan) -> bool:
        """Return whether a request has been without a phase long enough; until then queue the pod again."""
        if not plan.stamp:
            self._unstamped_s.pop(pod_id, None)
            return False
        now_s = monotonic_s(self._clock)
        left_s = self._unstamped_s.setdefault(pod_id, now_s) + self._options.stamp_after_s - now_s
        if left_s > 0:
            self._queue.add_after(pod_id, left_s)
            return False
        del self._unstamped_s[pod_id]
        return True

    async def _reconcile_orphans(self, pod_id: str, requests: tuple[OwnedRequest, ...]) -> None:
        """Delete requests whose pod has been gone for the grace; until then queue the pod again."""
        if not requests:
            self._orphans.pop(pod_id, None)
            return
        now_s = monotonic_s(self._clock)
        waited_s = now_s - self._orphans.setdefault(pod_id, now_s)
        silent_s = self.caches.pods.age_s() or 0.0
        # The pod is older than its request, so a watch that was alive since must have shown it.
        if waited_s >= ORPHAN_GRACE_S and silent_s < waited_s:
            for request in requests:
                await self._writer.delete(request)
            del self._orphans[pod_id]
        else:
            self._queue.add_after(pod_id, ORPHAN_GRACE_S)

    def _report_inexact(self, pod: PodView) -> None:
        for reason in pod.inexact:
            self._metrics.counter(
                "bigfleet_unschedulable_pod_controller_inexact_total", reason=reason.value
            ).inc()
        self._events.warn(pod)

    def _count(self, outcome: str) -> None:
        self._metrics.counter("bigfleet_unschedulable_pod_controller_reconciles_total", outcome=outcome).inc()
