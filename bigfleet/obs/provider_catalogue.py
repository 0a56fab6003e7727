"""Metrics of a provider built on our kit.

Rules: providers 4.1; decision P1 wants calls without a fencing token counted.
"""

from functools import partial

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.metric import Component, Label, Metric, Type
from bigfleet.obs.shard_catalogue import STATES

_metric = partial(Metric, Component.PROVIDER)

PROVIDER = (
    _metric(
        "bigfleet_provider_rpc_seconds",
        Type.HISTOGRAM,
        "How long one of the six calls took, by call and status code.",
        labels=(Label("rpc", ("Create", "Configure", "Drain", "Delete", "Get", "List")), Label("code")),
        buckets=Buckets.D,
    ),
    _metric(
        "bigfleet_provider_transition_seconds",
        Type.HISTOGRAM,
        "From accepting an operation to its end.",
        labels=(Label("kind", ("create", "configure", "drain", "delete")), Label("outcome")),
        buckets=Buckets.C,
    ),
    _metric(
        "bigfleet_provider_machines",
        Type.GAUGE,
        "Machine records by state.",
        labels=(Label("state", STATES),),
    ),
    _metric(
        "bigfleet_provider_fenced_total",
        Type.COUNTER,
        "Calls refused because their token was older than one already seen for the machine.",
    ),
    _metric(
        "bigfleet_provider_unfenced_total",
        Type.COUNTER,
        "Calls accepted without a fencing token.",
    ),
    _metric(
        "bigfleet_provider_store_fsync_seconds",
        Type.HISTOGRAM,
        "How long one sync of the state journal took.",
        buckets=Buckets.D,
    ),
    _metric(
        "bigfleet_provider_records_invalid_total",
        Type.COUNTER,
        "Records of the backend skipped as invalid, by the rule they break.",
        labels=(Label("reason"),),
    ),
)
