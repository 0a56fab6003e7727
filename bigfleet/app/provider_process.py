"""What the fake and the fault provider have in common as processes: logs, probes, TLS, signals, the end.

Why: two programs that differ in their backend must not differ in how they start and stop.
Must never: end with 0 when a part of the process ended by itself.
Rules: packaging 1.2, 1.3 and 1.11; decision S18.
"""

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.proc import SystemProc
from bigfleet.app.parts import logs_of, run_parts, tls_store
from bigfleet.app.provider_flags import ProviderFlags
from bigfleet.cli.console import Console
from bigfleet.cli.version import COMMIT_VARIABLE
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.transport.address import ListenAddress
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.probes import serve_probes
from bigfleet.version import __version__


@dataclass(slots=True)
class ProviderProcess:
    """One provider process; what is pushed on `stack` ends with it, the last first."""

    proc: SystemProc
    clock: Clock
    log: FilteringBoundLogger
    metrics: Metrics
    net: GrpcNet
    stack: AsyncExitStack
    metrics_port: int = 0
    not_ready: list[str] = field(default_factory=lambda: ["starting"])

    async def run(self, ports: Mapping[str, int], parts: Mapping[str, Coroutine[Any, Any, object]]) -> int:
        """Be ready until a signal comes, or until one of the parts ends by itself, which is a failure."""
        self.not_ready.clear()
        self.log.info("listening", **ports, metrics_port=self.metrics_port)
        code = await run_parts(parts, proc=self.proc, clock=self.clock, log=self.log, metrics=self.metrics)
        self.not_ready.append("stopping")
        return code


@asynccontextmanager
async def provider_process(
    settings: ProviderFlags, console: Console, metrics_addr: ListenAddress | None
) -> AsyncIterator[ProviderProcess]:
    """Set up logs, signals, metrics and probes; the process is not ready before `run`."""
    proc = SystemProc()
    with (
        logs_of(settings, console, PROVIDER_METRICS.component) as log,
        proc.listen(),
    ):
        async with AsyncExitStack() as stack:
            registry = CollectorRegistry()
            commit = console.environ.get(COMMIT_VARIABLE) or "unknown"
            metrics = Metrics(PROVIDER_METRICS, registry, version=__version__, commit=commit)
            process = ProviderProcess(
                proc, SystemClock(), log, metrics, GrpcNet(tls_store(settings, log)), stack
            )
            address = "0" if metrics_addr is None else str(metrics_addr)
            http = await serve_probes(address, metrics_text(registry), lambda: process.not_ready)
            if http is not None:
                stack.push_async_callback(http.stop)
                process.metrics_port = http.port
            yield process
