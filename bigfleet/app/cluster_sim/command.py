"""Flags and defaults of `bigfleet cluster-sim`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `packaging#other-commands`.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import SHARD_ADDR, Cli, Dial
from bigfleet.cli.framework.settings import ProcessFlags, TlsFlags


class ClusterSimSettings(ProcessFlags, TlsFlags, env_prefix="BIGFLEET_CLUSTER_SIM_"):
    """Flags of `bigfleet cluster-sim`."""

    cluster_id: str = Field(
        min_length=1, description="name of the cluster; with TLS the name in its certificate"
    )
    shard_addr: Annotated[Dial, SHARD_ADDR] = Field(
        description="gRPC address of the shard that serves the cluster, host:port"
    )
    demand: Annotated[Path, Cli(metavar="FILE")] = Field(
        description="YAML file of rows, schedules and a seed"
    )


def _run(settings: ClusterSimSettings, console: Console) -> int:
    from bigfleet.app.cluster_sim.serve import serve

    return serve(settings, console)


CLUSTER_SIM = CliCommand(
    ClusterSimSettings,
    _run,
    """Simulate the operator of a cluster from a file of demand: send roll-ups on schedule, answer bootstrap requests, and
    release machines on request. Needs no Kubernetes; for compose files, demos and load tests. Prints one line per event.""",
    ("bigfleet cluster-sim --cluster-id web --shard-addr 127.0.0.1:7780 --demand web.yaml",),
)
