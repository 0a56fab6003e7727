"""The common part of the provider processes: logs, probes, TLS, signals, shutdown.

Why: providers with different backends start and stop in the same way.
Must never: end with 0 when a part of the process ended by itself.
Rules: `packaging#settings-sources`, `packaging#exit-codes`, `packaging#http`, `shard#part-ends`.
"""

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.proc import SystemProc
from bigfleet.app.connections import grpc_limits, use_descriptors
from bigfleet.app.garbage import freeze_and_resume
from bigfleet.app.parts import (
    process_log,
    process_metrics,
    run_parts,
    serve_metrics,
    show_exposure,
    tls_store,
    warn_of_plaintext,
)
from bigfleet.app.provider_flags import ProviderFlags
from bigfleet.cli.framework.console import Console
from bigfleet.obs.connections import connection_report
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.kit.admission import CallerRules, warn_of_opt_outs
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.transport.address import ListenAddress
from bigfleet.transport.grpc_net import GrpcNet


@dataclass(slots=True)
class ProviderProcess:
    """One provider process; callbacks pushed on `stack` run at its end, the last one first."""

    proc: SystemProc
    clock: Clock
    log: FilteringBoundLogger
    metrics: Metrics
    net: GrpcNet
    stack: AsyncExitStack
    metrics_port: int = 0
    not_ready: list[str] = field(default_factory=lambda: ["starting"])

    async def run(self, ports: Mapping[str, int], parts: Mapping[str, Coroutine[Any, Any, object]]) -> int:
        """Be ready until a signal comes or a part ends by itself, which is a failure; return the exit code."""
        freeze_and_resume()  # the inventory stays for the life of the process
        self.not_ready.clear()
        self.log.info("listening", **ports, metrics_port=self.metrics_port)
        code = await run_parts(parts, proc=self.proc, clock=self.clock, log=self.log, metrics=self.metrics)
        self.not_ready.append("stopping")
        return code


@asynccontextmanager
async def provider_process(
    settings: ProviderFlags, console: Console, addr: ListenAddress, metrics_addr: ListenAddress | None
) -> AsyncIterator[ProviderProcess]:
    """Set up logs, signals, metrics and probes; the process is not ready until `run`."""
    proc = SystemProc()
    with (
        process_log(settings, console, PROVIDER_METRICS.component) as log,
        proc.listen(),
    ):
        async with AsyncExitStack() as stack:
            metrics = process_metrics(PROVIDER_METRICS, console)
            if settings.tls_cert is not None:
                warn_of_opt_outs(log, CallerRules(settings.require_shard_san, settings.require_fencing))
            tls, clock = tls_store(settings, log), SystemClock()
            show_exposure(metrics, addr, secured=tls is not None)
            warn_of_plaintext(log, addr, secured=tls is not None)
            use_descriptors(settings.max_connections, log)
            report = connection_report(metrics, log, clock)
            net = GrpcNet(tls, limits=grpc_limits(settings), report=report)
            process = ProviderProcess(proc, clock, log, metrics, net, stack)
            process.metrics_port = await serve_metrics(
                stack, metrics_addr, metrics, lambda: process.not_ready, report=report
            )
            yield process
