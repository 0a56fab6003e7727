"""Flags and defaults of `bigfleet dashboard`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `dashboard#process`, `dashboard#security`.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.kinds import ByteSize, Cli, Dial, Duration, Listen, OptionalPath
from bigfleet.cli.framework.settings import ProcessFlags, TlsFlags
from bigfleet.dashboard.hosts import host_of
from bigfleet.dashboard.shard_addresses import ShardAddresses
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"
_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class DashboardSettings(ProcessFlags, TlsFlags, env_prefix="BIGFLEET_DASHBOARD_"):
    """Flags of `bigfleet dashboard`."""

    listen: Listen = Field(
        default=ListenAddress(_LOOPBACK, 8760), description="HTTP address of pages and API"
    )
    allow_remote: bool = Field(
        default=False, description="allow --listen to be an address that other hosts can reach"
    )
    allowed_host: Annotated[tuple[str, ...], Cli(limit=True, metavar="HOST")] = Field(
        default=(),
        description="host name under which readers reach this dashboard, besides loopback and the address that they "
        "connect to; requests that name another are refused, since a page of another site may have given its name this "
        "address; repeatable",
    )
    max_connections: Annotated[int, Cli(limit=True)] = Field(
        default=512,
        ge=1,
        le=65_536,
        description="connections of readers at once; one more closes the one that is idle for longest, so that the "
        "descriptors of the process suffice",
    )
    request_timeout: Annotated[Duration, Cli(limit=True)] = Field(
        default=30.0,
        gt=0,
        description="time that the head and the body of a request may take each, and that a connection may be idle; a "
        "slow peer would hold a connection for ever",
    )
    coordinator_addr: tuple[Dial, ...] = Field(
        default=(),
        description="coordinator, by one name for all replicas or by each of them; it lists the shards to read; "
        "repeatable",
    )
    shard_addr: Annotated[tuple[Dial, ...], Cli(aliases=("shard",))] = Field(
        default=(), description="shard to read directly; repeatable"
    )
    allowed_shard_host: Annotated[tuple[str, ...], Cli(limit=True, metavar="PATTERN")] = Field(
        default=(),
        description="host that the address of a registered shard may have: a name, a domain such as *.example.org, or a "
        "network; others are not dialled, since a shard names its address itself; repeatable; default: any",
    )
    scrape_max_bytes: Annotated[ByteSize, Cli(limit=True)] = Field(
        default=8 * 1024**2,
        ge=65_536,
        description="largest answer to a scrape or a query; an endless one would fill the memory",
    )
    scrape: Annotated[tuple[str, ...], Cli(metavar="POD=URL")] = Field(
        default=(),
        description="where a shard or coordinator exports its metrics, with the name to show; repeatable; "
        "default: port 8780 of each shard's host, 8790 of the coordinator's",
    )
    prometheus_url: Annotated[str, Cli(metavar="URL")] = Field(
        default="", pattern=r"^(https?://[^\s?#]+)?$", description="Prometheus to query instead of scraping"
    )
    kubeconfig: OptionalPath = Field(
        default=None, description="kubeconfig whose contexts are the clusters to read custom resources from"
    )
    data_dir: OptionalPath = Field(
        default=None,
        description="directory that keeps the history behind the charts, at most 200 MB; without it the history is in "
        "memory and ends with the process",
    )
    grafana_url: str = Field(default="", description="Grafana address that pages link to")
    base_path: str = Field(
        default="/",
        pattern=r"^/([A-Za-z0-9._~-]+/)*[A-Za-z0-9._~-]*$",
        description="prefix behind a reverse proxy",
    )
    https_cert: OptionalPath = Field(default=None, description="PEM certificate for HTTPS")
    https_key: OptionalPath = Field(default=None, description="PEM key for HTTPS")
    https_client_ca: OptionalPath = Field(
        default=None,
        description="PEM bundle of the CA for reader certificates; readers with a certificate that it signed are admitted",
    )
    token_file: OptionalPath = Field(
        default=None,
        description="file with the token that readers must send: as bearer token, or as password in a browser",
    )
    trusted_proxy: Annotated[tuple[str, ...], Cli(metavar="NETWORK")] = Field(
        default=(),
        description="address or network of reverse proxies that authenticate readers and name them in "
        "X-Forwarded-User; only requests from there with that header are admitted; repeatable",
    )


def check(settings: DashboardSettings) -> None:
    """Refuse flags that contradict each other, or that would expose the fleet unintentionally."""
    if settings.listen.host not in _LOCAL and not settings.allow_remote:
        raise UsageError(
            f"--listen: found {settings.listen}, allowed is a loopback address, or any with --allow-remote"
        )
    if (settings.https_cert is None) != (settings.https_key is None):
        raise UsageError("--https-cert, --https-key: found one of them, allowed is both or none")
    asked = settings.token_file or settings.https_client_ca or settings.trusted_proxy
    if settings.https_cert is not None and not asked:
        raise UsageError(
            "--https-cert: found without a way to authenticate readers, allowed is together with --token-file, "
            "--https-client-ca or --trusted-proxy"
        )
    if settings.https_client_ca is not None and settings.https_cert is None:
        raise UsageError("--https-client-ca: found without --https-cert, allowed is together with it")
    for name in settings.allowed_host:
        host = host_of(name)
        if host is None or (":" in name and ":" not in host):
            raise UsageError(
                f"--allowed-host: found {name!r}, allowed is a host name or an IP address, without a port"
            )
    try:
        ShardAddresses(settings.allowed_shard_host)
    except InvalidFieldError as error:
        raise UsageError(f"--allowed-shard-host: found {error.found!r}, allowed is {error.allowed}") from None
    trusted_networks(settings)
    if settings.prometheus_url and settings.scrape:
        raise UsageError("--prometheus-url, --scrape: found both, allowed is one of them")
    for given in settings.scrape:
        pod, equals, url = given.partition("=")
        if not (pod and equals and url.startswith(("http://", "https://"))):
            raise UsageError(f"--scrape: found {given!r}, allowed is NAME=http://HOST:PORT/metrics")


def trusted_networks(settings: DashboardSettings) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the networks of --trusted-proxy; a host address with a prefix length means its network."""
    found = []
    for given in settings.trusted_proxy:
        try:
            found.append(ip_network(given, strict=False))
        except ValueError:
            raise UsageError(
                f"--trusted-proxy: found {given!r}, allowed is an IP address or a network such as 10.0.0.0/8"
            ) from None
    return tuple(found)


def _run(settings: DashboardSettings, console: Console) -> int:
    from bigfleet.app.dashboard.serve import serve

    check(settings)
    return serve(settings, console)


DASHBOARD = CliCommand(
    DashboardSettings,
    _run,
    """Serve read-only pages and an HTTP API over a coordinator, its shards and their metrics. Every source is optional;
    a page names the sources that it lacks. It cannot change the fleet.""",
    (
        "bigfleet dashboard --shard-addr 127.0.0.1:7780",
        "bigfleet dashboard --shard-addr 127.0.0.1:7780 --scrape shard-0=http://127.0.0.1:8780/metrics",
        "bigfleet dashboard --coordinator-addr coordinator:7790 --prometheus-url http://prometheus:9090 --kubeconfig clusters.yaml",
        "bigfleet dashboard --coordinator-addr coordinator:7790 --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
    ),
)
