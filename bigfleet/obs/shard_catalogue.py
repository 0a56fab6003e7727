"""Metrics of the shard.

Rules: shard 21.1 and 8.6 (names, labels and label texts are contract), packaging 4.3. Three further histograms and
counters that the original defines and never fills are left out on purpose, and a test keeps them out.
"""

from functools import partial

from bigfleet.model.buckets import ALL_BUCKETS, label_of
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.obs.buckets import Buckets
from bigfleet.obs.metric import Component, Label, Metric, Stability, Type

STATES = tuple(state.label for state in MachineState if state is not MachineState.UNSPECIFIED)
# The original prints an unspecified type with its number, and dashboards know it by that text.
CAPACITY_TYPES = (
    "CapacityType(0)",
    *(kind.label for kind in CapacityType if kind is not CapacityType.UNSPECIFIED),
)
PENALTY_BUCKETS = tuple(label_of(bucket) for bucket in ALL_BUCKETS)
ACTION_KINDS = ("Bootstrap", "Provision", "Reclaim", "Preempt", "Delete")
OUTCOMES = (
    "success",
    "ctx_canceled",
    "fenced",
    "no_session",
    "transition_raced_to_idle",
    "transition_error",
    "blob_error",
    "provider_error",
    "stale_state",
    "inventory_miss",
    "missing_profile",
    "other",
)
INSTRUCTION_KINDS = (
    "assign_domain",
    "unassign_domain",
    "reassign_speculative",
    "cross_shard_drain",
    "transfer_ownership",
    "unknown",
)
METADATA_KEYS = (
    "assigned-priority",
    "assigned-interruption-penalty-dollars",
    "assigned-reclamation-penalty-dollars",
)
"""Keys whose values can be unreadable, without our prefix; those that hold any text cannot."""
INSTRUCTION_OUTCOMES = ("accepted", "repeated", "rejected_stale", "rejected_invalid", "failed")

_KIND = Label("kind", ACTION_KINDS)
_PENALTY = Label("interruption_penalty_bucket", PENALTY_BUCKETS)

_metric = partial(Metric, Component.SHARD, stability=Stability.CONTRACT)
_ours = partial(Metric, Component.SHARD, stability=Stability.STABLE)

