"""Follows a shard from cycle to cycle: fills the logs for readers, and wakes readers that wait for a new cycle.

Why: readers want trends and timelines, which no single view holds.
Must never: delay a cycle. It works in a thread; a cycle that ends meanwhile and is not the last one is missing in the logs.
Rules: `dashboard#insight-service`.
"""

import asyncio
from typing import NoReturn

from structlog.typing import FilteringBoundLogger

from bigfleet.shard.core.read.cycle_log import CycleLog
from bigfleet.shard.core.read.decision_log import DecisionLog, DecisionQuery
from bigfleet.shard.core.read.transition_log import TransitionLog
from bigfleet.shard.core.views import CycleView, ShardViews


class CycleFollower:
    """The logs of one shard process, and the event that is set after each completed cycle."""

    def __init__(self, views: ShardViews, decisions: DecisionLog, *, log: FilteringBoundLogger) -> None:
        """The shard's audit fills `decisions`, see `bigfleet.shard.read.recording_audit`."""
        self._views, self._log = views, log
        self.decisions, self.cycles, self.transitions = decisions, CycleLog(), TransitionLog()
        self._logged: CycleView | None = None
        self._sequence = 0
        self._changed = asyncio.Event()

    async def follow(self) -> NoReturn:
        """Log every new view, until cancelled."""
        while True:
            view = await self._views.cycle_after(self._logged)
            try:
                await asyncio.to_thread(self._log_cycle, view)
            except Exception:
                # Readers lose a log line; the shard must keep serving.
                self._log.exception("watching_failed", cycle=view.number)
            self._logged = view
            done, self._changed = self._changed, asyncio.Event()
            done.set()

    async def after(self, number: int) -> CycleView:
        """Wait for a view with a different number."""
        while True:
            changed, view = self._changed, self._logged
            if view is not None and view.number != number:
                return view
            await changed.wait()

    def _log_cycle(self, view: CycleView) -> None:
        self.cycles.add(view)
        acted = {
            record.machine_id
            for record in self.decisions.newest_first(DecisionQuery(after_sequence=self._sequence))
        }
        acted |= {action.machine_id for action in view.facts.dispatched}
        self._sequence = self.decisions.last_sequence
        self.transitions.add(view, acted, self._views.take_changes(view.now))
