"""The operator as a process: wiring, signals, shutdown.

Must never: touch a cluster before flags, certificates and template have been validated; work without the lease under
--leader-elect; end with 0 when a part ended by itself; log a rendered blob.
Rules: `operator#single-replica`, `operator#start-order`, `operator#process`, `packaging#exit-codes`, `packaging#http`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from os import fspath
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.disk import Disk
from bigfleet.aio.given_files import read_given
from bigfleet.aio.identity import Role
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.rng import SystemRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.cluster_access import connect, own_lease
from bigfleet.app.garbage import freeze_and_resume, pause_collection, unfreeze_and_resume
from bigfleet.app.operator.command import DEFAULT_ROLLUP_S, OperatorSettings
from bigfleet.app.parts import (
    process_log,
    process_metrics,
    run_parts,
    serve_metrics,
    show_certificate,
    tls_store,
)
from bigfleet.cli.framework.console import Console
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.lease import Lease
from bigfleet.kube.login import find_target
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.connections import connection_report
from bigfleet.operator.cluster_operator import ClusterOperator
from bigfleet.operator.core.bootstrap import STUB_TTL_S, Renderer, StubRenderer, TemplateRenderer
from bigfleet.operator.core.template.errors import TemplateError
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.options import OperatorOptions
from bigfleet.transport.grpc_net import GrpcNet

NAME: Final = "bigfleet-operator"


class BadTemplateError(BigFleetError):
    """The bootstrap template cannot be used; the text names the place."""


def serve(settings: OperatorSettings, console: Console) -> int:
    """Work until a signal comes; return the exit code."""
    disk = SystemDisk()
    settings.tls_store(lambda _problem: None)  # certificates that cannot be used end the program now
    renderer = renderer_of(settings, disk)
    target = find_target(console.environ, disk, kubeconfig=fspath(settings.kubeconfig or ""))
    return asyncio.run(_serve(settings, console, renderer, target, disk))


def renderer_of(settings: OperatorSettings, disk: Disk) -> Renderer:
    """Return the renderer of blobs; raises for a template that cannot be read or parsed."""
    if settings.bootstrap_template_file is None:
        return StubRenderer(settings.cluster_id, settings.bootstrap_ttl or STUB_TTL_S)
    path = fspath(settings.bootstrap_template_file)
    try:
        source = read_given(disk, path).decode()
    except UnicodeDecodeError:
        raise BadTemplateError(f"{path}: not readable as text") from None
    try:
        return TemplateRenderer(settings.cluster_id, source, settings.bootstrap_ttl)
    except TemplateError as error:
        raise BadTemplateError(f"{path}: {error}") from None


def options_of(settings: OperatorSettings) -> OperatorOptions:
    """Return the options that the flags describe."""
    return OperatorOptions(
        cluster=settings.cluster_id,
        shard_addr=settings.shard_addr,
        rollup_interval_s=settings.rollup_interval or DEFAULT_ROLLUP_S,
        rollup_quiet_s=settings.rollup_quiet,
        rollup_max_delay_s=settings.rollup_max_delay,
        ack_concurrency=settings.ack_concurrency,
        cache_sync_timeout_s=settings.cache_sync_timeout,
        watch_pods=settings.watch_pods,
        fragments=settings.fragments,
        stuck_after_s=settings.stuck_after,
        fragments_share=settings.fragments_share,
        orphan_sweep=settings.orphan_sweep,
        shutdown_grace_s=settings.shutdown_grace,
    )


async def _serve(
    settings: OperatorSettings,
    console: Console,
    renderer: Renderer,
    target: Target,
    disk: Disk,
) -> int:
    proc, clock, rng = SystemProc(), SystemClock(), SystemRng()
    with (
        process_log(settings, console, OPERATOR_METRICS.component, cluster=settings.cluster_id) as log,
        proc.listen(),
    ):
        async with AsyncExitStack() as stack:
            metrics = process_metrics(OPERATOR_METRICS, console)
            client = connect(target, disk, clock, qps=settings.qps, burst=settings.burst)
            stack.push_async_callback(client.close)
            host = console.environ.get("HOSTNAME", "")
            store = tls_store(settings, log)
            net = GrpcNet(store)

            def make() -> ClusterOperator:
                return ClusterOperator(
                    options_of(settings),
                    client,
                    net,
                    renderer,
                    clock=clock,
                    rng=rng,
                    metrics=metrics,
                    host=host,
                    on_synced=freeze_and_resume,
                )

            candidate = _Candidate(make)
            report = connection_report(metrics, log, clock)
            metrics_port = await serve_metrics(
                stack, settings.metrics_addr, metrics, candidate.not_ready, report=report
            )
            _warn(renderer, log)
            log.info("listening", server=target.server, metrics_port=metrics_port)
            lease = own_lease(client, target, NAME, host, clock=clock, rng=rng)
            working = candidate.lead(lease) if settings.leader_elect else candidate.work()
            parts: dict[str, Coroutine[Any, Any, object]] = {"operator": working}
            if store is not None:
                parts["certificate"] = show_certificate(store, metrics, clock, Role.CLUSTER.value)
            return await run_parts(parts, proc=proc, clock=clock, log=log, metrics=metrics)


class _Candidate:
    """Runs the operator of this process; under a lease a new one each time that the lease is acquired."""

    def __init__(self, make: Callable[[], ClusterOperator]) -> None:
        self._make = make
        self._operator: ClusterOperator | None = None

    async def lead(self, lease: Lease) -> None:
        """Dial and work while this process holds the lease."""
        while not await lease.lead(self.work):
            pass  # the lease was lost

    async def work(self) -> None:
        """Dial and work until cancelled."""
        self._operator = self._make()
        pause_collection()
        try:
            await self._operator.run()
        finally:
            self._operator = None
            unfreeze_and_resume()

    def not_ready(self) -> list[str]:
        """Return why the process is not ready."""
        return ["the lease is held by another"] if self._operator is None else self._operator.not_ready()


def _warn(renderer: Renderer, log: FilteringBoundLogger) -> None:
    if isinstance(renderer, StubRenderer):
        log.warning(
            "bootstrap_stub", why="no --bootstrap-template-file; machines get a blob that boots nothing"
        )
    elif isinstance(renderer, TemplateRenderer):
        for problem in renderer.trial_problems():
            log.warning("bootstrap_template_trial", problem=problem)
