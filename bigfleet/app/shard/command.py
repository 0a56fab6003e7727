"""Flags and defaults of `bigfleet shard`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `shard#flags`, `packaging#settings-sources`, `packaging#exit-codes`, `packaging#shard-flags`.
"""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from bigfleet.app.dashboard.beside import check_dashboard
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.kinds import (
    ByteSize,
    Cli,
    Directory,
    Duration,
    HttpListen,
    Listen,
    OptionalDial,
    OptionalPath,
)
from bigfleet.cli.framework.settings import ConnectionFlags, ProcessFlags, TlsFlags
from bigfleet.shard.options import ShardOptions
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"
_DEFAULTS: Final = ShardOptions()

_FAKE_ONLY: Final = (
    "seed_machines",
    "seed_speculative",
    "seed_spot",
    "seed_configured_per_cluster",
    "seed_cluster_total",
    "seed_cluster_stride",
    "seed_density_multiplier",
    "archetypes",
    "failure_rate_per_sec",
    "speculative_shed_at_seconds",
    "speculative_shed_multiplier",
    "fake_create_latency",
)
"""Flags of the in-process fake provider."""

_ORDINAL: Final = re.compile(r".*-([0-9]{1,9})")


class ShardSettings(ProcessFlags, TlsFlags, ConnectionFlags, env_prefix="BIGFLEET_SHARD_"):
    """Flags of `bigfleet shard`."""

    listen: Listen = Field(default=ListenAddress(_LOOPBACK, 7780), description="gRPC address")
    metrics_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 8780), description="address of metrics and probes, 0 for none"
    )
    dashboard_addr: Annotated[HttpListen, Cli(default="no dashboard")] = Field(
        default=None, description="HTTP address of a dashboard that this shard starts as a separate process"
    )
    id: str = Field(
        default=_DEFAULTS.shard_id, min_length=1, description="shard id, the same after every restart"
    )
    data_dir: Directory = Field(
        default=Path("./data"), description="directory of the epoch; must outlive the process"
    )
    provider_addr: OptionalDial = Field(
        default="", description="provider to dial; empty runs a fake provider in this process"
    )
    provider_max_message_bytes: ByteSize = Field(
        default=1 << 30, ge=1, description="largest response accepted from the provider"
    )
    coordinator_addr: OptionalDial = Field(default="", description="coordinator to report to; empty for none")
    advertise_addr: OptionalDial = Field(
        default="", description="address to report to the coordinator; empty reports --listen"
    )
    shared_provider: bool = Field(
        default=False,
        description="share the provider with other shards: own the machines of the domains that the coordinator assigns",
    )
    partition_key: str = Field(
        default="topology.kubernetes.io/zone",
        min_length=1,
        description="label key that divides the machines of a shared provider among its shards",
    )
    coordinator_heartbeat_interval: Duration = Field(
        default=10.0, gt=0, description="time between two reports to the coordinator"
    )
    cycle_interval: Duration = Field(
        default=_DEFAULTS.cycle_interval_s, gt=0, description="time between two regular cycles"
    )
    list_timeout: Duration = Field(
        default=_DEFAULTS.list_timeout_s,
        gt=0,
        description="how long the provider has for a listing; raise it for fleets whose listing takes longer",
    )
    transition_poll_interval: Duration = Field(
        default=_DEFAULTS.transition_poll_interval_s,
        ge=0,
        description="time between two looks at machines that the provider is creating, configuring or draining; 0 to look"
        " at ticks only",
    )
    max_actions_per_cycle: int = Field(
        default=_DEFAULTS.max_actions_per_cycle, ge=0, description="actions a cycle may start, 0 for no limit"
    )
    execute_concurrency: int = Field(
        default=_DEFAULTS.execute_concurrency,
        ge=1,
        le=10_000,
        description="actions to execute at the same time",
    )
    incremental_reconcile: bool = Field(
        default=_DEFAULTS.incremental_reconcile,
        description="list only changes from the provider; a machine that it drops then stays until a restart",
    )
    available_capacity_interval: Duration = Field(
        default=0.0, ge=0, description="minimum time between two hints about a profile, 0 for 5s"
    )
    metrics_warmup_cycles: int = Field(
        default=_DEFAULTS.metrics_warmup_cycles,
        ge=0,
        description="first cycles to leave out of the histograms",
    )
    phase_attribution_log: Annotated[bool, Cli(variables=("BIGFLEET_PHASEDUMP",))] = Field(
        default=_DEFAULTS.phase_attribution_log,
        description="log every 20th cycle which capacity is released while needs are short",
    )
    actuation_paused: bool = Field(
        default=_DEFAULTS.actuation_paused, description="kill switch: decide, but execute nothing"
    )
    dry_run: bool = Field(
        default=_DEFAULTS.dry_run, description="shadow mode: decide and log, but execute nothing"
    )
    reclaim_cap_fraction: float = Field(
        default=_DEFAULTS.reclaim_cap_fraction,
        ge=0,
        le=1,
        description="share of a cluster's machines that one cycle may release, 0 for no cap",
    )
    empty_rollup_guard: bool = Field(
        default=_DEFAULTS.empty_rollup_guard, description="hold back roll-ups that look like a lost cache"
    )
    max_rows_per_cluster: Annotated[int, Cli(limit=True)] = Field(
        default=_DEFAULTS.rollup_limits.rows,
        ge=1,
        description="rows of demand accepted from one cluster, as each costs every cycle time and memory",
    )
    max_rollup_bytes: Annotated[ByteSize, Cli(limit=True)] = Field(
        default=_DEFAULTS.rollup_limits.size_bytes,
        ge=1,
        description="largest roll-up accepted from one cluster, as reading it takes several times its size in memory",
    )
    listing_guard_window: Duration = Field(
        default=_DEFAULTS.listing_guard_window_s,
        ge=0,
        description="how long listings must lack many machines before the shard believes that they are gone",
    )
    audit_log: OptionalPath = Field(default=None, description="file of JSON lines, one per action")
    audit_strict: bool = Field(
        default=_DEFAULTS.audit_strict, description="execute nothing while the audit log cannot be written"
    )
    audit_max_bytes: ByteSize = Field(
        default=100 << 20, ge=1, description="size at which the audit log is rotated"
    )
    audit_keep: int = Field(default=5, ge=0, description="number of old audit logs to keep")
    local_bootstrap: bool = Field(
        default=_DEFAULTS.local_bootstrap,
        description="create stub blobs instead of asking operators; for tests",
    )
    hello_timeout: Annotated[Duration, Cli(limit=True)] = Field(
        default=_DEFAULTS.hello_timeout_s,
        gt=0,
        description="how long a new stream may take to say Hello; an operator needs milliseconds, seconds when thousands dial at once",
    )
    max_silent_streams: Annotated[int, Cli(limit=True)] = Field(
        default=_DEFAULTS.max_silent_streams,
        ge=1,
        description="streams that may be open without Hello; beyond it the one silent for longest ends, so that silence "
        "costs bounded memory",
    )
    max_sessions: Annotated[int, Cli(limit=True)] = Field(
        default=_DEFAULTS.max_sessions,
        ge=1,
        description="operators that may be connected at the same time; more are refused, so that memory is bounded",
    )
    max_session_age: Annotated[Duration, Cli(limit=True)] = Field(
        default=_DEFAULTS.max_session_age_s,
        ge=0,
        description="age at which a session ends and its operator connects again, which checks its certificate again; ages "
        "are scattered over a fifth, 0 for no limit",
    )
    ingest_share: Annotated[float, Cli(limit=True)] = Field(
        default=_DEFAULTS.ingest_share,
        gt=0,
        le=1,
        description="share of one core that reading one cluster's frames may take for long; a cluster beyond it waits, so "
        "that the others do not",
    )
    seed_machines: int = Field(default=0, ge=0, description="in-process fake: Idle machines")
    seed_speculative: int = Field(default=0, ge=0, description="in-process fake: on-demand slots")
    seed_spot: int = Field(default=0, ge=0, description="in-process fake: spot slots")
    seed_configured_per_cluster: int = Field(
        default=0, ge=0, description="in-process fake: Configured machines of each cluster of this shard"
    )
    seed_cluster_total: int = Field(
        default=0, ge=0, description="in-process fake: clusters of the whole fleet"
    )
    seed_cluster_stride: int = Field(
        default=0,
        ge=0,
        description="in-process fake: shards of the whole fleet; this shard has every Nth cluster",
    )
    seed_density_multiplier: int = Field(default=1, ge=1, description="in-process fake: pods per machine")
    archetypes: Annotated[str, Cli(metavar="NAME|FILE")] = Field(
        default="", description="in-process fake: workload catalogue, a built-in one or a YAML file"
    )
    failure_rate_per_sec: float = Field(
        default=0.0, ge=0, description="in-process fake: losses per Configured machine and second"
    )
    speculative_shed_at_seconds: int = Field(
        default=0, ge=0, description="in-process fake: when slots are lost, 0 for never"
    )
    speculative_shed_multiplier: float = Field(
        default=1.0, ge=0, le=1, description="in-process fake: share of the slots that remains then"
    )
    fake_create_latency: Annotated[Duration, Cli(variables=("BIGFLEET_FAKE_CREATE_LATENCY",))] = Field(
        default=0.0, ge=0, description="in-process fake: duration of a Create"
    )

    @property
    def ordinal(self) -> int | None:
        """The number at the end of an id such as `shard-3`, or None."""
        found = _ORDINAL.fullmatch(self.id)
        return None if found is None else int(found[1])


