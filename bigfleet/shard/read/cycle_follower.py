"""Follows the shard from cycle to cycle for those who read it, and tells them when there is something new.

Why: readers want trends and timelines, which no single view holds; and they want to be told rather than to ask.
Must never: hold up a cycle. It looks at the last view, compares and notes off the event loop, and a cycle that it misses
because it was slow is missing in the logs and nowhere else.
Rules: dashboard 8.
"""

import asyncio
from typing import Final, NoReturn

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.shard.core.read.cycle_log import CycleLog
from bigfleet.shard.core.read.decision_log import DecisionLog, DecisionQuery
from bigfleet.shard.core.read.transition_log import TransitionLog
from bigfleet.shard.core.views import CycleView, ShardViews

LOOK_S: Final = 0.25
"""How often to look for a new view; cycles are at least a second apart (decision S25)."""


class CycleFollower:
    """The logs of one shard process, and the bell that rings after each completed cycle."""

    def __init__(
        self, views: ShardViews, decisions: DecisionLog, *, clock: Clock, log: FilteringBoundLogger
    ) -> None:
        """`decisions` is filled by the shard's audit, see `bigfleet.shard.read.recording_audit`."""
        self._views, self._clock, self._log = views, clock, log
        self.decisions, self.cycles, self.transitions = decisions, CycleLog(), TransitionLog()
        self._noted: CycleView | None = None
        self._sequence = 0
        self._bell = asyncio.Event()

    async def follow(self) -> NoReturn:
        """Note every new view, until cancelled."""
        while True:
            view = self._views.last_cycle()
            if view is not None and view is not self._noted:
                try:
                    await asyncio.to_thread(self._note, view)
                except Exception:
                    # Readers lose a line of their logs; a shard that serves must not end for that.
                    self._log.exception("watching_failed", cycle=view.number)
                self._noted = view
                bell, self._bell = self._bell, asyncio.Event()
                bell.set()
            await self._clock.sleep(LOOK_S)

    async def after(self, number: int) -> CycleView:
        """Wait for a view with another number than this one."""
        while True:
            bell, view = self._bell, self._noted
            if view is not None and view.number != number:
                return view
            await bell.wait()

    def _note(self, view: CycleView) -> None:
        self.cycles.note(view)
        acted = {
            record.machine_id
            for record in self.decisions.newest_first(DecisionQuery(after_sequence=self._sequence))
        }
        acted |= {action.machine_id for action in view.facts.dispatched}
        self._sequence = self.decisions.last_sequence
        self.transitions.note(view, acted)
