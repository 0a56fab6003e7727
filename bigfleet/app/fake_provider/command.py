"""Flags and defaults of `bigfleet-fake-provider`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `providers#fake-flags`, `packaging#settings-sources`, `packaging#exit-codes`.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from bigfleet.app.provider_flags import ProviderFlags, check_certificates
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.kinds import ByteSize, Cli, Duration, HttpListen, Listen, OptionalPath
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"


class FakeProviderSettings(ProviderFlags, env_prefix="BIGFLEET_FAKE_PROVIDER_"):
    """Flags of `bigfleet-fake-provider`."""

    addr: Listen = Field(default=ListenAddress(_LOOPBACK, 9000), description="gRPC address")
    control_addr: HttpListen = Field(
        default=None, description="HTTP address of the control API and its page, loopback only"
    )
    metrics_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 9090), description="address of metrics and probes"
    )
    seed: int = Field(default=1, description="seed of all randomness")
    inventory: OptionalPath = Field(default=None, description="YAML file of the initial pools")
    catalog: Annotated[str, Cli(metavar="NAME|FILE")] = Field(
        default="", description="workload catalogue to seed from: a built-in one, or a YAML file"
    )
    idle: int = Field(default=0, ge=0, description="with --catalog: Idle machines")
    speculative: int = Field(default=0, ge=0, description="with --catalog: on-demand slots")
    spot: int = Field(default=0, ge=0, description="with --catalog: spot slots")
    configured_per_cluster: int = Field(
        default=0, ge=0, description="with --catalog: Configured machines of each cluster"
    )
    clusters: int = Field(default=0, ge=0, description="with --catalog: clusters of the whole fleet")
    density: int = Field(default=100, ge=1, description="with --catalog: pods per machine")
    ordinal: int = Field(
        default=0,
        ge=0,
        description="with --catalog: ordinal of the shard whose clusters get machines",
    )
    shards: int = Field(default=1, ge=1, description="with --catalog: shards of the whole fleet")
    owner_shard: str = Field(
        default="",
        description="with --catalog: id of the shard that owns Configured machines; empty for none",
    )
    sync: bool = Field(default=False, description="complete transitions inside the call")
    latency: Annotated[tuple[str, ...], Cli(metavar="KIND=SPEC")] = Field(
        default=(),
        description="duration of create, configure, ready, drain, delete, get or list, or of a response as create-call: "
        "2s, uniform:1s-5s or lognormal:30s,p99=4m",
    )
    create_latency: Annotated[Duration, Cli(variables=("BIGFLEET_FAKE_CREATE_LATENCY",))] = Field(
        default=0.0, description="duration of a Create that --latency does not set"
    )
    fail: Annotated[tuple[str, ...], Cli(metavar="KIND=P[:TEXT]")] = Field(
        default=(), description="probability that an operation of this kind fails, and its error text"
    )
    stockout: Annotated[tuple[str, ...], Cli(metavar="TYPE[@ZONE[@CAPACITY]][=FROM-TO]")] = Field(
        default=(),
        description="Creates that fail because of a stock-out, and when since the start; * for any",
    )
    loss_per_hour: float = Field(default=0.0, ge=0, description="losses per Configured machine and hour")
    use_declared_loss: bool = Field(
        default=False, description="lose each machine at the rate of its interruption probability"
    )
    configure_until_joined: bool = Field(
        default=False,
        description="stay Configuring until the control API reports joined, or until the configure timeout",
    )
    drain_until_empty: bool = Field(
        default=False,
        description="stay Draining until the control API reports emptied, or until the grace ends",
    )
    no_delete: bool = Field(default=False, description="do not offer Delete, like bare metal")
    cursor: Literal["honest", "none", "stale"] = Field(default="honest", description="revision support")
    state: Annotated[OptionalPath, Cli(metavar="DIR", default="memory")] = Field(
        default=None, description="directory of the state"
    )
    time_scale: float = Field(default=1.0, gt=0, description="all latencies are divided by this")
    lie: Annotated[tuple[str, ...], Cli(metavar="NAME[=P]")] = Field(
        default=(), description="lies to tell from the start"
    )
    script: OptionalPath = Field(
        default=None, description="YAML file of control verbs with the times to run them"
    )
    create_timeout: Duration = Field(default=300.0, gt=0, description="longest time of a Create")
    configure_timeout: Duration = Field(
        default=300.0, gt=0, description="longest time from Configure to Ready"
    )
    drain_timeout: Duration = Field(
        default=600.0, gt=0, description="longest time of a Drain on top of its grace"
    )
    delete_timeout: Duration = Field(default=300.0, gt=0, description="longest time of a Delete")
    max_message_bytes: ByteSize = Field(
        default=1 << 30, ge=1, description="largest response; larger ones are refused"
    )


def _run(settings: FakeProviderSettings, console: Console) -> int:
    from bigfleet.app.fake_provider.serve import serve

    if settings.inventory is not None and settings.catalog:
        raise UsageError("--catalog: found together with --inventory, allowed is one of the two")
    check_certificates(settings)
    return serve(settings, console)


SERVE = CliCommand(
    FakeProviderSettings,
    _run,
    """Serve simulated machines behind the real provider contract, with the failures of real providers. Machines come from a
    file of pools or from a workload catalogue. Flags set delays, failures, stock-outs, losses and lies; the control API
    (HTTP with JSON, on loopback only, with a web page) changes them at run time.

    The same seed gives the same delays and failures. With --state the provider survives a crash.""",
    (
        "bigfleet-fake-provider --inventory pools.yaml",
        "bigfleet-fake-provider --catalog realistic --idle 1000 --speculative 15000 --latency create=lognormal:30s,p99=4m",
        "bigfleet-fake-provider --inventory pools.yaml --control-addr 127.0.0.1:9001 --state ./state",
        "bigfleet-fake-provider --inventory pools.yaml --stockout 'm6i.large@zone-a=5m-10m' --lie drop-list=0.3",
    ),
)