def check(settings: ShardSettings) -> None:
    """Refuse flags that contradict each other."""
    check_dashboard(settings.dashboard_addr, settings)
    if settings.provider_addr:
        for name in _FAKE_ONLY:
            if getattr(settings, name) != type(settings).model_fields[name].default:
                raise UsageError(
                    f"--{name.replace('_', '-')}: found together with --provider-addr, allowed is with the "
                    "provider inside this process only"
                )
    _check_sharing(settings)
    if settings.seed_configured_per_cluster:
        if not settings.seed_cluster_total or not settings.seed_cluster_stride:
            raise UsageError(
                "--seed-configured-per-cluster: found without --seed-cluster-total and --seed-cluster-stride, "
                "allowed is with both of them"
            )
        if settings.ordinal is None:
            raise UsageError(
                f"--id: found {settings.id!r} with --seed-configured-per-cluster, allowed is an id that ends in -N"
            )


def _check_sharing(settings: ShardSettings) -> None:
    if not settings.shared_provider:
        return
    for flag, given, why in (
        (
            "--provider-addr",
            settings.provider_addr,
            "no other shard can reach the provider inside this process",
        ),
        ("--coordinator-addr", settings.coordinator_addr, "it says which domains are this shard's"),
    ):
        if not given:
            raise UsageError(f"--shared-provider: found without {flag}, allowed is with it, since {why}")
    if settings.incremental_reconcile:
        raise UsageError(
            "--shared-provider: found together with --incremental-reconcile, allowed is without it, since only a full "
            "listing shows the machines of a domain that was assigned"
        )


def _run(settings: ShardSettings, console: Console) -> int:
    from bigfleet.app.shard.serve import serve

    check(settings)
    return serve(settings, console)


SHARD = CliCommand(
    ShardSettings,
    _run,
    """Run a shard. It follows the machines of one provider, receives the demand of the operators that connect to it, decides
    every few seconds which machine serves which cluster, and executes the decision. It works without a coordinator.

    A shard keeps nothing on disk but its epoch: provider and operators send everything else again after a restart.""",
    (
        "bigfleet shard --provider-addr provider:9000 --data-dir /var/lib/bigfleet --listen :7780",
        "bigfleet shard --seed-machines 100 --archetypes realistic --local-bootstrap",
        "bigfleet shard --provider-addr provider:9000 --dry-run --audit-log ./decisions.jsonl",
    ),
)