SHARD = (
    _metric(
        "bigfleet_shard_cycle_duration_seconds",
        Type.HISTOGRAM,
        "How long a whole decision cycle took; silent during the warm-up cycles.",
        buckets=Buckets.A,
    ),
    _metric(
        "bigfleet_shard_cycle_phase_duration_seconds",
        Type.HISTOGRAM,
        "How long one part of a cycle took; silent during the warm-up cycles. Execute is the time to enqueue only.",
        labels=(Label("phase", ("reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute")),),
        buckets=Buckets.A,
    ),
    _metric(
        "bigfleet_shard_provisioning_latency_seconds",
        Type.HISTOGRAM,
        "From the first roll-up that asked for a profile to a machine configured for it; a diagnostic, no objective.",
        buckets=Buckets.C,
    ),
    _metric(
        "bigfleet_shard_configure_phase_seconds",
        Type.HISTOGRAM,
        "From entering Configuring to the write after the provider's answer; successes only.",
        buckets=Buckets.B,
    ),
    _metric(
        "bigfleet_shard_request_bootstrap_seconds",
        Type.HISTOGRAM,
        "Round trip of a bootstrap blob from the operator, whether it came or not.",
        buckets=Buckets.B,
    ),
    _metric(
        "bigfleet_shard_drain_phase_seconds",
        Type.HISTOGRAM,
        "From entering Draining to the handled answer of the drain call; successes only.",
        buckets=Buckets.B,
    ),
    _metric(
        "bigfleet_shard_actions_total",
        Type.COUNTER,
        "Actions handed to dispatch; none while paused or in dry run.",
        labels=(_KIND,),
    ),
    _metric(
        "bigfleet_shard_action_execute_outcomes_total",
        Type.COUNTER,
        "Executed actions by how they ended.",
        labels=(_KIND, Label("outcome", OUTCOMES)),
    ),
    _metric(
        "bigfleet_shard_actions_deferred_total",
        Type.COUNTER,
        "Actions left for a later cycle by the limit per cycle.",
    ),
    _metric(
        "bigfleet_shard_actions_dropped_total", Type.COUNTER, "Actions dropped because the queue was full."
    ),
    _metric(
        "bigfleet_shard_actions_deduped_total",
        Type.COUNTER,
        "Actions that no longer applied, or were already pending for their machine.",
    ),
    _metric(
        "bigfleet_shard_actions_suppressed_total",
        Type.COUNTER,
        "Actions held back by the kill switch.",
        labels=(_KIND,),
    ),
    _metric(
        "bigfleet_shard_actions_dryrun_total",
        Type.COUNTER,
        "Actions decided in dry run, and not carried out.",
        labels=(_KIND,),
    ),
    _metric("bigfleet_shard_actuation_paused", Type.GAUGE, "1 while the kill switch is on."),
    _metric("bigfleet_shard_action_queue_depth", Type.GAUGE, "Actions waiting for a worker."),
    _metric("bigfleet_shard_execute_inflight", Type.GAUGE, "Actions being carried out right now."),
    _metric(
        "bigfleet_shard_inventory_machines",
        Type.GAUGE,
        "Machines by state, capacity type and bucket of the interruption penalty they are assigned at.",
        labels=(Label("state", STATES), Label("capacity_type", CAPACITY_TYPES), _PENALTY),
        on_demand=True,  # 1,120 combinations, of which a fleet has a few dozen
    ),
    _metric(
        "bigfleet_shard_demand_machines",
        Type.GAUGE,
        "Rows of demand per bucket of interruption penalty; rows, not machines, whatever the name says.",
        labels=(_PENALTY,),
    ),
    _metric("bigfleet_shard_shortfalls", Type.GAUGE, "Needs that could not be met."),
    _metric(
        "bigfleet_shard_shortfalls_aged",
        Type.GAUGE,
        "Reported shortfalls by age in cycles.",
        labels=(Label("bucket", ("1-9", "10-59", "60-299", "300+")),),
    ),
    _metric(
        "bigfleet_shard_shortfalls_by_priority",
        Type.GAUGE,
        "Reported shortfalls by priority: critical from 1000000, service from 1000, batch from 100, other below.",
        labels=(Label("priority_class", ("critical", "service", "batch", "other")),),
    ),
    _metric(
        "bigfleet_shard_session_lifecycle_total",
        Type.COUNTER,
        "Operator sessions that came, took another's place, or went.",
        labels=(Label("event", ("installed", "replaced", "removed")),),
    ),
    _metric("bigfleet_shard_active_sessions", Type.GAUGE, "Operators connected right now."),
    _metric(
        "bigfleet_shard_session_identity_rejected_total",
        Type.COUNTER,
        "Sessions refused because the certificate names somebody else; any value above 0 is a security event.",
    ),
    _metric(
        "bigfleet_shard_reclaims_capped_total",
        Type.COUNTER,
        "Reclaims left out because too large a part of the fleet would have gone in one cycle.",
    ),
    _metric(
        "bigfleet_shard_rollup_quarantined",
        Type.GAUGE,
        "1 while a roll-up of the cluster is held because it looks like a lost cache.",
        labels=(Label("cluster"),),
    ),
    _metric(
        "bigfleet_shard_rollups_rejected_total",
        Type.COUNTER,
        "Roll-ups of the cluster refused as malformed.",
        labels=(Label("cluster"),),
    ),
    _metric(
        "bigfleet_shard_machines_rejected_total",
        Type.COUNTER,
        "Provider records refused, by the rule they break.",
        labels=(Label("reason", ("price", "interruption_probability", "structural")),),
    ),
    _metric("bigfleet_shard_idle_releases_total", Type.COUNTER, "Idle machines given back, as acknowledged."),
    _metric(
        "bigfleet_shard_phase1_occ_proposals_total",
        Type.COUNTER,
        "Proposals to the commit broker of phase 1.",
        labels=(Label("outcome", ("committed", "conflict")),),
    ),
    _metric(
        "bigfleet_shard_phase1_occ_displacements_total",
        Type.COUNTER,
        "Claims that a proposal of higher precedence took over.",
    ),
    _metric(
        "bigfleet_shard_phase1_occ_retries_exhausted_total",
        Type.COUNTER,
        "Proposals given up after their last retry.",
    ),
    _ours(
        "bigfleet_shard_last_reconcile_success_timestamp_seconds",
        Type.GAUGE,
        "When the provider was last listed and compared in full, in seconds since 1970; 0 before the first time.",
    ),
    _ours(
        "bigfleet_shard_self_paused",
        Type.GAUGE,
        "1 after the shard stopped its own actuation because the provider fenced it three times in a row.",
    ),
    _ours(
        "bigfleet_shard_audit_write_errors_total", Type.COUNTER, "Audit records that could not be written."
    ),
    _ours(
        "bigfleet_shard_coordinator_reports_total",
        Type.COUNTER,
        "Reports to the coordinator: answered, answered by a leader that has been replaced, or failed.",
        labels=(Label("outcome", ("answered", "stale", "failed")),),
    ),
    _ours(
        "bigfleet_shard_coordinator_last_answer_timestamp_seconds",
        Type.GAUGE,
        "When the coordinator last answered a report, in seconds since 1970; absent before the first time.",
        on_demand=True,
    ),
    _ours(
        "bigfleet_shard_coordinator_term",
        Type.GAUGE,
        "Highest term of a coordinator seen; absent without a coordinator.",
        on_demand=True,
    ),
    _ours(
        "bigfleet_shard_coordinator_instructions_total",
        Type.COUNTER,
        "Instructions of the coordinator, by what became of them; repeated ones were carried out before.",
        labels=(Label("kind", INSTRUCTION_KINDS), Label("outcome", INSTRUCTION_OUTCOMES)),
        on_demand=True,
    ),
    _ours(
        "bigfleet_shard_coordinator_client_restarts_total",
        Type.COUNTER,
        "How often the coordinator client died of a defect and was started anew.",
    ),
    _ours(
        "bigfleet_shard_acquisitions_held_off_total",
        Type.COUNTER,
        "Acquisitions left out because the bootstrap blob of their cluster and profile failed a short while ago.",
    ),
    _ours(
        "bigfleet_shard_session_overflows_total",
        Type.COUNTER,
        "Sessions ended because their operator did not read for too long.",
    ),
    _ours(
        "bigfleet_shard_disputed_reports_total",
        Type.COUNTER,
        "Reports of the provider about states that no legal transition leads to, not believed yet.",
    ),
    _ours(
        "bigfleet_shard_adopted_reports_total",
        Type.COUNTER,
        "Reports of the provider taken over although no legal transition leads there: losses at once, others the third time.",
    ),
    _ours(
        "bigfleet_shard_metadata_skipped_total",
        Type.COUNTER,
        "Values in the metadata of provider records that could not be read and were skipped, once per machine and key; what "
        "they say about the worth of the machine's work is lost.",
        labels=(Label("key", METADATA_KEYS),),
    ),
    _ours(
        "bigfleet_shard_listings_held",
        Type.GAUGE,
        "Full listings in a row whose removals are held because they lack too many machines.",
    ),
    _ours(
        "bigfleet_shard_cycle_failures_total",
        Type.COUNTER,
        "Cycles that were abandoned because of a defect; several in a row end the process.",
    ),
)
