"""The catalogue of metrics of a provider built on the kit.

Rules: `providers#kit-observability`, `providers#empty-token`, `providers#shard-san`, `providers#epoch-step`.
"""

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Label, catalogue, counter, gauge, histogram
from bigfleet.provider.contract import STATES

PROVIDER_METRICS = catalogue(
    "provider",
    stable=(
        histogram(
            "bigfleet_provider_rpc_seconds",
            "How long one of the six calls took, by call and status code.",
            labels=(Label("rpc", ("Create", "Configure", "Drain", "Delete", "Get", "List")), Label("code")),
            buckets=Buckets.D,
        ),
        histogram(
            "bigfleet_provider_transition_seconds",
            "From accepting an operation to its end.",
            labels=(Label("kind", ("create", "configure", "drain", "delete")), Label("outcome")),
            buckets=Buckets.C,
        ),
        gauge(
            "bigfleet_provider_machines",
            "Machine records by state.",
            labels=(Label("state", tuple(state.label for state in STATES)),),
        ),
        counter(
            "bigfleet_provider_fenced_total",
            "Calls refused because their token was older than one already seen for the machine.",
        ),
        counter(
            "bigfleet_provider_unfenced_total",
            "Calls accepted without a fencing token.",
        ),
        counter(
            "bigfleet_provider_refused_total",
            "Calls refused by a requirement or a limit: identity (no certificate of the shard), no_token, epoch (too far above "
            "the highest one seen).",
            labels=(Label("reason", ("identity", "no_token", "epoch")),),
        ),
        histogram(
            "bigfleet_provider_store_fsync_seconds",
            "How long one sync of the state journal took.",
            buckets=Buckets.D,
        ),
        counter(
            "bigfleet_provider_records_invalid_total",
            "Records of the backend skipped as invalid, by the rule they break.",
            labels=(Label("reason"),),
        ),
    ),
)
