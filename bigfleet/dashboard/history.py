"""Records what the watcher sees, and answers pages about a range of time.

Why: a question on call is "since when". The file may be away, full or damaged; then charts continue with what this process has
seen within the last hour, and the page says what is wrong.
Must never: hold the event loop while the disk works, let two threads use the file, end the dashboard for a fault of the disk, or
keep more than an hour in memory.
Rules: `dashboard#history`, `dashboard#history-trouble`. ADR-0295.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.disk import DiskError
from bigfleet.dashboard import metric_reader as names
from bigfleet.dashboard.core.history_sample import (
    Figures,
    HistorySample,
    cluster_text,
    fleet_text,
    sample_from,
    sample_of,
)
from bigfleet.dashboard.core.history_steps import (
    FINE,
    MAX_LINES,
    HistoryLines,
    HistoryStep,
    lines_of,
    rolled_up,
    times_of,
)
from bigfleet.dashboard.core.observed import FleetPicture
from bigfleet.dashboard.history_store import HistoryError, HistoryProblem, HistoryStore
from bigfleet.dashboard.metric_reader import MetricReader
from bigfleet.dashboard.sources import SourceError

_RECENT: Final = 360
_AGAIN_S: Final = 60.0
"""So often a file that cannot be used is tried again."""
_MINUTE_S: Final = 60.0
MAX_ASKED: Final = 12
"""Families in one question."""
_LINES: Final = 40
"""Lines in one answer, so that it stays under a megabyte."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """What is known of a range: the times of the points, and the lines of each family that was asked for."""

    step: HistoryStep
    times: Sequence[int]
    lines: Sequence[HistoryLines]


@dataclass(frozen=True, slots=True)
class HistoryTrouble:
    """What is wrong with the file, in words for a page."""

    problem: HistoryProblem
    text: str
    lasting: bool = True
    """Whether samples are lost now; a damaged file that was set aside is only told."""


def _nothing(*_given: object) -> None:
    return None


class History:
    """The history of one dashboard."""

    def __init__(self, store: HistoryStore, clock: Clock, metrics: MetricReader | None) -> None:
        self._store, self._clock, self._metrics = store, clock, metrics
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._picture: FleetPicture | None = None
        self._recent: deque[tuple[int, int, str, str]] = deque(maxlen=_RECENT)
        self._slot, self._again_s = 0, 0.0
        self._log = structlog.get_logger("bigfleet.dashboard")
        self.trouble: HistoryTrouble | None = None
        self.on_sample: Callable[[bool], object] = _nothing
        """Called after each sample, with whether it was kept in the file."""
        self.on_trouble: Callable[[HistoryTrouble | None], object] = _nothing
        """Called when something is wrong with the file, and with None when that is over."""

    @property
    def path(self) -> str:
        """Where the file is; empty when samples are in memory alone."""
        return self._store.path

    def note(self, picture: FleetPicture) -> None:
        """Take a picture; it is recorded if it is the first of its step."""
        self._picture = picture
        self._news.set()

    async def run(self) -> None:
        """Record until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                if self._picture is not None:
                    await self.record(self._picture)
        finally:
            await self._in_turn(self._store.close)

    async def record(self, picture: FleetPicture) -> None:
        """Record a picture, unless one of its step has been recorded."""
        at = FINE.begin(picture.at)
        if at == self._slot:
            return
        sample = sample_of(picture, at, await self._measured())
        if sample is None:
            return
        self._slot = at
        self.on_sample(await self._in_turn(lambda: self._keep(sample)))

    def _keep(self, sample: HistorySample) -> bool:
        """Write a sample; runs in a thread."""
        self._recent.append((sample.at, sample.samples, fleet_text(sample), cluster_text(sample)))
        now_s = monotonic_s(self._clock)
        if self.trouble is not None and self.trouble.lasting and now_s < self._again_s:
            return False
        try:
            self._store.append(sample)
        except HistoryError as error:
            self._again_s = now_s + _AGAIN_S
            if error.problem is not HistoryProblem.DAMAGED:
                self._complain(HistoryTrouble(error.problem, error.text))
                return False
            return self._start_again(sample, error)
        if self.trouble is not None and self.trouble.lasting:
            self._complain(None)
        return True

    def _start_again(self, sample: HistorySample, damage: HistoryError) -> bool:
        """Set the damaged file aside and begin a new one."""
        try:
            aside = self._store.set_aside()
            self._store.append(sample)
        except (HistoryError, DiskError) as error:
            self._complain(HistoryTrouble(HistoryProblem.DAMAGED, f"{damage.text}; {error}"))
            return False
        text = f"older history could not be read and was set aside as {aside}"
        self._complain(HistoryTrouble(HistoryProblem.DAMAGED, text, lasting=False))
        return True

    def _complain(self, trouble: HistoryTrouble | None) -> None:
        if trouble == self.trouble:
            return
        self.trouble = trouble
        if trouble is None:
            self._log.info("history_kept_again", path=self.path)
        else:
            self._log.warning("history_problem", problem=trouble.problem.value, text=trouble.text)
        self.on_trouble(trouble)

    async def lines(
        self,
        range_name: str,
        asked: Sequence[tuple[str, str | None]],
        *,
        now: float,
        step: HistoryStep | None = None,
    ) -> HistoryAnswer:
        """Return the lines of families, each of the fleet or of a cluster, over a range that ends now."""
        wanted, times = times_of(range_name, now, step)
        if not asked:
            return HistoryAnswer(wanted, times, ())
        return await self._in_turn(lambda: self._lines(wanted, times, asked[:MAX_ASKED]))

    def _lines(
        self, step: HistoryStep, times: Sequence[int], asked: Sequence[tuple[str, str | None]]
    ) -> HistoryAnswer:
        first, last = times[0], times[-1] + step.seconds - 1
        samples = {
            cluster: self._samples(step, first, last, cluster)
            for cluster in dict.fromkeys(cluster for _, cluster in asked)
        }
        most = max(2, min(MAX_LINES, _LINES // max(len(asked), 1)))
        lines = [
            lines_of(family, samples[cluster], step, times, cluster=cluster, most=most)
            for family, cluster in asked
        ]
        return HistoryAnswer(step, times, lines)

    def _samples(self, step: HistoryStep, first: int, last: int, cluster: str | None) -> list[HistorySample]:
        """Samples of the fleet or of a cluster from the file, completed by what this process has in memory where the file has none."""
        kept: list[HistorySample] = []
        try:
            kept = self._store.read(step, first, last, fleet=cluster is None, cluster=cluster)
        except HistoryError as error:
            if self.trouble is None:
                # The next sample repairs it, or says more.
                self._log.warning("history_unreadable", problem=error.problem.value, text=error.text)
        newest = kept[-1].at if kept else first - 1
        fine = [
            sample_from(
                at,
                number,
                fleet if cluster is None else None,
                None if cluster is None else rows,
                only=cluster,
            )
            for at, number, fleet, rows in self._recent
            if first <= at <= last and step.begin(at) > newest
        ]
        return kept + (fine if step is FINE else rolled_up(step, fine))

    async def _measured(self) -> Mapping[str, Figures]:
        """The families that come from metrics; those of a source that does not answer are unknown."""
        if self._metrics is None:
            return {}
        found: dict[str, Figures] = {}
        try:
            for family, name, label in (
                ("actions", names.ACTIONS, "kind"),
                ("outcomes", names.OUTCOMES, "outcome"),
            ):
                rates = await self._metrics.rates(name, (label,), names.RATE_WINDOW_S)
                if rates:
                    found[family] = {labels[0]: rate * _MINUTE_S for labels, rate in rates.items()}
            p99 = await self._metrics.quantiles(names.CYCLE, ("pod",), 0.99)
            p50 = await self._metrics.quantiles(names.CYCLE, ("pod",), 0.5)
            if p99 and p50:
                found["cycles"] = {"p50": max(p50.values()), "p99": max(p99.values())}
        except SourceError:
            return found
        return found

    async def _in_turn(self, work: Callable[[], T]) -> T:
        """Work with the file in a thread, after all others that asked before."""

        async def alone() -> T:
            async with self._turn:
                return await asyncio.to_thread(work)

        # Who asked may be cancelled; the thread cannot be, and until it ends no other may begin.
        return await asyncio.shield(asyncio.ensure_future(alone()))
