"""Writes the hints of the shard as AvailableCapacities, and deletes those that are no longer asked for.

Why: the shard neither repeats nor withdraws a hint, so the newest one must be written, and age alone proves nothing.
Must never: write what is stored already, or delete an object whose profile is still part of the demand.
Rules: `operator#available-capacity`, `operator#hint-writes`; ADR-0166.
"""

from typing import Final, NoReturn

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from bigfleet.kube.merge_patch import difference, quantities_by_value
from bigfleet.kube.resources import AVAILABLE_CAPACITIES, ObjectKey
from bigfleet.kube.write_retry import WriteRetry
from bigfleet.model.frames import CapacityHint
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.hints import hint_spec
from bigfleet.operator.core.names import HINT_PREFIX, hint_name
from bigfleet.operator.core.views import CapacityView, capacity_view
from bigfleet.operator.rollup_loop import RollupLoop
from bigfleet.operator.task_queues import TaskQueues
from bigfleet.operator.unconfirmed_writes import UnconfirmedWrites

SWEEP_S: Final = 60.0
_BY_VALUE: Final = quantities_by_value(("spec", "resources"), ("spec", "cost"))


class AvailableCapacities:
    """Keeps the AvailableCapacities of the cluster."""

    def __init__(
        self,
        client: KubeClient,
        caches: OperatorCaches,
        rollups: RollupLoop,
        *,
        clock: Clock,
        retry: WriteRetry,
        metrics: Metrics,
        patience_s: float,
    ) -> None:
        self._client, self._caches, self._rollups = client, caches, rollups
        self._clock, self._retry, self._metrics, self._patience_s = clock, retry, metrics, patience_s
        self._received_s: dict[str, float] = {}
        self._began_s = monotonic_s(clock)
        self._unconfirmed = UnconfirmedWrites()
        self._log = structlog.get_logger("bigfleet.operator")

    def received(self, hint: CapacityHint) -> str:
        """Record that a hint came; return the name of its object."""
        name = hint_name(hint.key)
        self._received_s[name] = monotonic_s(self._clock)
        return name

    async def handle(self, name: str, hint: CapacityHint, queues: TaskQueues[CapacityHint]) -> None:
        """Write the object until it is written or a newer hint waits."""
        key, wanted = ObjectKey("", name), {"spec": hint_spec(hint)}
        missing = False

        async def attempt() -> None:
            nonlocal missing
            stored = None if missing else await self._current(key)
            if stored is None:
                missing = False
                try:
                    document = {"metadata": {"name": name}, **wanted}
                    with self._unconfirmed.track(name):
                        made = await self._client.create(AVAILABLE_CAPACITIES, document)
                    self._caches.capacities.observe(made)
                except AlreadyExistsError:
                    self._caches.capacities.observe(await self._client.get(AVAILABLE_CAPACITIES, key))
                    raise
                return
            patch = difference({"spec": stored.spec}, wanted, _BY_VALUE)
            if not patch:
                return
            try:
                with self._unconfirmed.track(name):
                    answer = await self._client.merge_patch(AVAILABLE_CAPACITIES, key, patch)
            except NotFoundError as gone:
                missing = True
                raise ConflictError(gone.call, "deleted meanwhile", status=gone.status) from gone
            self._caches.capacities.observe(answer)

        await self._retry.until_written(attempt, is_stale=lambda: queues.has_waiting(name, CapacityHint))

    async def _current(self, key: ObjectKey) -> CapacityView | None:
        """Return an object from the cache, or from the API server where the cache may lag."""
        if key.name in self._unconfirmed:
            with self._unconfirmed.track(key.name):
                try:
                    document = await self._client.get(AVAILABLE_CAPACITIES, key)
                except NotFoundError:
                    return None
            self._caches.capacities.observe(document)
        return self._caches.capacities.get(key)

    async def sweep(self) -> NoReturn:
        """Delete regularly what belongs to no profile of the demand and to no recent hint."""
        while True:
            await self._clock.sleep(min(SWEEP_S, self._patience_s))
            wanted = {hint_name(HINT_PREFIX + fingerprint) for fingerprint in self._rollups.fingerprints}
            now_s = monotonic_s(self._clock)
            for key, view in sorted(self._caches.capacities.snapshot().items()):
                received_s = self._received_s.get(key.name, self._began_s)
                if key.name in wanted or now_s - received_s < self._patience_s:
                    continue
                await self._delete(key, view.uid)

    async def _delete(self, key: ObjectKey, uid: str) -> None:
        try:
            # From the API server: the cache may not show a newer object of the same name yet.
            fresh = capacity_view(await self._client.get(AVAILABLE_CAPACITIES, key))
            if fresh.uid == uid:
                await self._client.delete(AVAILABLE_CAPACITIES, key, uid=uid)
                self._metrics.counter(
                    "bigfleet_operator_orphans_deleted_total", kind=AVAILABLE_CAPACITIES.kind
                ).inc()
        except NotFoundError:
            pass
        except KubeError as error:
            self._log.warning("sweep_failed", object=str(key), error=str(error))
            return
        self._received_s.pop(key.name, None)
