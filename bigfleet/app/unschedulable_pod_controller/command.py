"""Flags and defaults of `bigfleet-unschedulable-pod-controller`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `operator#process`, `packaging#settings-sources`, `packaging#pod-controller-flags`.
"""

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import Duration, HttpListen, OptionalPath
from bigfleet.cli.framework.settings import ProcessFlags
from bigfleet.transport.address import ListenAddress


class PodControllerSettings(ProcessFlags, env_prefix="BIGFLEET_UPC_"):
    """Flags of `bigfleet-unschedulable-pod-controller`."""

    kubeconfig: OptionalPath = Field(
        default=None,
        description="kubeconfig of the cluster; default: $KUBECONFIG, the user's own file, or the service account of the pod",
    )
    metrics_addr: HttpListen = Field(
        default=ListenAddress("127.0.0.1", 8080), description="address of metrics and probes"
    )
    priority_class_defaults: OptionalPath = Field(
        default=None, description="YAML file of penalties by priority class, read once at the start"
    )
    qps: float = Field(default=50.0, gt=0, description="average calls per second to the API server")
    burst: int = Field(default=100, ge=1, description="calls to the API server allowed in a burst")
    concurrency: int = Field(default=16, ge=1, description="pods to process at the same time")
    resync_interval: Duration = Field(
        default=600.0, gt=0, description="time between two comparisons of all pods with all requests"
    )
    exclude_daemonset_pods: bool = Field(
        default=False,
        description="ignore DaemonSet pods and mirror pods, for clusters that must shrink to zero",
    )
    pod_events: bool = Field(
        default=True, description="write events on pods: what was requested and which node is coming"
    )
    leader_elect: bool = Field(
        default=False,
        description="work only while holding the lease bigfleet-unschedulable-pod-controller in its namespace",
    )


def _run(settings: PodControllerSettings, console: Console) -> int:
    from bigfleet.app.unschedulable_pod_controller.serve import serve

    return serve(settings, console)


RUN = CliCommand(
    PodControllerSettings,
    _run,
    """Keep one CapacityRequest for every pod of the cluster, scheduled or not, for as long as the pod exists, so that the
    operator can report total demand. Pods that succeeded or failed have none; pods with scheduling gates get one when the
    last gate is removed. Requests without the label bigfleet.lucy.sh/owned-by-pod are never touched.

    The controller lists and watches pods, and writes capacityrequests and events; see the role in the chart.""",
    (
        "bigfleet-unschedulable-pod-controller --metrics-addr :8080",
        "bigfleet-unschedulable-pod-controller --priority-class-defaults /etc/bigfleet/defaults.yaml",
        "bigfleet-unschedulable-pod-controller --exclude-daemonset-pods --resync-interval 5m",
    ),
)
