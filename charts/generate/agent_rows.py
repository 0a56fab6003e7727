"""Values that the two programs inside a workload cluster have alike.

Must never: hold a value that only one of them knows.
Rules: `packaging#agent-charts`.
"""

from charts.generate.shared_rows import (
    RUNBOOKS,
    account_rows,
    image_rows,
    metrics_from_row,
    monitor_rows,
    naming_rows,
    placing_rows,
    resources_row,
    security_rows,
)
from charts.generate.value import Value, duration, objects, switch, text, texts, whole, words


def agent_rows(name: str, *, qps_hint: str) -> tuple[Value, ...]:
    """Return the values of both."""
    return (
        Value(
            "qps",
            {"type": "number", "exclusiveMinimum": 0},
            50,
            f"Calls per second to the API server, on average{qps_hint}",
        ),
        whole("burst", 100, "Calls that may be made at once after a quiet time", least=1),
        switch(
            "leaderElect",
            False,
            "Work only while holding a Lease in the own namespace; for more than one replica",
        ),
        whole("replicas", 1, "How many pods; more than one needs leaderElect", least=1, most=3),
        duration("shutdownGrace", "10s", "Time that calls in flight get after SIGTERM"),
        *image_rows(),
        *naming_rows(name),
        resources_row("resources", "100m", "128Mi", "1Gi"),
        *security_rows(),
        *account_rows(),
        switch("rbac.create", True, "Make the role and its binding"),
        *monitor_rows(),
        switch("prometheusRule.enabled", False, "Make a PrometheusRule with the alerts of this program"),
        words("prometheusRule.labels", {}, "Further labels of the PrometheusRule"),
        text("prometheusRule.runbookBaseUrl", RUNBOOKS, "Where the runbook pages are"),
        texts("prometheusRule.disabled", "Names of alerts to leave out"),
        switch("networkPolicy.enabled", True, "Make a NetworkPolicy"),
        switch("networkPolicy.egress.enabled", False, "Restrict what the pod may dial, too"),
        objects("networkPolicy.egress.extra", "Further egress rules"),
        metrics_from_row(),
        *placing_rows(),
    )
