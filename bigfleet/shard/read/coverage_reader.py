"""Reads how far the machines of each need are at this moment, for every service that shows needs.

Why: which need holds which machine is computed once per cycle; the machines on which the shard acts are read again for
every question, since they move on between two cycles.
Must never: do the long part on the event loop, or keep a cycle alive.
Rules: `shard#coverage-split`, `dashboard#budgets`.
"""

import asyncio
from weakref import ref

from bigfleet.shard.core.coverage import Coverage, HeldMachines, LiveMachines
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import CycleView, ShardViews


class CoverageReader:
    """The coverage of the newest cycle that was asked for."""

    def __init__(self, views: ShardViews, sources: StatusSources | None = None) -> None:
        self._views, self._sources = views, sources or StatusSources()
        self._kept: tuple[ref[CycleView], HeldMachines] | None = None
        self._making = asyncio.Lock()

    async def now(self, view: CycleView) -> Coverage:
        """The coverage of the needs of a cycle at this moment."""
        held, sources = await self._held(view), self._sources
        acted_on = await asyncio.to_thread(held.acted_on, view, sources.is_pending)
        live = LiveMachines(await sources.live_states(acted_on), self._views.is_accepted)
        return await asyncio.to_thread(
            Coverage,
            view,
            held,
            live,
            now_s=sources.now(view.now),
            cycle_interval_s=sources.cycle_interval_s,
        )

    async def _held(self, view: CycleView) -> HeldMachines:
        async with self._making:  # a second reader waits and reuses it
            if self._kept is None or self._kept[0]() is not view:
                self._kept = (ref(view), await asyncio.to_thread(HeldMachines, view))
            return self._kept[1]
