"""The dashboard as a process.

Must never: end because a source is unavailable; only bad flags and a part that ended by itself end it.
Rules: `dashboard#process`, `dashboard#security`, `packaging#exit-codes`.
"""

import asyncio
import ssl
from collections.abc import Mapping
from functools import partial

import aiohttp

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.dashboard.command import DashboardSettings, trusted_networks
from bigfleet.app.parts import (
    process_log,
    read_flag_file,
    run_parts,
    tls_store,
    warn_of_open_secret,
    warn_of_plaintext,
)
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.verbs.version import build_commit
from bigfleet.dashboard.bounded_http import BoundedHttp, make_session
from bigfleet.dashboard.cluster_reader import KubeClusters
from bigfleet.dashboard.guard import Admission
from bigfleet.dashboard.prometheus import Prometheus
from bigfleet.dashboard.request_metrics import own_metrics
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.dashboard.service import Dashboard, DashboardOptions
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import LoginError
from bigfleet.kube.http_transport import HttpTransport, run_plugin
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, read_kubeconfig
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve

_SCRAPE_S = 5.0
_NO_AUTHENTICATION = (
    "Anyone who can reach this dashboard may read it: it requires no token, certificate or proxy."
)
_READABLE_ON_THE_WAY = "no --https-cert: pages, and the token of each reader, cross the network unencrypted"


def serve(settings: DashboardSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    admission = Admission(
        _token(settings), trusted_networks(settings), certificates=settings.https_client_ca is not None
    )
    tls = _https(settings, admission)
    return asyncio.run(_serve(settings, console, admission, tls, _contexts(settings)))


def _token(settings: DashboardSettings) -> str:
    if settings.token_file is None:
        return ""
    try:
        token = read_flag_file("--token-file", settings.token_file).decode().strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"--token-file: {error}") from None
    if not token:
        raise UsageError(
            f"--token-file: {settings.token_file}: found an empty file, allowed is one line of text"
        )
    return token


def _https(settings: DashboardSettings, admission: Admission) -> ssl.SSLContext | None:
    if settings.https_cert is None or settings.https_key is None:
        return None
    for flag, path in (
        ("--https-cert", settings.https_cert),
        ("--https-key", settings.https_key),
        ("--https-client-ca", settings.https_client_ca),
    ):
        if path is not None:
            read_flag_file(flag, path)  # the TLS library would wait for a pipe, and read a device without end
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.https_cert, settings.https_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--https-cert, --https-key: {error}") from None
    if settings.https_client_ca is not None:
        try:
            context.load_verify_locations(settings.https_client_ca)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"--https-client-ca: {error}") from None
        # Where a token or proxy also admits readers, the handshake must accept readers without a certificate.
        other = admission.token or admission.proxies
        context.verify_mode = ssl.CERT_OPTIONAL if other else ssl.CERT_REQUIRED
    return context


def _contexts(settings: DashboardSettings) -> Mapping[str, Target]:
    """Resolve every context of the kubeconfig, so that an unusable file ends the program at the start."""
    if settings.kubeconfig is None:
        return {}
    try:
        config = read_kubeconfig(SystemDisk(), str(settings.kubeconfig))
        return {name: config.resolve(name) for name in config.contexts}
    except LoginError as error:
        raise UsageError(f"--kubeconfig: {error}") from None


async def _serve(
    settings: DashboardSettings,
    console: Console,
    admission: Admission,
    tls: ssl.SSLContext | None,
    contexts: Mapping[str, Target],
) -> int:
    proc, clock = SystemProc(), SystemClock()
    with (
        process_log(settings, console, "dashboard") as log,
        proc.listen(),
    ):
        metrics = own_metrics(build_commit(console.environ))
        warn_of_plaintext(log, settings.listen, secured=tls is not None, what=_READABLE_ON_THE_WAY)
        warn_of_open_secret(log, settings.token_file, settings.https_key)
        async with make_session() as session:
            clusters = _clusters(contexts, clock)
            http = _bounded(session, clock, settings, metrics)
            options = DashboardOptions(
                host=settings.listen.host,
                port=settings.listen.port,
                base=settings.base_path.rstrip("/") + "/",
                shards={address: address for address in settings.shard_addr},
                coordinator=settings.coordinator_addr,
                allowed_shard_hosts=settings.allowed_shard_host,
                endpoints=[_named_endpoint(given, http) for given in settings.scrape],
                find_endpoint=lambda pod, place: _endpoint(pod, f"http://{place}/metrics", http),
                metrics=_prometheus(settings, http, clock),
                clusters=clusters,
                data_dir=str(settings.data_dir) if settings.data_dir is not None else None,
                grafana_url=settings.grafana_url,
                allowed_hosts=settings.allowed_host,
                max_connections=settings.max_connections,
                request_timeout_s=settings.request_timeout,
                admission=admission,
                tls=tls,
                warnings=(_NO_AUTHENTICATION,) if settings.allow_remote and not admission.asked else (),
            )
            dashboard = Dashboard(
                options,
                clock=clock,
                net=GrpcNet(tls_store(settings, log)),
                resolve=system_resolve,
                disk=SystemDisk(),
                metrics=metrics,
            )
            await dashboard.start()
            try:
                scheme = "https" if tls else "http"
                console.print_now(
                    f"dashboard: {scheme}://{settings.listen.host or '127.0.0.1'}:{dashboard.port}{options.base}"
                )
                parts = {"dashboard": dashboard.wait_failure()}
                await run_parts(parts, proc=proc, clock=clock, log=log, metrics=metrics)
            finally:
                await dashboard.stop()
                if clusters is not None:
                    await clusters.close()
        return proc.exit_code


def _clusters(contexts: Mapping[str, Target], clock: SystemClock) -> KubeClusters | None:
    if not contexts:
        return None
    disk = SystemDisk()
    return KubeClusters(
        {
            name: KubeClient(HttpTransport(Login(target, disk, clock, run_plugin)), RateLimiter(clock))
            for name, target in contexts.items()
        },
        clock,
    )


def _bounded(
    session: aiohttp.ClientSession, clock: SystemClock, settings: DashboardSettings, metrics: Metrics
) -> BoundedHttp:
    def refused(reason: str) -> None:
        metrics.counter("bigfleet_dashboard_reads_refused_total", reason=reason).inc()

    return BoundedHttp(session, clock, max_bytes=settings.scrape_max_bytes, refused=refused)


def _prometheus(settings: DashboardSettings, http: BoundedHttp, clock: SystemClock) -> Prometheus | None:
    if not settings.prometheus_url:
        return None
    base = settings.prometheus_url.rstrip("/")

    async def ask(path: str, query: Mapping[str, str], timeout_s: float) -> bytes:
        return await http.post(base + path, query, timeout_s)

    return Prometheus(ask, lambda: clock.wall_ns() / 1e9)


def _named_endpoint(given: str, http: BoundedHttp) -> ScrapeTarget:
    pod, _, url = given.partition("=")
    return _endpoint(pod, url, http)


def _endpoint(pod: str, url: str, http: BoundedHttp) -> ScrapeTarget:
    return ScrapeTarget(pod, partial(http.get, url, _SCRAPE_S))
