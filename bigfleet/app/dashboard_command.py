"""`bigfleet dashboard`: its flags.

Called by: the command table of `bigfleet.app.bigfleet`.
Must never: import what serves before it is asked to serve; `--help` has to be quick.
Rules: dashboard 2, 11.
"""

from typing import Annotated, Final

from pydantic import Field

from bigfleet.cli.command import Command
from bigfleet.cli.console import Console
from bigfleet.cli.errors import UsageError
from bigfleet.cli.kinds import Cli, Dial, Listen, OptionalDial, OptionalPath
from bigfleet.cli.settings import ProcessFlags, TlsFlags
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"
_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class DashboardSettings(ProcessFlags, TlsFlags, env_prefix="BIGFLEET_DASHBOARD_"):
    """Flags of `bigfleet dashboard`."""

    listen: Listen = Field(
        default=ListenAddress(_LOOPBACK, 8760), description="HTTP address of pages and API"
    )
    allow_remote: bool = Field(default=False, description="let --listen be an address that others reach")
    coordinator_addr: OptionalDial = Field(
        default="", description="coordinator; its shards are found through it"
    )
    shard_addr: tuple[Dial, ...] = Field(default=(), description="shard to read directly; repeatable")
    scrape: Annotated[tuple[str, ...], Cli(metavar="POD=URL")] = Field(
        default=(),
        description="where a shard or coordinator exports its metrics, by the name it appears under; repeatable; "
        "found by itself if not given: port 8780 of each shard's host, 8790 of the coordinator's",
    )
    prometheus_url: Annotated[str, Cli(metavar="URL")] = Field(
        default="", pattern=r"^(https?://[^\s?#]+)?$", description="Prometheus to ask instead of scraping"
    )
    kubeconfig: OptionalPath = Field(
        default=None, description="file whose contexts are the clusters to read custom resources of"
    )
    grafana_url: str = Field(default="", description="address that pages link to")
    base_path: str = Field(
        default="/",
        pattern=r"^/([A-Za-z0-9._~-]+/)*[A-Za-z0-9._~-]*$",
        description="prefix behind a reverse proxy",
    )
    https_cert: OptionalPath = Field(default=None, description="PEM certificate of its own listener")
    https_key: OptionalPath = Field(default=None, description="PEM key of its own listener")
    token_file: OptionalPath = Field(default=None, description="file with the bearer token asked of readers")


def check(settings: DashboardSettings) -> None:
    """Refuse flags that contradict each other or would open the fleet to strangers unasked."""
    if settings.listen.host not in _LOCAL and not settings.allow_remote:
        raise UsageError(
            f"--listen: found {settings.listen}, allowed is a loopback address, or any with --allow-remote"
        )
    if (settings.https_cert is None) != (settings.https_key is None):
        raise UsageError("--https-cert, --https-key: found one of them, allowed is both or none")
    if settings.https_cert is not None and settings.token_file is None:
        raise UsageError("--https-cert: found without --token-file, allowed is together with it")
    if settings.prometheus_url and settings.scrape:
        raise UsageError("--prometheus-url, --scrape: found both, allowed is one of them")
    for given in settings.scrape:
        pod, equals, url = given.partition("=")
        if not (pod and equals and url.startswith(("http://", "https://"))):
            raise UsageError(f"--scrape: found {given!r}, allowed is NAME=http://HOST:PORT/metrics")


def _run(settings: DashboardSettings, console: Console) -> int:
    from bigfleet.app.dashboard_serve import serve  # noqa: PLC0415

    check(settings)
    return serve(settings, console)


DASHBOARD = Command(
    DashboardSettings,
    _run,
    """Serve read-only pages and an HTTP API over a coordinator, its shards and their metrics. Every source is optional;
    a page says which one it lacks. Nothing on it can change the fleet.""",
    (
        "bigfleet dashboard --shard-addr 127.0.0.1:7780",
        "bigfleet dashboard --shard-addr 127.0.0.1:7780 --scrape shard-0=http://127.0.0.1:8780/metrics",
        "bigfleet dashboard --coordinator-addr coordinator:7790 --prometheus-url http://prometheus:9090 --kubeconfig clusters.yaml",
        "bigfleet dashboard --coordinator-addr coordinator:7790 --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
    ),
)
