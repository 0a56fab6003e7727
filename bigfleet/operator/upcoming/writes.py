"""Writes UpcomingNodes: create, patch of the spec, patch of the status, delete.

Why: every writer of the object (node states, reclaims, drains, node references) shares these rules and counters.
Must never: send a full update or a patch that changes nothing, or read a cache that is older than its own last write.
Rules: `operator#un-create`, `operator#un-spec`, `operator#un-merge-patch`, `operator#un-noop`,
`operator#un-start-time`, `operator#un-provider-id`, `operator#own-writes-seen`; ADR-0166.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from bigfleet.aio.clock import Clock
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from bigfleet.kube.merge_patch import difference, quantities_by_value
from bigfleet.kube.resources import UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import Document
from bigfleet.obs.metrics import Metrics, timed
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.names import upcoming_annotations, upcoming_name
from bigfleet.operator.core.upcoming import Keep
from bigfleet.operator.core.views import UpcomingNodeView, upcoming_node_view
from bigfleet.operator.unconfirmed_writes import UnconfirmedWrites

R = TypeVar("R")

_BY_VALUE: Final = quantities_by_value(("spec", "resources"))


_MOST_DELETED: Final = 1_000


class UpcomingNodeWriter:
    """The only writer of the UpcomingNodes of the cluster."""

    def __init__(self, client: KubeClient, caches: OperatorCaches, clock: Clock, metrics: Metrics) -> None:
        self._client, self._caches, self._clock, self._metrics = client, caches, clock, metrics
        self._unconfirmed = UnconfirmedWrites()
        self._deleted: dict[str, str] = {}  # name to uid, while the cache may still show the object

    async def current(self, machine_id: str) -> UpcomingNodeView | None:
        """Return the object of a machine from the cache, or from the API server where the cache may lag."""
        name = upcoming_name(machine_id)
        if name in self._unconfirmed:
            return await self._read(ObjectKey("", name))
        cached = self._caches.upcoming_of(machine_id)
        return None if cached is not None and self._deleted.get(name) == cached.uid else cached

    async def keep(self, machine_id: str, wanted: Keep, stored: UpcomingNodeView | None) -> None:
        """Create or patch the object; ConflictError when it has changed since it was read."""
        if stored is None:
            stored = await self._create(machine_id, wanted)
        spec = difference({"spec": stored.spec}, {"spec": wanted.spec}, _BY_VALUE)
        if spec:
            stored = await self._patch("spec_update", stored, spec)
        await self.set_status(stored, wanted.status)

    async def set_status(self, stored: UpcomingNodeView, status: dict[str, Any]) -> None:
        """Patch the status; nothing is sent if it is the same already."""
        patch = difference({"status": stored.status}, {"status": status})
        if not patch:
            self._metrics.counter(
                "bigfleet_operator_upcoming_node_writes_total", op="status_update", outcome="noop"
            ).inc()
            return
        await self._patch("status_update", stored, patch, subresource="status")

    async def remove(self, name: str, uid: str) -> None:
        """Delete the object of this uid; one that is gone already is fine."""
        key = ObjectKey("", name)

        async def delete() -> None:
            try:
                await self._client.delete(UPCOMING_NODES, key, uid=uid)
            except NotFoundError:
                pass
            except ConflictError:
                # Another object has the name: read it, so that the caller decides on the current one.
                await self._read(key)
                raise

        await self._counted("delete", name, delete)
        if len(self._deleted) >= _MOST_DELETED:
            shown = self._caches.upcoming
            self._deleted = {gone: its for gone, its in self._deleted.items() if ObjectKey("", gone) in shown}
        self._deleted[name] = uid

    async def _create(self, machine_id: str, wanted: Keep) -> UpcomingNodeView:
        metadata: Document = {"name": upcoming_name(machine_id)}
        if annotations := upcoming_annotations(machine_id):
            metadata["annotations"] = annotations
        document: Document = {"metadata": metadata, "spec": wanted.spec}
        try:
            made = await self._counted(
                "create", metadata["name"], lambda: self._client.create(UPCOMING_NODES, document)
            )
        except AlreadyExistsError:
            # The cache lags, or a person created the object: go on as an update.
            found = await self._read(ObjectKey("", metadata["name"]))
            if found is None:
                raise
            return found
        return self._observed(made)

    async def _patch(
        self, op: str, stored: UpcomingNodeView, patch: Document, subresource: str = ""
    ) -> UpcomingNodeView:
        key = ObjectKey("", stored.name)
        answer = await self._counted(
            op,
            stored.name,
            lambda: self._client.merge_patch(UPCOMING_NODES, key, patch, subresource=subresource),
        )
        return self._observed(answer)

    async def _read(self, key: ObjectKey) -> UpcomingNodeView | None:
        with self._unconfirmed.track(key.name):
            try:
                document = await self._client.get(UPCOMING_NODES, key)
            except NotFoundError:
                return None
        return self._observed(document)

    def _observed(self, document: Document) -> UpcomingNodeView:
        self._caches.upcoming.observe(document)
        return upcoming_node_view(document)

    async def _counted(self, op: str, name: str, call: Callable[[], Awaitable[R]]) -> R:
        outcome = "error"
        try:
            with (
                self._unconfirmed.track(name),
                timed(
                    self._clock,
                    self._metrics.histogram("bigfleet_operator_upcoming_node_op_duration_seconds", op=op),
                ),
            ):
                answer = await call()
            outcome = "success"
        except ConflictError:
            outcome = "conflict"
            raise
        finally:
            self._metrics.counter(
                "bigfleet_operator_upcoming_node_writes_total", op=op, outcome=outcome
            ).inc()
        return answer
