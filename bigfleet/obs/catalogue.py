"""Every metric of every process: the one list that collectors, reference page, boards and rules are held against.

Why: a metric's name is contract. Written once, as data, it can be checked; spread over the code it drifts.
Must never: list a metric that no process can export.
Rules: shard 21, coordinator 13, operator 8, providers 4.1, packaging 4.3.
"""

from bigfleet.aio.identity import Role
from bigfleet.obs.buckets import Buckets
from bigfleet.obs.coordinator_catalogue import COORDINATOR
from bigfleet.obs.dashboard_catalogue import DASHBOARD
from bigfleet.obs.metric import Component, Label, Metric, Type
from bigfleet.obs.operator_catalogue import OPERATOR, POD_CONTROLLER
from bigfleet.obs.provider_catalogue import PROVIDER
from bigfleet.obs.shard_catalogue import SHARD

EVERY_PROCESS = (
    Metric(
        Component.EVERY,
        "bigfleet_build_info",
        Type.GAUGE,
        "Always 1; the labels say which build this is.",
        labels=(Label("component"), Label("version"), Label("commit")),
    ),
    Metric(
        Component.EVERY,
        "bigfleet_event_loop_lag_seconds",
        Type.HISTOGRAM,
        "How much later than asked the event loop woke a sleeper; high when something blocks it.",
        buckets=Buckets.D,
    ),
    Metric(
        Component.EVERY,
        "bigfleet_tls_certificate_not_after_timestamp_seconds",
        Type.GAUGE,
        "When our certificate ends, in seconds since 1970; absent without TLS.",
        labels=(Label("role", tuple(role.value for role in Role)),),
        on_demand=True,
    ),
)

CATALOGUE: tuple[Metric, ...] = (
    *EVERY_PROCESS, *SHARD, *COORDINATOR, *OPERATOR, *POD_CONTROLLER, *PROVIDER, *DASHBOARD,
)  # fmt: skip


def metrics_of(component: Component) -> tuple[Metric, ...]:
    """Return what one process exports: its own metrics and those of every process."""
    return tuple(metric for metric in CATALOGUE if metric.component in (component, Component.EVERY))
