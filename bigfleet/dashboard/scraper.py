"""Scrapes the metrics of shards and coordinators every ten seconds into the hour in memory.

Why: without a Prometheus the dashboard still wants rates and trends; the few series it reads fit into a few megabytes.
Must never: parse what no page reads (a shard exports thousands of lines), wait long for a silent endpoint, or stop
because one endpoint answers nonsense.
Rules: `dashboard#sources`, `dashboard#metrics-contract`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.aio.clock import Clock
from bigfleet.dashboard import metrics as names
from bigfleet.dashboard.core.series import MetricSample, SeriesStore

EVERY_S: Final = 10.0
_KEPT_S: Final = 3_600.0
READ: Final = (
    names.CYCLE,
    names.PHASE,
    names.INVENTORY,
    names.SHORTFALLS,
    names.SESSIONS,
    names.ACTIONS,
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
        self, store: SeriesStore, clock: Clock, endpoints: Callable[[], Sequence[ScrapeTarget]]
    ) -> None:
        self._store, self._clock, self._endpoints = store, clock, endpoints
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
            text = await endpoint.fetch()
            samples = list(samples_of(text))
        except (OSError, TimeoutError, ValueError) as error:
            return str(error) or type(error).__name__
        self._store.record(endpoint.pod, self._clock.wall_ns() / 1e9, samples)
        return ""


def samples_of(text: bytes) -> Iterator[MetricSample]:
    """Return the samples that pages read; raises ValueError for text in another form."""
    wanted = [line for line in text.split(b"\n") if line.startswith(_PREFIXES) or _declares(line)]
    for family in text_string_to_metric_families(b"\n".join(wanted).decode() + "\n"):
        for sample in family.samples:
            yield MetricSample(sample.name, sample.labels, sample.value)


def _declares(line: bytes) -> bool:
    """Whether a line tells the type of a metric that is read; without it the parser takes a counter for a gauge."""
    return line.startswith(b"# TYPE ") and line[7:].startswith(_PREFIXES)
