"""Flags and defaults of `bigfleet all-in-one`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `shard#all-in-one`, `packaging#all-in-one`.
"""

from typing import Final

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import Duration, HttpListen, Listen, OptionalPath
from bigfleet.cli.framework.settings import ProcessFlags
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"


class AllInOneSettings(ProcessFlags, env_prefix="BIGFLEET_ALL_IN_ONE_"):
    """Flags of `bigfleet all-in-one`."""

    shard_listen: Listen = Field(
        default=ListenAddress(_LOOPBACK, 7780), description="gRPC address of the shard"
    )
    coordinator_listen: Listen = Field(
        default=ListenAddress(_LOOPBACK, 7790), description="gRPC address of the coordinator"
    )
    raft_bind: Listen = Field(
        default=ListenAddress(_LOOPBACK, 7791), description="Raft address of the coordinator"
    )
    shard_metrics_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 8780), description="metrics and probes of the shard, 0 for none"
    )
    coordinator_metrics_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 8790),
        description="metrics and probes of the coordinator, 0 for none",
    )
    dashboard_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 8760), description="HTTP address of the dashboard, 0 for none"
    )
    data_dir: OptionalPath = Field(
        default=None,
        description="directory that keeps the state after the process ends; without it a temporary one is used",
    )
    shard_id: str = Field(default="shard-0", min_length=1, description="shard id")
    coordinator_id: str = Field(
        default="node-1", min_length=1, description="name of the coordinator's replica"
    )
    scenario: OptionalPath = Field(
        default=None,
        description="YAML file of machine pools and simulated clusters that replaces the built-in one",
    )
    cycle_interval: Duration = Field(default=5.0, gt=0, description="time from one decision to the next")
    open: bool = Field(default=False, description="open the dashboard in a browser")


def _run(settings: AllInOneSettings, console: Console) -> int:
    from bigfleet.app.all_in_one.serve import serve

    return serve(settings, console)


ALL_IN_ONE = CliCommand(
    AllInOneSettings,
    _run,
    """Run a whole small fleet in one process, for a first look and for development: a coordinator, a shard, a provider
    whose machines do not exist, three simulated clusters with changing demand, and the dashboard. Needs no Kubernetes.
    Prints events in plain words; Ctrl-C ends it.""",
    (
        "bigfleet all-in-one",
        "bigfleet all-in-one --data-dir ./fleet --open",
        "bigfleet all-in-one --scenario my-fleet.yaml",
    ),
)
