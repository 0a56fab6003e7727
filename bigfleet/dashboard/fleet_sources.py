"""All sources that a route or page may read, in one value.

Must never: offer a way to change anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bigfleet.dashboard.answer_cache import AnswerCache
from bigfleet.dashboard.core.fleet_events import FleetEvents
from bigfleet.dashboard.core.observed import FleetPicture
from bigfleet.dashboard.history import History
from bigfleet.dashboard.metric_reader import CurrentValue, MetricReader
from bigfleet.dashboard.shard_reader import ShardReader
from bigfleet.dashboard.sources import SourceError, SourceProblem, not_wired
from bigfleet.dashboard.watcher import Watcher


class ClusterReader(Protocol):
    """Reads the custom resources of clusters through their API servers."""

    async def clusters(self) -> list[Mapping[str, Any]]:
        """Rows of `/clusters`, one per cluster, errors inline."""

    async def cluster(self, cluster: str) -> Mapping[str, Any]:
        """The row of `/clusters/{id}`; raises `SourceError`."""

    async def available_capacity(self) -> list[Mapping[str, Any]]:
        """Rows of `/available-capacity`."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Which sources are configured, and what the pages link to."""

    grafana_url: str = ""
    metrics: bool = False
    coordinator: bool = False
    clusters: bool = False
    version: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """How each source is configured, for the About page."""


@dataclass(frozen=True, slots=True)
class FleetSources:
    """The sources behind the pages."""

    wiring: Wiring
    now: CurrentValue
    watcher: Watcher
    answers: AnswerCache
    history: History
    metrics: MetricReader | None = None
    clusters: ClusterReader | None = None
    scrape_problems: Callable[[], Mapping[str, str]] = dict
    """Why the last scrape of a metrics endpoint failed, by pod."""

    @property
    def picture(self) -> FleetPicture:
        """The newest picture of the fleet."""
        return self.watcher.picture

    @property
    def events(self) -> FleetEvents:
        """Recent events."""
        return self.watcher.events

    def metric_reader(self) -> MetricReader:
        """Return the metrics; raises `SourceError` without a source."""
        if self.metrics is None:
            raise not_wired("a source of metrics", "--scrape URL or --prometheus-url URL")
        return self.metrics

    def cluster_reader(self) -> ClusterReader:
        """Return the reader of clusters; raises `SourceError` without one."""
        if self.clusters is None:
            raise not_wired("access to clusters", "--kubeconfig FILE")
        return self.clusters

    def shard(self, shard_id: str) -> ShardReader:
        """Return the reader of a shard; raises `SourceError` without one."""
        reader = self.watcher.reader(shard_id)
        if reader is not None:
            return reader
        if not self.picture.shards_wired:
            raise not_wired("a shard", "--shard-addr HOST:PORT or --coordinator-addr HOST:PORT")
        place = self.picture.shard(shard_id)
        if place is not None:
            raise SourceError(SourceProblem.FAILED, f"shard {shard_id} is not read: {place.error}")
        known = ", ".join(place.shard_id for place in self.picture.shards) or "none yet"
        raise SourceError(SourceProblem.NOT_FOUND, f"no shard is called {shard_id}; known are: {known}")
