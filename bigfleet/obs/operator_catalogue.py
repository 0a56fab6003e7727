"""Metrics of the operator and of the unschedulable-pod controller.

Rules: operator 8, with the buckets of decision O2 for roll-ups. No metric carries the name of a machine, pod or request.
"""

from functools import partial
from itertools import product

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.metric import Component, Label, Metric, Stability, Type

_contract = partial(Metric, Component.OPERATOR, stability=Stability.CONTRACT)
_metric = partial(Metric, Component.OPERATOR)

NODE_PHASES = ("Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed")
_OPS = ("create", "spec_update", "status_update", "delete")

OPERATOR = (
    _contract(
        "bigfleet_operator_session_reconnects_total",
        Type.COUNTER,
        "Times the session to the shard was opened anew, a clean close by the shard included.",
    ),
    _contract(
        "bigfleet_operator_rollup_duration_seconds",
        Type.HISTOGRAM,
        "How long a roll-up took to list, build and enqueue; sending is not in it.",
        buckets=Buckets.ROLLUP,
    ),
    _contract(
        "bigfleet_operator_rollup_phase_duration_seconds",
        Type.HISTOGRAM,
        "How long one part of a roll-up took.",
        labels=(Label("phase", ("list", "build", "enqueue")),),
        buckets=Buckets.ROLLUP,
    ),
    _contract(
        "bigfleet_operator_acknowledge_duration_seconds",
        Type.HISTOGRAM,
        "How long one batch of status writes on CapacityRequests took.",
        buckets=Buckets.B,
    ),
    _contract(
        "bigfleet_operator_acknowledged_total",
        Type.COUNTER,
        "CapacityRequests marked as acknowledged.",
    ),
    _contract(
        "bigfleet_operator_outbox_dropped_total",
        Type.COUNTER,
        "Frames for the shard dropped because the outbox was full.",
    ),
    _contract(
        "bigfleet_operator_dispatch_inflight",
        Type.GAUGE,
        "Frames of the shard being handled right now.",
    ),
    _contract(
        "bigfleet_operator_node_state_update_duration_seconds",
        Type.HISTOGRAM,
        "From a node-state frame to the UpcomingNode written, by the phase it ended in.",
        labels=(Label("phase", NODE_PHASES),),
        buckets=Buckets.E,
    ),
    _contract(
        "bigfleet_operator_upcoming_node_writes_total",
        Type.COUNTER,
        "Writes of UpcomingNodes; a conflict may also be an object that existed, a noop was not worth a call.",
        labels=(Label("op", _OPS), Label("outcome", ("success", "conflict", "error", "noop"))),
        impossible=frozenset(product((op for op in _OPS if op != "status_update"), ("noop",))),
    ),
    _contract(
        "bigfleet_operator_upcoming_node_op_duration_seconds",
        Type.HISTOGRAM,
        "How long one API call about an UpcomingNode took.",
        labels=(Label("op", _OPS),),
        buckets=Buckets.E,
    ),
    _metric("bigfleet_operator_session_up", Type.GAUGE, "1 while the shard has accepted our hello."),
    _metric(
        "bigfleet_operator_last_ack_timestamp_seconds",
        Type.GAUGE,
        "When the shard last acknowledged a roll-up, in seconds since 1970; 0 before the first time.",
    ),
    _metric(
        "bigfleet_operator_cache_age_seconds",
        Type.GAUGE,
        "Time since the cache of a kind was last known to be in step with the API server.",
        labels=(Label("kind"),),
    ),
    _metric(
        "bigfleet_operator_rollup_send_duration_seconds",
        Type.HISTOGRAM,
        "How long writing a roll-up to the stream took.",
        buckets=Buckets.B,
    ),
    _metric("bigfleet_operator_rollup_bytes", Type.GAUGE, "Size of the last roll-up."),
    _metric("bigfleet_operator_rollup_rows", Type.GAUGE, "Rows of the last roll-up."),
    _metric(
        "bigfleet_operator_capacity_requests_skipped",
        Type.GAUGE,
        "CapacityRequests left out of the last roll-up, by what is wrong with them.",
        labels=(Label("reason", ("operator", "requirement", "quantity", "spread", "selector")),),
    ),
    _metric(
        "bigfleet_operator_reclaims_total",
        Type.COUNTER,
        "Nodes named in reclaim instructions, by what became of them.",
        labels=(Label("outcome", ("started", "unresolved", "ambiguous", "cordon_failed")),),
    ),
    _metric(
        "bigfleet_operator_drains_total",
        Type.COUNTER,
        "Drains by how they ended.",
        labels=(Label("outcome", ("drained", "deadline", "refused")),),
    ),
    _metric(
        "bigfleet_operator_evictions_total",
        Type.COUNTER,
        "Evictions by the API server's answer: status and cause.",
        labels=(Label("answer"),),
    ),
    _metric(
        "bigfleet_operator_orphans_deleted_total",
        Type.COUNTER,
        "Objects deleted because nothing stands behind them any more.",
        labels=(Label("kind"),),
    ),
    _metric("bigfleet_operator_uncordons_total", Type.COUNTER, "Nodes made schedulable again."),
)

POD_CONTROLLER = (
    Metric(
        Component.POD_CONTROLLER,
        "bigfleet_unschedulable_pod_controller_reconciles_total",
        Type.COUNTER,
        "Pods looked at, by what came of it.",
        labels=(
            Label(
                "outcome",
                ("cr_created", "cr_exists", "cr_updated", "pod_gone", "pod_terminal", "pod_gated", "error"),
            ),
        ),
        stability=Stability.CONTRACT,
    ),
    Metric(
        Component.POD_CONTROLLER,
        "bigfleet_unschedulable_pod_controller_inexact_total",
        Type.COUNTER,
        "Pods whose constraints a CapacityRequest cannot express exactly, by the part that is widened.",
        labels=(Label("reason", ("gt_lt", "match_fields", "further_terms")),),
    ),
)
