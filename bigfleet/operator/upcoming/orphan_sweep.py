"""Deletes the UpcomingNodes of machines that left while no session was up.

Why: a shard resends the machines that are bound and never names those that left, so their objects would stay for ever.
Must never: delete without the end marker what a person may have to look at, or many objects because of one session.
Rules: `operator#sweep-with-marker`, `shard#resync`; ADR-0074, ADR-0166.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from bigfleet.aio.clock import Clock
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.orphans import is_too_many, unnamed, without_marker
from bigfleet.operator.core.views import UpcomingNodeView


class OrphanSweep:
    """The sweep of one session: collects the machines it names, then deletes the objects of the others."""

    def __init__(
        self,
        caches: OperatorCaches,
        draining: Callable[[], set[str]],
        delete: Callable[[str, str], None],
        *,
        under_way: Iterable[str],
        clock: Clock,
        patience_s: float,
    ) -> None:
        self._caches, self._draining, self._delete = caches, draining, delete
        self._clock, self._patience_s = clock, patience_s
        self._since = {view.uid for view in caches.upcoming.snapshot().values()}
        # Machines with queued work of an earlier session: their objects may appear after the marker.
        self._under_way = frozenset(under_way)
        self._named: set[str] = set()
        self._resynced = asyncio.Event()
        self._log = structlog.get_logger("bigfleet.operator")

    def named(self, machine_id: str) -> None:
        """Record that a node state of this session names a machine."""
        self._named.add(machine_id)

    def marker(self) -> None:
        """Record that the shard has sent every node state (the `resync` ack)."""
        self._resynced.set()

    async def run(self, greeted: asyncio.Event) -> None:
        """Sweep once, after the marker or, if none comes, after the patience."""
        await greeted.wait()
        silence = asyncio.ensure_future(self._clock.sleep(self._patience_s))
        marker = asyncio.ensure_future(self._resynced.wait())
        try:
            await asyncio.wait({silence, marker}, return_when=asyncio.FIRST_COMPLETED)
            if marker.done():
                await self._after_marker()
            else:
                self._delete_all(without_marker(self._orphans(), self._node_exists), "silence")
        finally:
            for task in (silence, marker):
                task.cancel()
            await asyncio.wait({silence, marker})

    async def _after_marker(self) -> None:
        orphans, unwritten = self._orphans(), self._unwritten()
        if is_too_many(len(orphans) + len(unwritten), len(self._caches.upcoming)):
            self._log.warning(
                "orphans_held", orphans=len(orphans) + len(unwritten), total=len(self._caches.upcoming)
            )
        else:
            self._delete_all(orphans, "marker")
            self._delete_unwritten(unwritten)
        # Again for orphans that were held, and for machines whose drain this process had to finish first.
        await self._clock.sleep(self._patience_s)
        self._delete_all(self._orphans(), "marker")
        self._delete_unwritten(self._unwritten())

    def _orphans(self) -> list[UpcomingNodeView]:
        return unnamed(
            self._caches.upcoming.snapshot().values(),
            since=self._since,
            named=self._named,
            draining=self._draining(),
        )

    def _unwritten(self) -> list[str]:
        known = {
            view.machine_id for view in self._caches.upcoming.snapshot().values() if view.uid in self._since
        }
        return sorted(self._under_way - self._named - known - self._draining())

    def _delete_all(self, orphans: Iterable[UpcomingNodeView], why: str) -> None:
        for view in orphans:
            self._log.info("orphan_deleted", machine=view.machine_id, phase=view.phase, why=why)
            self._delete(view.machine_id, view.uid)

    def _delete_unwritten(self, machines: Iterable[str]) -> None:
        for machine_id in machines:
            self._delete(machine_id, "")

    def _node_exists(self, view: UpcomingNodeView) -> bool:
        return self._caches.named(str(view.node_ref.get("name") or "")) is not None
