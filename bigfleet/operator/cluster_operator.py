"""The operator of one cluster: builds its parts and runs them.

Must never: dial before the caches are complete, or leave a task behind.
Rules: `operator#start-order`, `operator#drain-resumed`, `operator#operator-metrics`.
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
from bigfleet.kube.write_retry import WriteRetry
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.available_capacities import AvailableCapacities
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.bootstrap import Renderer
from bigfleet.operator.core.fragment_terms import FragmentRules
from bigfleet.operator.dispatch import TaskDispatcher
from bigfleet.operator.drains.cordons import Cordons
from bigfleet.operator.drains.drains import Drain, Drains
from bigfleet.operator.drains.reclaims import Reclaims
from bigfleet.operator.events import ReclaimEvents
from bigfleet.operator.fragments import FragmentsLoop
from bigfleet.operator.options import READY_WITHOUT_SESSION_S, OperatorOptions
from bigfleet.operator.refused_rollups import RefusedRollups
from bigfleet.operator.rollup_loop import RollupCadence, RollupLoop
from bigfleet.operator.session.reconnect import keep_sessions
from bigfleet.operator.session.session import SessionState, ShardSession
from bigfleet.operator.tasks import DrainEndedTask
from bigfleet.operator.upcoming.node_refs import NodeRefWatcher
from bigfleet.operator.upcoming.node_states import NodeStateHandler
from bigfleet.operator.upcoming.writes import UpcomingNodeWriter

_COMPONENT: Final = "bigfleet-operator"
_AGES_S: Final = 5.0


class ClusterOperator:
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
        self._options, self._clock, self._rng = options, clock, rng
        self._net, self._renderer, self._on_synced = net, renderer, on_synced
        self._log = structlog.get_logger("bigfleet.operator")
        self._metrics = metrics
        self.caches = caches = OperatorCaches(
            client, clock, rng, reflector_policy, watch_pods=options.watch_pods
        )
        self.state = SessionState(clock, metrics)
        self._recorder = EventRecorder(client, _COMPONENT, clock=clock, host=host)
        retry = WriteRetry(clock, rng.stream("writes"))
        cordons = Cordons(client, caches, metrics)
        writer = UpcomingNodeWriter(client, caches, clock, metrics)
        self.drains = Drains(client, clock=clock, metrics=metrics, on_ended=self._drain_ended)
        self._reclaims = Reclaims(
            caches,
            cordons,
            writer,
            self.drains,
            ReclaimEvents(self._recorder),
            clock=clock,
            metrics=metrics,
            retry=retry,
        )
        states = NodeStateHandler(
            caches, writer, cordons, self.drains, clock=clock, metrics=metrics, retry=retry
        )
        self._acknowledger = Acknowledger(
            client, caches, self._recorder, clock=clock, metrics=metrics, concurrency=options.ack_concurrency
        )
        self.rollups = RollupLoop(
            options.cluster,
            caches,
            self._acknowledger,
            RefusedRollups(self._recorder, self._acknowledger.mark, clock=clock, metrics=metrics),
            clock=clock,
            metrics=metrics,
            cadence=RollupCadence(
                options.rollup_interval_s, options.rollup_quiet_s, options.rollup_max_delay_s
            ),
        )
        self.fragments: FragmentsLoop | None = None
        if options.fragments and options.watch_pods:
            self.fragments = FragmentsLoop(
                FragmentRules(options.stuck_after_s, options.fragments_share),
                caches,
                self.rollups,
                is_connected=lambda: self.state.is_up,
                clock=clock,
                metrics=metrics,
            )
        self._hints = AvailableCapacities(
            client,
            caches,
            self.rollups,
            clock=clock,
            metrics=metrics,
            retry=retry,
            patience_s=options.sweep_patience_s,
        )
        self.dispatch = TaskDispatcher(
            options,
            caches,
            states=states,
            reclaims=self._reclaims,
            drains=self.drains,
            hints=self._hints,
            clock=clock,
            metrics=metrics,
        )

    async def run(self) -> NoReturn:
        """Work until cancelled; CacheSyncError when the first lists do not complete in time."""
        parts: dict[str, Coroutine[Any, Any, object]] = {
            "caches": self.caches.run(),
            "events": self._recorder.run(),
            "cache ages": self._show_ages(),
            "work": self._work(),
        }
        tasks = {asyncio.ensure_future(part): name for name, part in parts.items()}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda one: tasks[one]):
                await task
            raise AssertionError("a part of the operator ended without an error")
        finally:
            # The stream is closed and nothing new begins before the evictions under way are waited for.
            work = next(task for task, name in tasks.items() if name == "work")
            await _ended(work)
            await self.drains.close(self._options.shutdown_grace_s)
            await self.dispatch.close()
            for task in tasks:
                await _ended(task)

    async def _work(self) -> None:
        await self.caches.wait_synced(self._options.cache_sync_timeout_s)
        if not await self.caches.wait_for_pods(self._options.pod_patience_s):
            self._log.warning(
                "pods_not_listed",
                why="the role may lack watch on pods; demand is sent without what pods tell",
            )
        self._on_synced()
        self._log.info("caches_synced", requests=len(self.caches.requests), nodes=len(self.caches.nodes))
        self._reclaims.resume_drains()
        if self.fragments is not None:
            await self.fragments.begin()
        async with asyncio.TaskGroup() as group:
            if self.fragments is not None:
                group.create_task(self.fragments.run())
            group.create_task(self._acknowledger.run())
            group.create_task(self.rollups.follow())
            group.create_task(NodeRefWatcher(self.caches, self.dispatch.node_seen).run())
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

    def _session(self) -> ShardSession:
        return ShardSession(
            self._options,
            self._net,
            dispatch=self.dispatch,
            rollups=self.rollups,
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

    def _drain_ended(self, drain: Drain, outcome: str, error: str) -> None:
        self._log.info("drain_ended", node=drain.node, machine=drain.machine_id, outcome=outcome, error=error)
        self.dispatch.queues.put(drain.machine_id, DrainEndedTask(drain, error))

    async def _show_ages(self) -> NoReturn:
        while True:
            for kind, age_s in self.caches.ages():
                self._metrics.gauge("bigfleet_operator_cache_age_seconds", kind=kind).set(age_s)
            await self._clock.sleep(_AGES_S)


async def _ended(task: "asyncio.Future[object]") -> None:
    task.cancel()
    await asyncio.wait({task})
