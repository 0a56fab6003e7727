"""Flags and defaults of `bigfleet coordinator`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `coordinator#fixed-membership`, `coordinator#flags`, `packaging#settings-sources`, `packaging#exit-codes`,
`packaging#coordinator-flags`.
"""

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import Cli, Directory, Duration, HttpListen, Listen, OptionalPath
from bigfleet.cli.framework.settings import ConnectionFlags, ProcessFlags, TlsFlags
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"
SECRET_BYTES: Final = 32


class CoordinatorSettings(ProcessFlags, TlsFlags, ConnectionFlags, env_prefix="BIGFLEET_COORDINATOR_"):
    """Flags of `bigfleet coordinator`."""

    id: str = Field(
        default="node-1",
        min_length=1,
        description="name of this replica; with --join-addr it must end in its ordinal",
    )
    listen: Listen = Field(default=ListenAddress(_LOOPBACK, 7790), description="gRPC address")
    raft_bind: Listen = Field(
        default=ListenAddress(_LOOPBACK, 7791), description="address for Raft traffic between replicas"
    )
    metrics_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 8790), description="address of metrics and probes"
    )
    dashboard_addr: Annotated[HttpListen, Cli(default="no dashboard")] = Field(
        default=None, description="HTTP address of a dashboard that this replica starts as a separate process"
    )
    data_dir: Directory = Field(
        default=Path("coord-data"),
        description="directory of journal, snapshot and identity; created if absent",
    )
    bootstrap: bool = Field(
        default=False,
        description="form a new cluster if there is none; with --join-addr only ordinal 0 does; may stay set",
    )
    bootstrap_without_peers: bool = Field(
        default=False, description="form or lead a cluster although a peer cannot be reached"
    )
    join_addr: Annotated[str, Cli(metavar="ADDRESS")] = Field(
        default="", description="headless service of all replicas, with their gRPC port"
    )
    raft_advertise: Annotated[str, Cli(metavar="ADDRESS")] = Field(
        default="",
        description="where peers reach --raft-bind; begins with --id and a dot; derived from --join-addr when empty",
    )
    peers: Annotated[str, Cli(metavar="ID@RAFT@GRPC,…")] = Field(
        default="", description="all replicas, instead of --join-addr, where they are not a StatefulSet"
    )
    replicas: int = Field(default=1, description="number of replicas: 1 or 3")
    raft_secret_file: OptionalPath = Field(
        default=None,
        description="file of at least 32 random bytes, the same on all replicas; required with more than one",
    )
    snapshot_export_dir: Annotated[OptionalPath, Cli(metavar="DIR", default="no exports")] = Field(
        default=None, description="directory to which the leader exports snapshots"
    )
    snapshot_export_interval: Duration = Field(
        default=0.0, description="time between exports; 0 means five minutes"
    )
    snapshot_export_keep: int = Field(default=12, ge=1, description="number of exports to keep")
    shutdown_grace: Duration = Field(
        default=5.0, description="time that calls in flight get after SIGTERM before they are cancelled"
    )

    @model_validator(mode="after")
    def _secret_beyond_one(self) -> Self:
        if self.replicas > 1 and self.raft_secret_file is None:
            raise ValueError(
                "--raft-secret-file: missing, allowed is a file of at least "
                f"{SECRET_BYTES} random bytes, as --replicas is {self.replicas}"
            )
        return self


def _run(settings: CoordinatorSettings, console: Console) -> int:
    from bigfleet.app.coordinator.serve import serve

    return serve(settings, console)


COORDINATOR = CliCommand(
    CoordinatorSettings,
    _run,
    """Run one replica of the coordinator, which records which shard owns which domain. With three replicas, acknowledged
    changes survive the loss of any one of them. Shards report to the leader and never wait for it.

    Three replicas with the same flags form a cluster by themselves: ordinal 0 begins, the others join as learners and then
    become voters. A single replica begins with --bootstrap.""",
    (
        "bigfleet coordinator --bootstrap",
        "bigfleet coordinator --id coordinator-0 --join-addr coordinator.example:7790 --replicas 3 --bootstrap --raft-secret-file secret",
        "bigfleet coordinator --bootstrap --snapshot-export-dir ./exports --snapshot-export-interval 1m",
    ),
)
