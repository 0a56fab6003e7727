"""Scrapes the metrics of shards and coordinators every ten seconds into the hour in memory.

Why: without a Prometheus the dashboard still wants rates and trends; the few series it reads fit into a few megabytes.
Must never: parse what no page reads (a shard exports thousands of lines), hold the loop while it parses, wait long for a
silent endpoint, or stop because one endpoint answers nonsense.
Rules: `dashboard#sources`, `dashboard#scraper`, `dashboard#metrics-contract`; ADR-0246.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

import structlog
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.aio.clock import Clock
from bigfleet.dashboard import metric_reader as names
from bigfleet.dashboard.core.series import MetricSample, SeriesStore

EVERY_S: Final = 10.0
AT_ONCE: Final = 16
"""Endpoints read at once: their answers lie in memory together."""
MAX_LINES: Final = 20_000
"""Of one answer; a shard exports about a thousand of those that are read, and all shards together may fill 5,000 series."""
MAX_LINE_BYTES: Final = 4_096
"""A line holds one value; those that are read have three labels at most."""
_MAX_VALUE: Final = 2.0**53
"""Beyond it a count is not exact any more, and sums of such values would end as infinities on a page."""
_KEPT_S: Final = 3_600.0
READ: Final = (
    names.CYCLE,
    names.PHASE,
    names.INVENTORY,
    names.SHORTFALLS,
    names.SESSIONS,
    names.ACTIONS,
    names.OUTCOMES,
    names.PROPOSALS,
    names.DEMAND,
    names.TERM,
    names.APPLIED,
    names.PENDING,
)
_PREFIXES: Final = tuple(read.encode() for read in READ)

Fetch = Callable[[], Awaitable[bytes]]
"""Returns what an endpoint exports at present; raises `OSError` or `TimeoutError` when it cannot be asked."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """Where one process exports its metrics, and under which name it appears."""

    pod: str
    fetch: Fetch


class Scraper:
    """Records what every endpoint exports, round after round."""

    def __init__(
        self,
        store: SeriesStore,
        clock: Clock,
        endpoints: Callable[[], Sequence[ScrapeTarget]],
        refused: Callable[[str, int], object],
    ) -> None:
        self._store, self._clock, self._endpoints = store, clock, endpoints
        self._refused = refused
        self._places = asyncio.Semaphore(AT_ONCE)
        self._log = structlog.get_logger("bigfleet.dashboard")
        self.problems: Mapping[str, str] = {}
        """Why an endpoint could not be read in the last round, by pod."""

    async def run(self) -> None:
        """Scrape for ever."""
        while True:
            await self.once()
            await self._clock.sleep(EVERY_S)

    async def once(self) -> None:
        """Ask every endpoint once, side by side."""
        endpoints = self._endpoints()
        results = await asyncio.gather(*(self._scrape(endpoint) for endpoint in endpoints))
        self.problems = {end.pod: problem for end, problem in zip(endpoints, results, strict=True) if problem}
        self._store.forget(self._clock.wall_ns() / 1e9 - _KEPT_S)

    async def _scrape(self, endpoint: ScrapeTarget) -> str:
        try:
            async with self._places:
                text = await endpoint.fetch()
                lines, left_out = read_lines(text)
                # In a thread: thousands of lines would delay the pages.
                samples = await asyncio.to_thread(lambda: list(samples_of(lines)))
        except (OSError, TimeoutError, ValueError) as error:
            return str(error) or type(error).__name__
        for reason, times in left_out.items():
            self._refused(reason, times)
        self._store.record(endpoint.pod, self._clock.wall_ns() / 1e9, samples)
        return ""


def read_lines(text: bytes) -> tuple[list[bytes], Counter[str]]:
    """Return the lines that pages read, and how many of those were left out, by reason."""
    wanted = [line for line in text.split(b"\n") if line.startswith(_PREFIXES) or _declares(line)]
    short = [line for line in wanted if len(line) <= MAX_LINE_BYTES]
    left_out = Counter(long_line=len(wanted) - len(short), too_many=max(0, len(short) - MAX_LINES))
    return short[:MAX_LINES], +left_out


def samples_of(lines: Sequence[bytes]) -> Iterator[MetricSample]:
    """Return the samples of lines; raises ValueError for text in another form."""
    try:
        for family in text_string_to_metric_families(b"\n".join(lines).decode() + "\n"):
            for sample in family.samples:
                if abs(sample.value) <= _MAX_VALUE and _has_bound(sample.name, sample.labels):
                    yield MetricSample(sample.name, sample.labels, sample.value)
    except (LookupError, TypeError, AttributeError) as error:  # the parser trusts the form of a line
        raise ValueError("its metrics cannot be read") from error


def _has_bound(name: str, labels: Mapping[str, str]) -> bool:
    """Whether a bucket of a histogram says where it ends."""
    if not name.endswith("_bucket"):
        return True
    try:
        return not isnan(float(labels.get("le", "")))
    except ValueError:
        return False


def _declares(line: bytes) -> bool:
    """Whether a line tells the type of a metric that is read; without it the parser takes a counter for a gauge."""
    return line.startswith(b"# TYPE ") and line[7:].startswith(_PREFIXES)
