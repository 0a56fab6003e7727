"""Looks every second for what is wrong, for the readiness detail and the metric.

Why: a probe and a scrape need an answer at once, and problems begin and end between two cycles.
Must never: cost anything noticeable while nothing is wrong: needs are looked at only where some may be short.
Rules: `shard#problems-in-one-look`, `shard#readiness`.
"""

import asyncio
from collections import Counter
from typing import Final, NoReturn

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.problems import Problem, ProblemKind, problems_of
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import CycleView, ShardViews
from bigfleet.shard.read.coverage_reader import CoverageReader

EVERY_S: Final = 1.0


class ProblemWatch:
    """The problems of a shard as of the last look."""

    def __init__(
        self,
        views: ShardViews,
        coverage: CoverageReader,
        sources: StatusSources,
        *,
        clock: Clock,
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._views, self._coverage, self._sources = views, coverage, sources
        self._clock, self._metrics, self._log = clock, metrics, log
        self._seen: tuple[Problem, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """The sentences of the last look, worst first."""
        return tuple(item.text for item in self._seen)

    async def now(self) -> tuple[Problem, ...]:
        """Everything that is wrong at this moment."""
        view = self._views.last_cycle()
        coverage = await self._coverage.now(view) if view is not None and _may_be_short(view) else None
        return await asyncio.to_thread(problems_of, self._views.status(), view, coverage, self._sources)

    async def follow(self) -> NoReturn:
        """Look again and again, until cancelled."""
        while True:
            try:
                self._show(await self.now())
            except Exception:
                # Readers lose one look; the shard must keep serving.
                self._log.exception("problem_watch_failed")
            await self._clock.sleep(EVERY_S)

    def _show(self, found: tuple[Problem, ...]) -> None:
        self._seen = found
        counts: Counter[ProblemKind] = Counter()
        for item in found:
            counts[item.kind] += item.count
        for kind in ProblemKind:
            self._metrics.gauge("bigfleet_shard_problems", kind=kind.value).set(counts[kind])


def _may_be_short(view: CycleView) -> bool:
    return bool(view.decision.unresolved or view.held_off or view.waiting_since_s)
