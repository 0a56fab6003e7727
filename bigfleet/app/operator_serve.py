"""The operator as a process: its wiring, its signals, its end.

Why: the real clock, disk and connections of the operator meet here and nowhere else.
Must never: touch a cluster before flags, TLS material and template were found good; work without the lease when one is asked
for; end with 0 when a part of it ended by itself; log what a template rendered.
Rules: operator 1 rule 8, 3.1 and 9; packaging 1.3 and 1.11.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from os import fspath
from typing import Any, Final

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.disk import Disk
from bigfleet.aio.identity import Role
from bigfleet.aio.ids import SystemIds
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.rng import SystemRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.garbage import hold_collection, release_collection, settle_collection
from bigfleet.app.operator_command import DEFAULT_ROLLUP_S, OperatorSettings
from bigfleet.app.parts import logs_of, run_parts, show_certificate
from bigfleet.cli.console import Console
from bigfleet.cli.version import COMMIT_VARIABLE
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_link import HttpLink, run_plugin
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.lease import Lease
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.core.bootstrap import STUB_TTL_S, Renderer, StubRenderer, TemplateRenderer
from bigfleet.operator.core.template.errors import TemplateError
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.operator import Operator
from bigfleet.operator.options import OperatorOptions
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.probes import serve_probes
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.version import __version__

NAME: Final = "bigfleet-operator"
_DEFAULT_NAMESPACE: Final = "default"


class BadTemplateError(BigFleetError):
    """The bootstrap template cannot be used; the text has file, line and word."""


def serve(settings: OperatorSettings, console: Console) -> int:
    """Work until a signal comes; return the exit code."""
    disk = SystemDisk()
    tls = _tls(settings)
    renderer = renderer_of(settings, disk)
    kubeconfig = "" if settings.kubeconfig is None else fspath(settings.kubeconfig)
    target = find_target(console.environ, disk, kubeconfig=kubeconfig)
    return asyncio.run(_serve(settings, console, renderer, target, (tls, disk)))


def renderer_of(settings: OperatorSettings, disk: Disk) -> Renderer:
    """Return what renders blobs; a template that cannot be read or parsed ends the program."""
    if settings.bootstrap_template_file is None:
        return StubRenderer(settings.cluster_id, settings.bootstrap_ttl or STUB_TTL_S)
    path = fspath(settings.bootstrap_template_file)
    try:
        source = disk.read(path).decode()
    except UnicodeDecodeError:
        raise BadTemplateError(f"{path}: not readable as text") from None
    try:
        return TemplateRenderer(settings.cluster_id, source, settings.bootstrap_ttl)
    except TemplateError as error:
        raise BadTemplateError(f"{path}: {error}") from None


def options_of(settings: OperatorSettings) -> OperatorOptions:
    """Return the flags as the operator takes them."""
    return OperatorOptions(
        cluster=settings.cluster_id,
        shard_addr=settings.shard_addr,
        rollup_interval_s=settings.rollup_interval or DEFAULT_ROLLUP_S,
        ack_concurrency=settings.ack_concurrency,
        cache_sync_timeout_s=settings.cache_sync_timeout,
        orphan_sweep=settings.orphan_sweep,
        shutdown_grace_s=settings.shutdown_grace,
    )


def _tls(settings: OperatorSettings) -> TlsFiles | None:
    """Return the TLS files after loading them once, so that material that does not fit ends the program now."""
    if settings.tls_cert is None or settings.tls_key is None or settings.tls_ca is None:
        return None
    files = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
    TlsStore(files, lambda _problem: None)
    return files


async def _serve(
    settings: OperatorSettings,
    console: Console,
    renderer: Renderer,
    target: Target,
    material: tuple[TlsFiles | None, Disk],
) -> int:
    proc, clock, rng = SystemProc(), SystemClock(), SystemRng()
    tls, disk = material
    with (
        logs_of(settings, console, OPERATOR_METRICS.component, cluster=settings.cluster_id) as log,
        proc.listen(),
    ):
        async with AsyncExitStack() as stack:
            registry = CollectorRegistry()
            commit = console.environ.get(COMMIT_VARIABLE) or "unknown"
            metrics = Metrics(OPERATOR_METRICS, registry, version=__version__, commit=commit)
            link = HttpLink(Login(target, disk, clock, run_plugin))
            client = KubeClient(link, RateLimiter(clock, qps=settings.qps, burst=settings.burst))
            stack.push_async_callback(client.close)
            host = console.environ.get("HOSTNAME", "")
            store = _store(tls, log)
            net = GrpcNet(store)

            def make() -> Operator:
                return Operator(
                    options_of(settings),
                    client,
                    net,
                    renderer,
                    clock=clock,
                    rng=rng,
                    metrics=metrics,
                    host=host,
                    on_synced=settle_collection,
                )

            candidate = _Candidate(make)
            address = "0" if settings.metrics_addr is None else str(settings.metrics_addr)
            http = await serve_probes(address, metrics_text(registry), candidate.not_ready)
            if http is not None:
                stack.push_async_callback(http.stop)
            _warn(renderer, log)
            log.info("listening", server=target.server, metrics_port=http.port if http else 0)
            lease = Lease(
                client,
                ObjectKey(target.namespace or _DEFAULT_NAMESPACE, NAME),
                f"{host}_{SystemIds().session()}",
                clock=clock,
                stream=rng.stream("lease"),
            )
            working = candidate.lead(lease) if settings.leader_elect else candidate.work()
            parts: dict[str, Coroutine[Any, Any, object]] = {"operator": working}
            if store is not None:
                parts["certificate"] = show_certificate(store, metrics, clock, Role.CLUSTER.value)
            return await run_parts(parts, proc=proc, clock=clock, log=log, metrics=metrics)


class _Candidate:
    """The operator of this process; with a lease a new one for each time that the lease is held."""

    def __init__(self, make: Callable[[], Operator]) -> None:
        self._make = make
        self._operator: Operator | None = None

    async def lead(self, lease: Lease) -> None:
        """Dial and work whenever the lease is ours."""
        while not await lease.lead(self.work):
            pass  # lost: wait for it again

    async def work(self) -> None:
        """Dial and work until cancelled."""
        self._operator = self._make()
        hold_collection()
        try:
            await self._operator.run()
        finally:
            self._operator = None
            release_collection()

    def not_ready(self) -> list[str]:
        """Return why the process is not ready."""
        return ["the lease is held by another"] if self._operator is None else self._operator.not_ready()


def _store(tls: TlsFiles | None, log: FilteringBoundLogger) -> TlsStore | None:
    return None if tls is None else TlsStore(tls, lambda problem: log.error("tls_problem", problem=problem))


def _warn(renderer: Renderer, log: FilteringBoundLogger) -> None:
    if isinstance(renderer, StubRenderer):
        log.warning(
            "bootstrap_stub", why="no --bootstrap-template-file; machines get a blob that boots nothing"
        )
    elif isinstance(renderer, TemplateRenderer):
        for problem in renderer.trial_problems():
            log.warning("bootstrap_template_trial", problem=problem)
