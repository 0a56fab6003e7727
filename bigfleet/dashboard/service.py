"""The dashboard as one thing to run: watcher, scraper and server around one `FleetSources`.

Must never: end because a source is away.
Rules: `dashboard#process`, `dashboard#sources`.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from bigfleet.aio.clock import Clock
from bigfleet.aio.disk import Disk
from bigfleet.aio.net import ListenError, Net
from bigfleet.dashboard.answer_cache import AnswerCache
from bigfleet.dashboard.coordinator_reader import CoordinatorReader
from bigfleet.dashboard.core.series import SeriesStore
from bigfleet.dashboard.fleet_sources import ClusterReader, FleetSources, Wiring
from bigfleet.dashboard.guard import Admission
from bigfleet.dashboard.history import History
from bigfleet.dashboard.history_store import HistoryStore
from bigfleet.dashboard.hosts import AllowedHosts
from bigfleet.dashboard.listener import Connections, listen
from bigfleet.dashboard.metric_reader import MemoryMetrics, MetricReader
from bigfleet.dashboard.pages.frame import Frame
from bigfleet.dashboard.request_metrics import RequestMetrics, own_metrics
from bigfleet.dashboard.scraper import Scraper, ScrapeTarget
from bigfleet.dashboard.server import DashboardServer
from bigfleet.dashboard.shard_addresses import ShardAddresses
from bigfleet.dashboard.shard_reader import ShardReader
from bigfleet.dashboard.watcher import Watcher
from bigfleet.dashboard.what_if import WhatIf
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.address import listen_problem
from bigfleet.transport.leader import LeaderClient, Resolve
from bigfleet.version import __version__

_GRACE_S: Final = 1.0
SHARD_METRICS: Final = 8780
COORDINATOR_METRICS: Final = 8790


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """What a dashboard is wired to, and where it listens."""

    host: str = "127.0.0.1"
    port: int = 8760
    base: str = "/"
    shards: Mapping[str, str] = field(default_factory=dict)
    """Shard id to address."""
    coordinator: Sequence[str] = ()
    """Addresses of replicas, or a name of them all."""
    endpoints: Sequence[ScrapeTarget] = ()
    find_endpoint: Callable[[str, str], ScrapeTarget] | None = None
    """Makes an endpoint of a pod's name and a host:port; used on what the fleet tells where no endpoint was named."""
    allowed_shard_hosts: Sequence[str] = ()
    """Hosts that addresses from the coordinator may have; empty is any."""
    metrics: MetricReader | None = None
    """In place of the built-in scraper: a Prometheus."""
    clusters: ClusterReader | None = None
    data_dir: str | None = None
    """Directory that keeps the history; without one it is in memory and ends with the process."""
    grafana_url: str = ""
    allowed_hosts: Sequence[str] = ()
    """Hosts that requests may name, besides loopback and the address that is listened on."""
    max_connections: int = 512
    request_timeout_s: float = 30.0
    admission: Admission = field(default_factory=Admission)
    tls: ssl.SSLContext | None = None
    warnings: tuple[str, ...] = ()


