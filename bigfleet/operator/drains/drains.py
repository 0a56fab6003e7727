"""Drains: evict the pods of a node in rounds until none is left or the deadline has passed.

Why: a drain belongs to its node and deadline, not to the session that ordered it. It outlives the session and, through the
annotations of the Node, the process.
Must never: delete a pod, evict past the deadline, run twice for a node, or end without updating the UpcomingNode.
Rules: `operator#drain-rounds`, `operator#drain-resumed`; ADR-0009.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import ForbiddenError, KubeError
from bigfleet.kube.eviction import EvictionResult, EvictionVerdict, evict
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import PODS, ObjectKey
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.core.drain_plan import ROUND_S, DrainPlan, DrainPod, EvictionOutcome, drain_pod
from bigfleet.operator.options import EVICTIONS

_OUTCOMES: Final = {
    EvictionVerdict.ACCEPTED: EvictionOutcome.LEAVING,
    EvictionVerdict.GONE: EvictionOutcome.LEAVING,
    EvictionVerdict.REPLACED: EvictionOutcome.RETRY,
    EvictionVerdict.BUDGET: EvictionOutcome.RETRY,
    EvictionVerdict.TEMPORARY: EvictionOutcome.RETRY,
    EvictionVerdict.TERMINATING: EvictionOutcome.LEAVING,
    EvictionVerdict.SEVERAL_BUDGETS: EvictionOutcome.RETRY_RARELY,
    EvictionVerdict.FORBIDDEN: EvictionOutcome.FORBIDDEN,
}


class Drain:
    """The drain of one node."""

    def __init__(
        self, node: str, machine_id: str, instruction_id: str, deadline_s: float, grace_s: float
    ) -> None:
        self.node, self.machine_id, self.instruction_id = node, machine_id, instruction_id
        self.deadline_s = deadline_s
        self.plan = DrainPlan(node, grace_s)
        self.is_cancelled = False
        """Set when the machine serves again; the result of the drain is then ignored."""
        self.task: asyncio.Task[None] | None = None


Ended = Callable[[Drain, str, str], None]
"""Called with the outcome of a drain (drained, deadline or refused) and the error for the UpcomingNode."""


class Drains:
    """All drains of the process."""

    def __init__(self, client: KubeClient, *, clock: Clock, metrics: Metrics, on_ended: Ended) -> None:
        self._client, self._clock, self._metrics, self._on_ended = client, clock, metrics, on_ended
        self._drains: dict[str, Drain] = {}
        self._permits = asyncio.Semaphore(EVICTIONS)
        self._evicting: dict[asyncio.Task[EvictionResult], None] = {}
        self._stopping = False
        self._log = structlog.get_logger("bigfleet.operator")

    @property
    def machines(self) -> set[str]:
        """The machines whose nodes are being drained."""
        return {drain.machine_id for drain in self._drains.values()}

    def on(self, node: str) -> Drain | None:
        """Return the drain of a node."""
        return self._drains.get(node)

    def start(self, drain: Drain) -> None:
        """Start a drain; if the node has one already, that one gets the earlier of the two deadlines."""
        running = self._drains.get(drain.node)
        if running is not None:
            running.deadline_s = min(running.deadline_s, drain.deadline_s)
            return
        self._drains[drain.node] = drain
        drain.task = asyncio.get_running_loop().create_task(self._run(drain))
        drain.task.add_done_callback(self._log_defect)

    def cancel(self, machine_id: str, node: str) -> None:
        """Cancel the drain of a machine or node, because the machine serves again."""
        for drain in list(self._drains.values()):
            if node == drain.node or machine_id == drain.machine_id:
                drain.is_cancelled = True
                # Here too: a task that is cancelled before its first step never runs its own clean-up.
                del self._drains[drain.node]
                if drain.task is not None:
                    drain.task.cancel()

    async def close(self, grace_s: float) -> None:
        """Start no more evictions, wait for those under way, then stop; the Nodes say where the next process goes on."""
        self._stopping = True
        try:
            async with timeout(self._clock, grace_s):
                while self._evicting:
                    await asyncio.wait(list(self._evicting))
        except TimeoutError:
            pass
        tasks = [drain.task for drain in self._drains.values() if drain.task is not None]
        for task in (*tasks, *self._evicting):
            task.cancel()
        if tasks or self._evicting:
            await asyncio.wait([*tasks, *self._evicting])

    def _log_defect(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (defect := task.exception()) is not None:
            # The deadline stays on the Node, so the next process tries again.
            self._log.error("drain_defect", exc_info=defect)

    async def _run(self, drain: Drain) -> None:
        outcome, error = "drained", ""
        try:
            while True:
                if await self._round(drain):
                    break
                if drain.plan.refused:
                    outcome, error = "refused", drain.plan.failure(f"was refused ({drain.plan.refused})")
                    break
                if monotonic_s(self._clock) >= drain.deadline_s:
                    outcome, error = "deadline", drain.plan.failure("ran out of time")
                    break
                # Never longer than a round, so that a deadline moved forward meanwhile is noticed.
                left_s = drain.deadline_s - monotonic_s(self._clock)
                await self._clock.sleep(max(min(ROUND_S, left_s), 0.0))
        finally:
            if self._drains.get(drain.node) is drain:
                del self._drains[drain.node]
        if not drain.is_cancelled:
            self._metrics.counter("bigfleet_operator_drains_total", outcome=outcome).inc()
            self._on_ended(drain, outcome, error)

    async def _round(self, drain: Drain) -> bool:
        """List and evict once; return whether the node is empty."""
        selection = Selection(PODS, fields=f"spec.nodeName={drain.node}")
        try:
            documents = await self._client.list_all(selection, urgency=Urgency.NOW)
        except ForbiddenError as refused:
            drain.plan.skip_round()
            drain.plan.forbid(refused.message)
            return False
        except KubeError as error:
            self._log.warning("drain_list_failed", node=drain.node, error=str(error))
            return False
        asked = drain.plan.next_round([drain_pod(document) for document in documents])
        if drain.plan.is_empty:
            return True
        if not self._stopping and monotonic_s(self._clock) < drain.deadline_s:
            await asyncio.gather(*(self._evict(drain, pod) for pod in asked))
        return False

    async def _evict(self, drain: Drain, pod: DrainPod) -> None:
        async with self._permits:
            if self._stopping or drain.plan.refused:
                return
            call = evict(self._client, ObjectKey(pod.namespace, pod.name), pod.uid)
            task = asyncio.get_running_loop().create_task(call)
            self._evicting[task] = None
            task.add_done_callback(self._evicting.pop)
            # Shielded: an eviction that was sent finishes even if its drain is cancelled.
            result = await asyncio.shield(task)
        self._metrics.counter("bigfleet_operator_evictions_total", answer=result.label).inc()
        drain.plan.record(pod, _OUTCOMES[result.verdict], result.text)
        if result.verdict is not EvictionVerdict.ACCEPTED:
            self._log.info("eviction_refused", node=drain.node, pod=str(pod), answer=result.label)
