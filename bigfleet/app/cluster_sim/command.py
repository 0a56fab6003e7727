"""`bigfleet cluster-sim`: its flags.

Must never: import what serves before it is asked to serve; `--help` has to be quick.
Rules: packaging 1.10.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import Cli, Dial
from bigfleet.cli.framework.settings import ProcessFlags, TlsFlags


class ClusterSimSettings(ProcessFlags, TlsFlags, env_prefix="BIGFLEET_CLUSTER_SIM_"):
    """Flags of `bigfleet cluster-sim`."""

    cluster_id: str = Field(
        min_length=1, description="name of the cluster; under TLS the one of its certificate"
    )
    shard_addr: Dial = Field(description="gRPC address of the shard that serves it, host:port")
    demand: Annotated[Path, Cli(metavar="FILE")] = Field(
        description="YAML file of rows, schedules and a seed"
    )


def _run(settings: ClusterSimSettings, console: Console) -> int:
    from bigfleet.app.cluster_sim.serve import serve

    return serve(settings, console)


CLUSTER_SIM = Command(
    ClusterSimSettings,
    _run,
    """Speak the operator's side of a session from a file of demand: send roll-ups as the schedule says, answer bootstrap
    requests, give machines back when asked. Needs no Kubernetes; for compose files, demos and load. What happens is
    printed in plain words, one line each.""",
    ("bigfleet cluster-sim --cluster-id web --shard-addr 127.0.0.1:7780 --demand web.yaml",),
)
