"""The catalogue of the operator's metrics.

Must never: have the name of a machine, pod or request as a label.
Rules: `operator#operator-metrics`, with the buckets of `operator#operator-metrics` for roll-ups.
"""

from itertools import product

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Label, catalogue, counter, gauge, histogram
from bigfleet.operator.core.fragment_terms import Why

_NODE_PHASES = ("Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed")
_OPS = ("create", "spec_update", "status_update", "delete")

OPERATOR_METRICS = catalogue(
    "operator",
    contract=(
        counter(
            "bigfleet_operator_session_reconnects_total",
            "Times the session to the shard was opened anew, a clean close by the shard included.",
        ),
        histogram(
            "bigfleet_operator_rollup_duration_seconds",
            "How long a roll-up took to list, build and enqueue; sending is not in it.",
            buckets=Buckets.ROLLUP,
        ),
        histogram(
            "bigfleet_operator_rollup_phase_duration_seconds",
            "How long one part of a roll-up took.",
            labels=(Label("phase", ("list", "build", "enqueue")),),
            buckets=Buckets.ROLLUP,
        ),
        histogram(
            "bigfleet_operator_acknowledge_duration_seconds",
            "How long one batch of status writes on CapacityRequests took.",
            buckets=Buckets.B,
        ),
        counter(
            "bigfleet_operator_acknowledged_total",
            "CapacityRequests marked as acknowledged.",
        ),
        counter(
            "bigfleet_operator_outbox_dropped_total",
            "Frames for the shard dropped because the outbox was full.",
        ),
        gauge(
            "bigfleet_operator_dispatch_inflight",
            "Frames of the shard being handled right now.",
        ),
        histogram(
            "bigfleet_operator_node_state_update_duration_seconds",
            "From a node-state frame to the UpcomingNode written, by the phase it ended in.",
            labels=(Label("phase", _NODE_PHASES),),
            buckets=Buckets.E,
        ),
        counter(
            "bigfleet_operator_upcoming_node_writes_total",
            "Writes of UpcomingNodes; a conflict may also be an object that existed, a noop was not worth a call.",
            labels=(Label("op", _OPS), Label("outcome", ("success", "conflict", "error", "noop"))),
            impossible=frozenset(product((op for op in _OPS if op != "status_update"), ("noop",))),
        ),
        histogram(
            "bigfleet_operator_upcoming_node_op_duration_seconds",
            "How long one API call about an UpcomingNode took.",
            labels=(Label("op", _OPS),),
            buckets=Buckets.E,
        ),
    ),
    stable=(
        gauge("bigfleet_operator_session_up", "1 while the shard has accepted our hello."),
        gauge(
            "bigfleet_operator_last_ack_timestamp_seconds",
            "When the shard last acknowledged a roll-up, in seconds since 1970; 0 before the first time.",
        ),
        gauge(
            "bigfleet_operator_cache_age_seconds",
            "Time since the cache of a kind was last known to be in step with the API server.",
            labels=(Label("kind"),),
        ),
        histogram(
            "bigfleet_operator_rollup_send_duration_seconds",
            "How long writing a roll-up to the stream took.",
            buckets=Buckets.B,
        ),
        histogram(
            "bigfleet_operator_rollup_delay_seconds",
            "From the first change of a request that a roll-up tells to the roll-up sent; the first roll-up of a session is left out.",
            buckets=Buckets.ROLLUP,
        ),
        gauge("bigfleet_operator_rollup_bytes", "Size of the last roll-up."),
        gauge("bigfleet_operator_rollup_rows", "Rows of the last roll-up."),
        gauge(
            "bigfleet_operator_rollup_refused",
            "1 while the shard refuses the roll-ups of this cluster and goes on with the last one it accepted.",
        ),
        counter("bigfleet_operator_rollups_refused_total", "Roll-ups that the shard refused as a whole."),
        gauge(
            "bigfleet_operator_capacity_requests_skipped",
            "CapacityRequests left out of the last roll-up, by what is wrong with them.",
            labels=(Label("reason", ("operator", "requirement", "quantity", "spread", "selector")),),
        ),
        counter(
            "bigfleet_operator_reclaims_total",
            "Nodes named in reclaim instructions, by what became of them.",
            labels=(Label("outcome", ("started", "unresolved", "ambiguous", "cordon_failed")),),
        ),
        counter(
            "bigfleet_operator_drains_total",
            "Drains by how they ended.",
            labels=(Label("outcome", ("drained", "deadline", "refused")),),
        ),
        counter(
            "bigfleet_operator_evictions_total",
            "Evictions by the API server's answer: status and cause.",
            labels=(Label("answer"),),
        ),
        counter(
            "bigfleet_operator_orphans_deleted_total",
            "Objects deleted because nothing stands behind them any more.",
            labels=(Label("kind"),),
        ),
        gauge(
            "bigfleet_operator_fragments_machines",
            "Machines asked for on top of the sum, for pods that have no node beside it.",
        ),
        counter(
            "bigfleet_operator_fragments_changes_total",
            "Rows for which more or fewer machines were asked for on top of the sum.",
            labels=(Label("kind", ("raised", "lowered")),),
        ),
        gauge(
            "bigfleet_operator_fragments_stuck_pods",
            "Pods that the scheduler calls Unschedulable, by what is done for them beyond the sum.",
            labels=(Label("reason", tuple(why.value for why in Why)),),
        ),
        counter("bigfleet_operator_uncordons_total", "Nodes made schedulable again."),
    ),
)
