"""Flags and defaults of `bigfleet-operator`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `operator#start-order`, `operator#process`, `packaging#settings-sources`.
"""

from typing import Annotated, Final

from pydantic import Field

from bigfleet.aio.identity import Identity
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UnreadableValueError, UsageError
from bigfleet.cli.framework.kinds import Cli, Duration, HttpListen, OptionalPath
from bigfleet.cli.framework.settings import ProcessFlags, TlsFlags
from bigfleet.cli.framework.values import parse_dial_address
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import ListenAddress

DEFAULT_ROLLUP_S: Final = 10.0


class OperatorSettings(ProcessFlags, TlsFlags, env_prefix="BIGFLEET_OPERATOR_"):
    """Flags of `bigfleet-operator`."""

    cluster_id: Annotated[str, Cli(metavar="ID")] = Field(
        default="",
        description="stable id of the cluster, required; with TLS the id in the certificate",
    )
    shard_addr: Annotated[str, Cli(metavar="ADDRESS")] = Field(
        default="", description="host:port of the shard that serves the cluster, required"
    )
    kubeconfig: OptionalPath = Field(
        default=None,
        description="kubeconfig of the cluster; default: $KUBECONFIG, the user's own file, or the service account of the pod",
    )
    metrics_addr: HttpListen = Field(
        default=ListenAddress("127.0.0.1", 8770), description="address of metrics and probes"
    )
    qps: float = Field(default=50.0, gt=0, description="average calls per second to the API server")
    burst: int = Field(default=100, ge=1, description="calls to the API server allowed in a burst")
    ack_concurrency: int = Field(default=16, ge=1, description="requests to acknowledge at the same time")
    rollup_interval: Annotated[Duration, Cli(default="10s")] = Field(
        default=0.0, description="longest time between two roll-ups; 0 means 10s"
    )
    rollup_quiet: Duration = Field(
        default=0.1, ge=0, description="time without a change of demand after which a roll-up is sent"
    )
    rollup_max_delay: Duration = Field(
        default=1.0, ge=0, description="longest time from a change of demand to its roll-up"
    )
    bootstrap_template_file: OptionalPath = Field(
        default=None,
        description="template of the bootstrap blob; without it machines get a stub that boots nothing",
    )
    bootstrap_ttl: int = Field(
        default=0, ge=0, description="seconds for which a rendered blob is valid; 0 means not stated"
    )
    cache_sync_timeout: Duration = Field(
        default=600.0, description="longest time of the initial lists of the cluster's objects"
    )
    watch_pods: bool = Field(
        default=True,
        description="keep a small part of every pod, to learn what nodes must hold beside the pods that ask for capacity",
    )
    fragments: bool = Field(
        default=True,
        description="ask for machines on top of the sum for pods that have no node beside it; needs --watch-pods",
    )
    stuck_after: Annotated[Duration, Cli(default="30s")] = Field(
        default=30.0,
        gt=0,
        description="time for which a pod is Unschedulable before machines are asked for it on top",
    )
    fragments_share: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="most that is asked for on top, as a part of the demand in each resource; 0 is nothing",
    )
    orphan_sweep: bool = Field(
        default=True,
        description="delete UpcomingNodes of machines that left while the operator was not connected",
    )
    leader_elect: bool = Field(
        default=False,
        description="dial and work only while holding the lease bigfleet-operator in its namespace",
    )


def _run(settings: OperatorSettings, console: Console) -> int:
    from bigfleet.app.operator.serve import serve

    if not settings.cluster_id:
        raise UsageError("--cluster-id: missing, allowed is the stable id of the cluster")
    if not settings.shard_addr:
        raise UsageError("--shard-addr: missing, allowed is host:port of the shard")
    try:
        Identity.cluster(settings.cluster_id)
        parse_dial_address(settings.shard_addr)
    except InvalidFieldError as error:
        raise UsageError(f"--cluster-id: found {settings.cluster_id!r}, allowed is {error.allowed}") from None
    except UnreadableValueError as error:
        raise UsageError(f"--shard-addr: {error}") from None
    return serve(settings, console)


RUN = CliCommand(
    OperatorSettings,
    _run,
    """Represent one Kubernetes cluster. The operator adds up the CapacityRequests of the cluster and sends the whole demand
    to one shard when it changes and every few seconds, shows machines on their way as UpcomingNodes and hints as
    AvailableCapacities, renders bootstrap blobs, and drains nodes that have to leave: cordon, then eviction within disruption budgets.

    It only dials out, and listens for metrics and probes only. Run one per cluster.""",
    (
        "bigfleet-operator --cluster-id prod-1 --shard-addr shard-0.bigfleet:7780 --metrics-addr :8770",
        "bigfleet-operator --cluster-id prod-1 --shard-addr shard-0:7780 --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
    ),
)