class Dashboard:
    """A dashboard that runs until it is stopped."""

    def __init__(
        self,
        options: DashboardOptions,
        *,
        clock: Clock,
        net: Net,
        resolve: Resolve,
        disk: Disk,
        metrics: Metrics | None = None,
    ) -> None:
        self._options = options
        coordinator = None
        if options.coordinator:
            client = LeaderClient(net, options.coordinator, resolve=resolve)
            coordinator = (", ".join(options.coordinator), CoordinatorReader(client))
        self._watcher = Watcher(
            clock,
            shards=options.shards,
            coordinator=coordinator,
            make_reader=lambda shard_id, address: ShardReader(net, shard_id, address),
            addresses=ShardAddresses(options.allowed_shard_hosts),
        )
        store = SeriesStore()
        counts = RequestMetrics(metrics or own_metrics("unknown"), clock, store)
        self._watcher.on_look, self._watcher.on_refusal = counts.looked, counts.read_refused
        self._scraper = Scraper(store, clock, self._endpoints, counts.read_refused)
        scraped = bool(options.endpoints) or options.find_endpoint is not None
        figures = options.metrics or (
            MemoryMetrics(store, lambda: clock.wall_ns() / 1e9) if scraped else None
        )
        self._history = History(HistoryStore(disk, options.data_dir), clock, figures)
        self._history.on_sample, self._history.on_trouble = counts.sampled, counts.history_trouble
        self._watcher.on_picture = self._history.note
        answers = AnswerCache(clock)
        self._watcher.on_news = answers.forget
        self.fleet = FleetSources(
            wiring=_wiring(options, figures is not None),
            now=self._watcher.now,
            watcher=self._watcher,
            answers=answers,
            metrics=figures,
            history=self._history,
            clusters=options.clusters,
            scrape_problems=lambda: self._scraper.problems,
        )
        frame = Frame(options.base, "", options.warnings)
        hosts = AllowedHosts(options.host, options.allowed_hosts)
        self._connections = Connections(
            most=options.max_connections,
            head_s=options.request_timeout_s,
            admission=replace(options.admission, hosts=hosts),
            refused=counts.refused,
        )
        self._server = DashboardServer(
            self.fleet, frame, WhatIf(clock), counts, clock=clock, connections=self._connections
        )
        self._listener: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.port = 0

    @property
    def routes(self) -> frozenset[str]:
        """The paths that the server answers, with names in braces for the parts that vary."""
        return frozenset(resource.canonical for resource in self._server.app.router.resources())

    async def start(self) -> None:
        """Listen, and begin to look at the fleet; raises `ListenError`."""
        runner = web.AppRunner(self._server.app, access_log=None, shutdown_timeout=_GRACE_S)
        await runner.setup()
        host, port = self._options.host, self._options.port
        try:
            self._listener = await listen(runner, self._connections, host, port, self._options.tls)
        except OSError as error:
            await runner.cleanup()
            raise ListenError(f"{host}:{port}", listen_problem(error)) from error
        self._runner = runner
        self.port = self._listener.sockets[0].getsockname()[1]
        runs = (self._watcher.run(), self._scraper.run(), self._history.run())
        self._tasks = [asyncio.create_task(run) for run in runs]

    async def scrape(self) -> None:
        """Read every endpoint of metrics once more, now."""
        await self._scraper.once()

    async def wait_failure(self) -> BaseException:
        """Return the error that ended the watcher; nothing should end it, so the process ends with it."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = next(task for task in self._tasks if task.done())
        return ended.exception() or RuntimeError("the dashboard stopped looking")

    async def stop(self) -> None:
        """Close the listener, end every stream and every look."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _endpoints(self) -> Sequence[ScrapeTarget]:
        """Where metrics are: as named, else at the usual port of every process the fleet tells of."""
        find, picture = self._options.find_endpoint, self._watcher.picture
        if self._options.endpoints or self._options.metrics is not None or find is None:
            return self._options.endpoints
        found = [
            find(place.shard_id, f"{_host(place.address)}:{SHARD_METRICS}")
            for place in picture.shards
            if place.shard_id not in self._watcher.refused
        ]
        seen = picture.coordinator.seen if picture.coordinator is not None else None
        replicas = seen.replicas if seen is not None else ()
        found += [find(row.address, f"{_host(row.address)}:{COORDINATOR_METRICS}") for row in replicas]
        return found


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _wiring(options: DashboardOptions, metrics: bool) -> Wiring:
    return Wiring(
        grafana_url=options.grafana_url,
        metrics=metrics,
        coordinator=bool(options.coordinator),
        clusters=options.clusters is not None,
        version=__version__,
        notes={
            "coordinator": ", ".join(options.coordinator) or "not wired: pass --coordinator-addr HOST:PORT",
            "shards": ", ".join(options.shards.values()) or "found through the coordinator",
            "metrics": "a Prometheus"
            if options.metrics
            else "scraped by this dashboard"
            if metrics
            else "not wired: pass --scrape URL",
            "history": f"kept in {options.data_dir}"
            if options.data_dir is not None
            else "in memory, until this process ends: pass --data-dir DIRECTORY",
            "clusters": "by kubeconfig" if options.clusters else "not wired: pass --kubeconfig FILE",
        },
    )
