"""UpcomingNodes of machines that left while nobody listened.

Why: a shard replays the machines that are bound, and never names those that went; without this their objects stay for ever.
Must never: delete on silence alone what a person may have to look at, or many at once on one session's word.
Rules: operator 6.5, decision S8, ADR-0074, ADR-0166.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from bigfleet.aio.clock import Clock
from bigfleet.operator.caches import Caches
from bigfleet.operator.core.orphans import is_too_many, unnamed, without_marker
from bigfleet.operator.core.views import UpcomingView


class Sweep:
    """What one session says about which machines there are."""

    def __init__(
        self,
        caches: Caches,
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
        # Of these an earlier session has said something that is not written yet: the object may appear after the marker.
        self._under_way = frozenset(under_way)
        self._named: set[str] = set()
        self._told_everything = asyncio.Event()
        self._log = structlog.get_logger("bigfleet.operator")

    def named(self, machine_id: str) -> None:
        """Note that a frame of this session spoke of a machine."""
        self._named.add(machine_id)

    def marker(self) -> None:
        """Note that the shard has told everything it knows."""
        self._told_everything.set()

    async def run(self, greeted: asyncio.Event) -> None:
        """Sweep once, after the marker or, where none comes, after long silence."""
        await greeted.wait()
        silence = asyncio.ensure_future(self._clock.sleep(self._patience_s))
        marker = asyncio.ensure_future(self._told_everything.wait())
        try:
            await asyncio.wait({silence, marker}, return_when=asyncio.FIRST_COMPLETED)
            if marker.done():
                await self._after_marker()
            else:
                self._go(without_marker(self._orphans(), self._node_exists), "silence")
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
            self._go(orphans, "marker")
            self._go_unwritten(unwritten)
        # Once more for those that were held, and for those whose drain an earlier process began and this one had to finish.
        await self._clock.sleep(self._patience_s)
        self._go(self._orphans(), "marker")
        self._go_unwritten(self._unwritten())

    def _orphans(self) -> list[UpcomingView]:
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

    def _go(self, orphans: Iterable[UpcomingView], why: str) -> None:
        for view in orphans:
            self._log.info("orphan_deleted", machine=view.machine_id, phase=view.phase, why=why)
            self._delete(view.machine_id, view.uid)

    def _go_unwritten(self, machines: Iterable[str]) -> None:
        for machine_id in machines:
            self._delete(machine_id, "")

    def _node_exists(self, view: UpcomingView) -> bool:
        return self._caches.named(str(view.node_ref.get("name") or "")) is not None
