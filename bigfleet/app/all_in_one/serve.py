"""A whole fleet in one process: coordinator, shard, fake provider, simulated clusters, dashboard.

Why: a first look at BigFleet should need one command and no installation. All parts are the production ones, connected
over real sockets on loopback.
Must never: listen on other interfaces unless a flag says so, or leave a temporary directory behind.
Rules: `packaging#all-in-one`, `shard#all-in-one`.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import webbrowser
from contextlib import AsyncExitStack
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.given_files import INVENTORY_BYTES
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.seams import Seams, system_seams
from bigfleet.app.all_in_one.command import AllInOneSettings
from bigfleet.app.all_in_one.event_printer import EventPrinter
from bigfleet.app.coordinator.command import CoordinatorSettings
from bigfleet.app.coordinator.serve import members_of, run_replica
from bigfleet.app.parts import Part, process_log, read_flag_file, run_until_stop
from bigfleet.app.shard.command import ShardSettings
from bigfleet.app.shard.serve import run_shard
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.clustersim.fleet import SimulatedFleet, first_fleet, read_simulated_fleet
from bigfleet.clustersim.session import SimulatedCluster
from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.dashboard.service import Dashboard, DashboardOptions
from bigfleet.model.errors import InvalidFieldError
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.fake.inventory import slots_of
from bigfleet.provider.fake.latency import parse_latency
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.fake.state import JournalState, NoState
from bigfleet.shard.epoch import open_data_directory
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.transport.address import PLAINTEXT, ListenAddress
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve
from bigfleet.version import __version__

_CONCURRENCY = 16
_LATENCIES = {"create": "uniform:2s-6s", "configure": "uniform:1s-3s", "drain": "uniform:1s-3s"}


def serve(settings: AllInOneSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    world = _world(settings)
    if settings.data_dir is not None:
        return asyncio.run(_serve(settings, console, world, settings.data_dir))
    with tempfile.TemporaryDirectory(prefix="bigfleet-") as directory:
        return asyncio.run(_serve(settings, console, world, Path(directory)))


def _world(settings: AllInOneSettings) -> SimulatedFleet:
    if settings.scenario is None:
        return first_fleet()
    try:
        return read_simulated_fleet(read_flag_file("--scenario", settings.scenario, INVENTORY_BYTES))
    except InvalidFieldError as error:
        raise UsageError(f"--scenario: {settings.scenario}: {error}") from None


async def _serve(settings: AllInOneSettings, console: Console, world: SimulatedFleet, directory: Path) -> int:
    proc = SystemProc()
    # Events are printed on standard output; the log has errors only, unless --log-level asks for more.
    level = "error" if settings.log_level == "info" else settings.log_level
    with (
        process_log(settings, console, "all-in-one", level=level) as log,
        proc.listen(),
    ):
        for listen in (settings.shard_listen, settings.coordinator_listen, settings.dashboard_addr):
            if listen is not None and not listen.is_loopback:
                # The log shows errors only.
                console.print_warning(f"{listen}: {PLAINTEXT}")
        seams = system_seams(GrpcNet(), proc)
        async with AsyncExitStack() as stack:
            fleet = _Fleet(settings, seams, world, directory, log)
            events = EventPrinter(console, seams.clock)
            parts = await fleet.parts(stack, events)
            await run_until_stop(parts, proc, log)
            console.print_now("stopped")
        return proc.exit_code


class _Fleet:
    """Wires all parts of the fleet together."""

    def __init__(
        self,
        settings: AllInOneSettings,
        seams: Seams,
        world: SimulatedFleet,
        directory: Path,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._seams, self._world = settings, seams, world
        self._directory, self._log = directory, log
        self._shard_metrics = Metrics(
            SHARD_METRICS, CollectorRegistry(), version=__version__, commit="unknown"
        )
        self._coordinator_metrics = Metrics(
            COORDINATOR_METRICS, CollectorRegistry(), version=__version__, commit="unknown"
        )

    async def parts(self, stack: AsyncExitStack, events: EventPrinter) -> dict[str, Part]:
        """Start the dashboard, and return the parts that have to run."""
        fake = self._fake()
        clusters = [self._cluster(name, events) for name in self._world.clusters]
        url, dashboard = "", None
        if self._settings.dashboard_addr is not None:
            dashboard = self._dashboard(self._settings.dashboard_addr)
            await dashboard.start()
            stack.push_async_callback(dashboard.stop)
            url = f"http://{self._settings.dashboard_addr.host or '127.0.0.1'}:{dashboard.port}/"
            if self._settings.open:
                webbrowser.open(url)
        # Made after everything that may fail: a part that is made and never run is a warning of the interpreter.
        parts: dict[str, Part] = {
            "coordinator": self._coordinator(),
            "shard": self._shard(fake),
            **{f"cluster {cluster.cluster}": cluster.run() for cluster in clusters},
        }
        if dashboard is not None:
            parts["dashboard"] = dashboard.wait_failure()
        parts["events"] = events.run(
            clusters,
            fake,
            dashboard=url,
            shard=str(self._settings.shard_listen),
            coordinator=str(self._settings.coordinator_listen),
            program=_program(),
        )
        return parts

    def _fake(self) -> FakeProvider:
        options = FakeOptions(latencies={kind: parse_latency(spec) for kind, spec in _LATENCIES.items()})
        state = (
            JournalState(self._directory / "provider", clock=self._seams.clock)
            if self._settings.data_dir is not None
            else NoState()
        )
        return FakeProvider(
            options,
            lambda: slots_of(self._world.pools),
            state=state,
            clock=self._seams.clock,
            ids=self._seams.ids,
            net=self._seams.net,
            log=self._log,
        )

    def _cluster(self, name: str, events: EventPrinter) -> SimulatedCluster:
        return SimulatedCluster(
            name,
            str(self._settings.shard_listen),
            self._world.clusters[name],
            net=self._seams.net,
            clock=self._seams.clock,
            stream=self._seams.rng.stream(f"cluster {name}"),
            on_event=events.record,
        )

    async def _shard(self, fake: FakeProvider) -> int:
        settings = ShardSettings(
            listen=self._settings.shard_listen,
            metrics_addr=self._settings.shard_metrics_addr,
            id=self._settings.shard_id,
            data_dir=self._directory / "shard",
            coordinator_addr=str(self._settings.coordinator_listen),
            cycle_interval=self._settings.cycle_interval,
            execute_concurrency=_CONCURRENCY,
            shutdown_grace=self._settings.shutdown_grace,
            reflection=self._settings.reflection,
        )
        data = open_data_directory(self._seams.disk, settings.data_dir)
        try:
            return await run_shard(
                settings, self._seams, data=data, metrics=self._shard_metrics, log=self._log, fake=fake
            )
        finally:
            data.close()

    async def _coordinator(self) -> int:
        settings = CoordinatorSettings(
            id=self._settings.coordinator_id,
            listen=self._settings.coordinator_listen,
            raft_bind=self._settings.raft_bind,
            metrics_addr=self._settings.coordinator_metrics_addr,
            data_dir=self._directory / "coordinator",
            bootstrap=True,
            shutdown_grace=self._settings.shutdown_grace,
            reflection=self._settings.reflection,
        )
        return await run_replica(
            settings,
            self._seams,
            members=members_of(settings),
            secret=b"",
            metrics=self._coordinator_metrics,
            log=self._log,
            tls=None,
        )

    def _dashboard(self, address: ListenAddress) -> Dashboard:
        endpoints = [
            _endpoint(self._settings.shard_id, self._shard_metrics),
            _endpoint(self._settings.coordinator_id, self._coordinator_metrics),
        ]
        options = DashboardOptions(
            host=address.host,
            port=address.port,
            shards={self._settings.shard_id: str(self._settings.shard_listen)},
            coordinator=(str(self._settings.coordinator_listen),),
            endpoints=endpoints,
            data_dir=str(self._directory / "dashboard") if self._settings.data_dir is not None else None,
        )
        return Dashboard(
            options,
            clock=self._seams.clock,
            net=self._seams.net,
            resolve=system_resolve,
            disk=self._seams.disk,
        )


def _program() -> str:
    """Return how to call this program: by name where the shell finds it, else by path."""
    if shutil.which("bigfleet"):
        return "bigfleet"
    return os.path.relpath(sys.argv[0])


def _endpoint(pod: str, metrics: Metrics) -> ScrapeTarget:
    write = metrics_text(metrics.registry)

    async def fetch() -> bytes:
        return write("")[0]

    return ScrapeTarget(pod, fetch)
