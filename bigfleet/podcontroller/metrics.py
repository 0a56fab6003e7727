"""The catalogue of the unschedulable-pod controller's metrics.

Must never: have the name of a pod or request as a label.
Rules: `operator#operator-metrics`.
"""

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Label, catalogue, counter, histogram

POD_CONTROLLER_METRICS = catalogue(
    "pod-controller",
    contract=(
        counter(
            "bigfleet_unschedulable_pod_controller_reconciles_total",
            "Pods looked at, by what came of it.",
            labels=(
                Label(
                    "outcome",
                    (
                        "cr_created",
                        "cr_exists",
                        "cr_updated",
                        "pod_gone",
                        "pod_terminal",
                        "pod_gated",
                        "error",
                    ),
                ),
            ),
        ),
    ),
    stable=(
        counter(
            "bigfleet_unschedulable_pod_controller_inexact_total",
            "Pods whose constraints a CapacityRequest cannot express exactly, by the part that is widened.",
            labels=(Label("reason", ("gt_lt", "match_fields", "further_terms")),),
        ),
        histogram(
            "bigfleet_unschedulable_pod_controller_request_delay_seconds",
            "From a pod seen to its CapacityRequest created.",
            buckets=Buckets.ROLLUP,
        ),
    ),
)
