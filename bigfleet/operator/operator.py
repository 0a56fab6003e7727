"""All parts of one operator, put together and run.

Why: one place orders the start: caches, then drains of an earlier process, then the session.
Must never: dial before the caches are complete, or leave a task behind.
Rules: operator 3.1, 7.5, 8 (readiness).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Net
from bigfleet.aio.rng import Rng
from bigfleet.kube.client import KubeClient
from bigfleet.kube.events import EventRecorder
from bigfleet.kube.reflector import ReflectorPolicy
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.available import AvailableCapacities
from bigfleet.operator.caches import Caches
from bigfleet.operator.cordons import Cordons
from bigfleet.operator.core.bootstrap import Renderer
from bigfleet.operator.core.views import NodeView
from bigfleet.operator.demand import Demand
from bigfleet.operator.dispatch import Dispatch
from bigfleet.operator.drains import Drain, Drains
from bigfleet.operator.items import DrainEndedItem
from bigfleet.operator.landing import Landing
from bigfleet.operator.node_refs import NodeRefs
from bigfleet.operator.node_states import NodeStates
from bigfleet.operator.notes import Notes
from bigfleet.operator.options import READY_WITHOUT_SESSION_S, OperatorOptions
from bigfleet.operator.reclaims import Reclaims, remaining_s
from bigfleet.operator.reconnect import keep_sessions
from bigfleet.operator.session import Session, SessionState
from bigfleet.operator.upcoming_writes import UpcomingWrites

_COMPONENT: Final = "bigfleet-operator"
_AGES_S: Final = 5.0


class Operator:
    """One cluster's operator."""

    def __init__(
        self,
        options: OperatorOptions,
        client: KubeClient,
        net: Net,
        renderer: Renderer,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics,
        host: str = "",
        reflector_policy: ReflectorPolicy | None = None,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._options, self._client, self._clock, self._rng = options, client, clock, rng
        self._net, self._renderer, self._on_synced = net, renderer, on_synced
        self._metrics = metrics
        self._log = structlog.get_logger("bigfleet.operator")
        self.caches = caches = Caches(client, clock, rng, reflector_policy)
        self.state = SessionState(clock, metrics)
        landing = Landing(clock, rng.stream("writes"))
        self._events = EventRecorder(client, _COMPONENT, clock=clock, host=host)
        notes, cordons = Notes(self._events), Cordons(client, caches, metrics)
        writes = UpcomingWrites(client, caches, clock, metrics)
        self.drains = Drains(client, clock=clock, metrics=metrics, on_ended=self._drain_ended)
        reclaims = Reclaims(
            caches,
            cordons,
            writes,
            self.drains,
            notes,
            clock=clock,
            metrics=metrics,
            landing=landing,
        )
        states = NodeStates(
            caches, writes, cordons, self.drains, clock=clock, metrics=metrics, landing=landing
        )
        self._acknowledger = Acknowledger(
            client, caches, self._events, clock=clock, metrics=metrics, concurrency=options.ack_concurrency
        )
        self.demand = Demand(
            options.cluster,
            caches,
            self._acknowledger,
            clock=clock,
            metrics=metrics,
            interval_s=options.rollup_interval_s,
        )
        hints = AvailableCapacities(
            client,
            caches,
            self.demand,
            clock=clock,
            metrics=metrics,
            landing=landing,
            patience_s=options.sweep_patience_s,
        )
        self.dispatch = Dispatch(
            options,
            caches,
            states=states,
            reclaims=reclaims,
            cordons=cordons,
            writes=writes,
            drains=self.drains,
            notes=notes,
            hints=hints,
            clock=clock,
            landing=landing,
            metrics=metrics,
        )
        self._hints = hints

    async def run(self) -> NoReturn:
        """Work until cancelled; CacheSyncError when the cluster cannot be seen in time."""
        parts: dict[str, Coroutine[Any, Any, object]] = {
            "caches": self.caches.run(),
            "events": self._events.run(),
            "cache ages": self._show_ages(),
            "work": self._work(),
        }
        tasks = {asyncio.ensure_future(part): name for name, part in parts.items()}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda one: tasks[one]):
                await task
            raise AssertionError("a part of the operator ended without a word")
        finally:
            # The stream is closed and nothing new begins before what was sent is waited for.
            work = next(task for task, name in tasks.items() if name == "work")
            await _ended(work)
            await self.drains.close(self._options.shutdown_grace_s)
            await self.dispatch.close()
            for task in tasks:
                await _ended(task)

    async def _work(self) -> None:
        await self.caches.wait_synced(self._options.cache_sync_timeout_s)
        self._on_synced()
        self._log.info("caches_synced", requests=len(self.caches.requests), nodes=len(self.caches.nodes))
        self._resume_drains()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._acknowledger.run())
            group.create_task(NodeRefs(self.caches, self.dispatch.node_seen).run())
            group.create_task(self._hints.sweep())
            group.create_task(
                keep_sessions(
                    self._options,
                    self._session,
                    self.state,
                    clock=self._clock,
                    stream=self._rng.stream("reconnect"),
                    metrics=self._metrics,
                )
            )

    def _session(self) -> Session:
        return Session(
            self._options,
            self._net,
            work=self.dispatch,
            demand=self.demand,
            renderer=self._renderer,
            state=self.state,
            clock=self._clock,
            metrics=self._metrics,
        )

    def not_ready(self) -> list[str]:
        """Return why the process is not ready, one line each."""
        reasons = [f"cache of {kind} is not synchronised" for kind in self.caches.missing()]
        down_s = self.state.down_since_s
        recently = down_s is not None and monotonic_s(self._clock) - down_s < READY_WITHOUT_SESSION_S
        if not self.state.is_up and not recently:
            reasons.append(f"no session with the shard: {self.state.last_error}")
        return reasons

    # ---- drains

    def _resume_drains(self) -> None:
        """Go on where an earlier process stopped: what stands on a Node is an order, a cordon alone is none."""
        for node in sorted(self.caches.nodes.by_index("draining", "yes"), key=lambda view: view.name):
            left_s = remaining_s(node, self._clock)
            machine_id = self._machine_on(node)
            self._log.info("drain_resumed", node=node.name, machine=machine_id, left_s=left_s)
            deadline_s = monotonic_s(self._clock) + left_s
            self.drains.start(Drain(node.name, machine_id, node.reclaim_id, deadline_s, left_s))

    def _machine_on(self, node: NodeView) -> str:
        on_node = self.caches.upcoming_on(node.name)
        if len(on_node) == 1:
            return on_node[0].machine_id
        provided = [
            view for name in node.provider_ids() for view in self.caches.upcoming.by_index("provider", name)
        ]
        if not node.machine_id and len(provided) == 1:
            return provided[0].machine_id
        return node.machine_id or node.name

    def _drain_ended(self, drain: Drain, outcome: str, error: str) -> None:
        self._log.info("drain_ended", node=drain.node, machine=drain.machine_id, outcome=outcome, error=error)
        self.dispatch.lanes.file(drain.machine_id, DrainEndedItem(drain, error))

    async def _show_ages(self) -> NoReturn:
        while True:
            for kind, age_s in self.caches.ages():
                self._metrics.gauge("bigfleet_operator_cache_age_seconds", kind=kind).set(age_s)
            await self._clock.sleep(_AGES_S)


async def _ended(task: "asyncio.Future[object]") -> None:
    task.cancel()
    await asyncio.wait({task})
