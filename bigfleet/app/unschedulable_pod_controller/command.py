"""`bigfleet-unschedulable-pod-controller`: its flags.

Must never: import what works before it is asked to work; `--help` has to be quick.
Rules: operator 9, packaging 1.2 and 1.8.
"""

from pydantic import Field

from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import Duration, HttpListen, OptionalPath
from bigfleet.cli.framework.settings import ProcessFlags
from bigfleet.transport.address import ListenAddress


class PodControllerSettings(ProcessFlags, env_prefix="BIGFLEET_UPC_"):
    """Flags of `bigfleet-unschedulable-pod-controller`."""

    kubeconfig: OptionalPath = Field(
        default=None,
        description="way into the cluster; without it $KUBECONFIG, the user's own file, or the pod's account",
    )
    metrics_addr: HttpListen = Field(
        default=ListenAddress("127.0.0.1", 8080), description="address of metrics and probes"
    )
    priority_class_defaults: OptionalPath = Field(
        default=None, description="YAML file of penalties by priority class, read once at the start"
    )
    qps: float = Field(default=50.0, gt=0, description="calls per second to the API server, on average")
    burst: int = Field(default=100, ge=1, description="calls that may be made at once after a quiet time")
    concurrency: int = Field(default=16, ge=1, description="pods that are worked on at once")
    resync_interval: Duration = Field(
        default=600.0, gt=0, description="time between two comparisons of all pods with all requests"
    )
    exclude_daemonset_pods: bool = Field(
        default=False,
        description="leave out pods of DaemonSets and mirror pods, for clusters that must shrink to nothing",
    )
    pod_events: bool = Field(
        default=True, description="tell pods by events what was asked for and which node is coming"
    )
    leader_elect: bool = Field(
        default=False, description="work only while holding the lease of this name in the own namespace"
    )


def _run(settings: PodControllerSettings, console: Console) -> int:
    from bigfleet.app.unschedulable_pod_controller.serve import serve

    return serve(settings, console)


RUN = Command(
    PodControllerSettings,
    _run,
    """Keep one CapacityRequest for every pod of the cluster, for the pod's whole life, scheduled or not, so that the operator
    can report total demand. Pods that succeeded or failed have none, and pods with scheduling gates get theirs when the last
    gate is gone. Requests without the label bigfleet.lucy.sh/owned-by-pod are never touched.

    It needs to list and watch pods, and to write capacityrequests and events; see the role of the chart.""",
    (
        "bigfleet-unschedulable-pod-controller --metrics-addr :8080",
        "bigfleet-unschedulable-pod-controller --priority-class-defaults /etc/bigfleet/defaults.yaml",
        "bigfleet-unschedulable-pod-controller --exclude-daemonset-pods --resync-interval 5m",
    ),
)
