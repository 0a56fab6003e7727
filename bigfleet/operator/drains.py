"""Emptying nodes: evictions in rounds until nobody is left or the time is up.

Why: a drain belongs to its node and its deadline, not to the session that ordered it; it outlives the session, and, by what
stands on the Node, the process.
Must never: delete a pod, evict past the deadline, run twice for a node, or end without a word on the UpcomingNode.
Rules: operator 7.4 and 7.5, ADR-0009.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import ForbiddenError, KubeError
from bigfleet.kube.eviction import EvictionAnswer, Verdict, evict
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import PODS, ObjectKey
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.core.drain_plan import ROUND_S, DrainPlan, PodView, Word, pod_view
from bigfleet.operator.options import EVICTIONS

_WORDS: Final = {
    Verdict.ACCEPTED: Word.AGREED,
    Verdict.GONE: Word.AGREED,
    Verdict.REPLACED: Word.LATER,
    Verdict.BUDGET: Word.LATER,
    Verdict.PASSING: Word.LATER,
    Verdict.TERMINATING: Word.AGREED,
    Verdict.SEVERAL_BUDGETS: Word.HOPELESS,
    Verdict.FORBIDDEN: Word.FORBIDDEN,
}


class Drain:
    """One node being emptied."""

    def __init__(
        self, node: str, machine_id: str, instruction_id: str, deadline_s: float, grace_s: float
    ) -> None:
        self.node, self.machine_id, self.instruction_id = node, machine_id, instruction_id
        self.deadline_s = deadline_s
        self.plan = DrainPlan(node, grace_s)
        self.is_overtaken = False
        """Set when the machine began a new life; what the drain still has to say is of no interest then."""
        self.task: asyncio.Task[None] | None = None


Ended = Callable[[Drain, str, str], None]
"""Told how a drain ended: drained, deadline or refused, and the sentence for the object."""


class Drains:
    """All drains of the process."""

    def __init__(self, client: KubeClient, *, clock: Clock, metrics: Metrics, on_ended: Ended) -> None:
        self._client, self._clock, self._metrics, self._on_ended = client, clock, metrics, on_ended
        self._drains: dict[str, Drain] = {}
        self._permits = asyncio.Semaphore(EVICTIONS)
        self._evicting: dict[asyncio.Task[EvictionAnswer], None] = {}
        self._stopping = False
        self._log = structlog.get_logger("bigfleet.operator")

    @property
    def machines(self) -> set[str]:
        """The machines whose nodes are being emptied."""
        return {drain.machine_id for drain in self._drains.values()}

    def on(self, node: str) -> Drain | None:
        """Return the drain of a node."""
        return self._drains.get(node)

    def start(self, drain: Drain) -> None:
        """Begin; a node that is being emptied already keeps its drain, which may only get less time."""
        running = self._drains.get(drain.node)
        if running is not None:
            running.deadline_s = min(running.deadline_s, drain.deadline_s)
            return
        self._drains[drain.node] = drain
        drain.task = asyncio.get_running_loop().create_task(self._run(drain))
        drain.task.add_done_callback(self._look_for_defects)

    def end(self, machine_id: str, node: str) -> None:
        """Stop the drain of a machine or node, since the machine began a new life."""
        for drain in list(self._drains.values()):
            if node == drain.node or machine_id == drain.machine_id:
                drain.is_overtaken = True
                # Here and not only at the task's end: a task that is cancelled before its first step has none.
                del self._drains[drain.node]
                if drain.task is not None:
                    drain.task.cancel()

    async def close(self, grace_s: float) -> None:
        """Begin no more evictions, let those under way finish in time, then stop; the Nodes say where to go on."""
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

    def _look_for_defects(self, task: "asyncio.Task[None]") -> None:
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
                # A deadline that was tightened meanwhile must not be slept through, so the wait is never longer than a round.
                left_s = drain.deadline_s - monotonic_s(self._clock)
                await self._clock.sleep(max(min(ROUND_S, left_s), 0.0))
        finally:
            if self._drains.get(drain.node) is drain:
                del self._drains[drain.node]
        if not drain.is_overtaken:
            self._metrics.counter("bigfleet_operator_drains_total", outcome=outcome).inc()
            self._on_ended(drain, outcome, error)

    async def _round(self, drain: Drain) -> bool:
        """List and evict once; tell whether the node is empty."""
        selection = Selection(PODS, fields=f"spec.nodeName={drain.node}")
        try:
            documents = await self._client.list_all(selection, urgency=Urgency.NOW)
        except ForbiddenError as refused:
            drain.plan.pass_round()
            drain.plan.forbid(refused.message)
            return False
        except KubeError as error:
            self._log.warning("drain_list_failed", node=drain.node, error=str(error))
            return False
        asked = drain.plan.next_round([pod_view(document) for document in documents])
        if drain.plan.is_empty:
            return True
        if not self._stopping and monotonic_s(self._clock) < drain.deadline_s:
            await asyncio.gather(*(self._evict(drain, pod) for pod in asked))
        return False

    async def _evict(self, drain: Drain, pod: PodView) -> None:
        async with self._permits:
            if self._stopping or drain.plan.refused:
                return
            call = evict(self._client, ObjectKey(pod.namespace, pod.name), pod.uid)
            task = asyncio.get_running_loop().create_task(call)
            self._evicting[task] = None
            task.add_done_callback(self._evicting.pop)
            # Shielded: an eviction that has been sent is let finish, whatever becomes of its drain.
            answer = await asyncio.shield(task)
        self._metrics.counter("bigfleet_operator_evictions_total", answer=answer.label).inc()
        drain.plan.note(pod, _WORDS[answer.verdict], answer.text)
        if answer.verdict is not Verdict.ACCEPTED:
            self._log.info("eviction_refused", node=drain.node, pod=str(pod), answer=answer.label)
