"""The catalogue of the shard's metrics.

Rules: `shard#metrics`, `shard#outcomes`, `packaging#process-metrics`. Left out on purpose: two
histograms and a counter that the original defines and never fills.
"""

from collections import Counter

from bigfleet.model.buckets import ALL_BUCKETS, label_of
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Label, catalogue, counter, gauge, histogram
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.problems import ProblemKind
from bigfleet.shard.core.shortfalls import REPORTED, age_class, priority_class
from bigfleet.shard.core.views import AgedShortfall, HoldOff
from bigfleet.shard.session.refusals import SessionRefusal
from bigfleet.wire.labels import LABEL_REASONS
from bigfleet.wire.rollup_limits import REFUSAL_REASONS

_STATES = tuple(state.label for state in MachineState if state is not MachineState.UNSPECIFIED)
# The original prints an unspecified type with its number, and dashboards know it by that text.
_CAPACITY_TYPES = (
    "CapacityType(0)",
    *(kind.label for kind in CapacityType if kind is not CapacityType.UNSPECIFIED),
)
_PENALTY_BUCKETS = tuple(label_of(bucket) for bucket in ALL_BUCKETS)
_ACTION_KINDS = ("Bootstrap", "Provision", "Reclaim", "Preempt", "Delete")
_OUTCOMES = (
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
_INSTRUCTION_KINDS = (
    "assign_domain",
    "unassign_domain",
    "reassign_speculative",
    "cross_shard_drain",
    "transfer_ownership",
    "unknown",
)
_METADATA_KEYS = (
    "assigned-priority",
    "assigned-interruption-penalty-dollars",
    "assigned-reclamation-penalty-dollars",
)
"""Keys whose values can be unreadable, without our prefix; those that hold any text cannot."""
_INSTRUCTION_OUTCOMES = ("accepted", "repeated", "rejected_stale", "rejected_invalid", "failed")

_AGES = ("1-9", "10-59", "60-299", "300+")
_PRIORITIES = ("critical", "service", "batch", "other")

_KIND = Label("kind", _ACTION_KINDS)
_PENALTY = Label("interruption_penalty_bucket", _PENALTY_BUCKETS)


SHARD_METRICS = catalogue(
    "shard",
    contract=(
        histogram(
            "bigfleet_shard_cycle_duration_seconds",
            "How long a whole decision cycle took; silent during the warm-up cycles.",
            buckets=Buckets.A,
        ),
        histogram(
            "bigfleet_shard_cycle_phase_duration_seconds",
            "How long one part of a cycle took; silent during the warm-up cycles. Execute is the time to enqueue only.",
            labels=(
                Label("phase", ("reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute")),
            ),
            buckets=Buckets.A,
        ),
        histogram(
            "bigfleet_shard_provisioning_latency_seconds",
            "From the first roll-up that asked for a profile to a machine configured for it; a diagnostic, no objective.",
            buckets=Buckets.C,
        ),
        histogram(
            "bigfleet_shard_configure_phase_seconds",
            "From entering Configuring to the write after the provider's answer; successes only.",
            buckets=Buckets.B,
        ),
        histogram(
            "bigfleet_shard_request_bootstrap_seconds",
            "Round trip of a bootstrap blob from the operator, whether it came or not.",
            buckets=Buckets.B,
        ),
        histogram(
            "bigfleet_shard_drain_phase_seconds",
            "From entering Draining to the handled answer of the drain call; successes only.",
            buckets=Buckets.B,
        ),
        counter(
            "bigfleet_shard_actions_total",
            "Actions handed to dispatch; none while paused or in dry run.",
            labels=(_KIND,),
        ),
        counter(
            "bigfleet_shard_action_execute_outcomes_total",
            "Executed actions by how they ended.",
            labels=(_KIND, Label("outcome", _OUTCOMES)),
        ),
        counter(
            "bigfleet_shard_actions_deferred_total",
            "Actions left for a later cycle by the limit per cycle.",
        ),
        counter(
            "bigfleet_shard_actions_dropped_total",
            "Actions dropped because the queue was full.",
        ),
        counter(
            "bigfleet_shard_actions_deduped_total",
            "Actions that no longer applied, or were already pending for their machine.",
        ),
        counter(
            "bigfleet_shard_actions_suppressed_total",
            "Actions held back by the kill switch.",
            labels=(_KIND,),
        ),
        counter(
            "bigfleet_shard_actions_dryrun_total",
            "Actions decided in dry run, and not carried out.",
            labels=(_KIND,),
        ),
        gauge("bigfleet_shard_actuation_paused", "1 while the kill switch is on."),
        gauge("bigfleet_shard_action_queue_depth", "Actions waiting for a worker."),
        gauge("bigfleet_shard_execute_inflight", "Actions being carried out right now."),
        gauge(
            "bigfleet_shard_inventory_machines",
            "Machines by state, capacity type and bucket of the interruption penalty they are assigned at.",
            labels=(Label("state", _STATES), Label("capacity_type", _CAPACITY_TYPES), _PENALTY),
            on_demand=True,  # 1,120 combinations, of which a fleet has a few dozen
        ),
        gauge(
            "bigfleet_shard_demand_machines",
            "Rows of demand per bucket of interruption penalty; rows, not machines, whatever the name says.",
            labels=(_PENALTY,),
        ),
        gauge("bigfleet_shard_shortfalls", "Needs that could not be met."),
        gauge(
            "bigfleet_shard_shortfalls_aged",
            "Reported shortfalls by age in cycles.",
            labels=(Label("bucket", _AGES),),
        ),
        gauge(
            "bigfleet_shard_shortfalls_by_priority",
            "Reported shortfalls by priority: critical from 1000000, service from 1000, batch from 100, other below.",
            labels=(Label("priority_class", _PRIORITIES),),
        ),
        counter(
            "bigfleet_shard_session_lifecycle_total",
            "Operator sessions that came, took another's place, or went.",
            labels=(Label("event", ("installed", "replaced", "removed")),),
        ),
        gauge("bigfleet_shard_active_sessions", "Operators connected right now."),
        counter(
            "bigfleet_shard_session_identity_rejected_total",
            "Sessions refused because the certificate names somebody else; any value above 0 is a security event.",
        ),
        counter(
            "bigfleet_shard_reclaims_capped_total",
            "Reclaims left out because too large a part of the fleet would have gone in one cycle.",
        ),
        gauge(
            "bigfleet_shard_rollup_quarantined",
            "1 while a roll-up of the cluster is held because it looks like a lost cache.",
            labels=(Label("cluster"),),
        ),
        counter(
            "bigfleet_shard_rollups_rejected_total",
            "Roll-ups of the cluster refused as malformed.",
            labels=(Label("cluster"),),
        ),
        counter(
            "bigfleet_shard_machines_rejected_total",
            "Provider records refused, by the rule they break.",
            labels=(Label("reason", ("price", "interruption_probability", "structural")),),
        ),
        counter(
            "bigfleet_shard_idle_releases_total",
            "Idle machines given back, as acknowledged.",
        ),
        counter(
            "bigfleet_shard_phase1_occ_proposals_total",
            "Proposals to the commit broker of phase 1.",
            labels=(Label("outcome", ("committed", "conflict")),),
        ),
        counter(
            "bigfleet_shard_phase1_occ_displacements_total",
            "Claims that a proposal of higher precedence took over.",
        ),
        counter(
            "bigfleet_shard_phase1_occ_retries_exhausted_total",
            "Proposals given up after their last retry.",
        ),
    ),
    stable=(
        counter(
            "bigfleet_shard_rollup_refusals_total",
            "Roll-ups refused whole, of all clusters: too many bytes, too many rows, a row beyond its limits, or invalid.",
            labels=(Label("reason", REFUSAL_REASONS),),
        ),
        gauge(
            "bigfleet_shard_report_entries_left_out",
            "Entries that the last report to the coordinator left out to keep its size.",
            labels=(Label("kind", ("shortfalls", "instance_types", "zones")),),
        ),
        counter(
            "bigfleet_shard_labels_left_out_total",
            "Machine labels that were not taken over: the key looks like that of a secret, or the value is no label value.",
            labels=(Label("reason", LABEL_REASONS),),
        ),
        gauge(
            "bigfleet_shard_last_reconcile_success_timestamp_seconds",
            "When the provider was last listed and compared in full, in seconds since 1970; 0 before the first time.",
        ),
        gauge(
            "bigfleet_shard_last_reconcile_age_seconds",
            "How long ago the provider was last listed and compared in full, by the monotonic clock; before the first time,"
            " how long ago the shard started.",
        ),
        gauge(
            "bigfleet_shard_provider_reachable", "1 while the provider answers, 0 while it is unreachable."
        ),
        gauge(
            "bigfleet_shard_provider_unreachable_seconds",
            "For how long the provider has been unreachable; 0 while it answers.",
        ),
        counter(
            "bigfleet_shard_provider_calls_total",
            "Calls to the provider that were tried, by how they ended: answered, refused by the provider, sent without an answer, "
            "not sent for want of a connection, or given up by the shard.",
            labels=(
                Label("call", ("Create", "Configure", "Drain", "Delete", "Get", "List", "Probe")),
                Label("result", ("ok", "refused", "unanswered", "not_sent", "given_up")),
            ),
            on_demand=True,
        ),
        counter(
            "bigfleet_shard_transition_poll_calls_total",
            "Calls to the provider between ticks that ask for machines in transition, by what came of them: a change was taken over,"
            " nothing had changed, the call failed, or it was given up for a listing.",
            labels=(
                Label("call", ("Get", "List")),
                Label("result", ("changed", "unchanged", "failed", "given_up")),
            ),
        ),
        gauge(
            "bigfleet_shard_actions_held_off",
            "Actions that the last cycle decided and did not start, by reason.",
            labels=(Label("reason", tuple(HoldOff)),),
        ),
        gauge(
            "bigfleet_shard_self_paused",
            "1 after the shard stopped its own actuation because the provider fenced it three times in a row.",
        ),
        counter(
            "bigfleet_shard_audit_write_errors_total",
            "Audit records that could not be written.",
        ),
        counter(
            "bigfleet_shard_coordinator_reports_total",
            "Reports to the coordinator: answered, answered by a leader that has been replaced, or failed.",
            labels=(Label("outcome", ("answered", "stale", "failed")),),
        ),
        gauge(
            "bigfleet_shard_coordinator_last_answer_timestamp_seconds",
            "When the coordinator last answered a report, in seconds since 1970; absent before the first time.",
            on_demand=True,
        ),
        gauge(
            "bigfleet_shard_coordinator_term",
            "Highest term of a coordinator seen; absent without a coordinator.",
            on_demand=True,
        ),
        counter(
            "bigfleet_shard_coordinator_instructions_total",
            "Instructions of the coordinator, by what became of them; repeated ones were carried out before.",
            labels=(Label("kind", _INSTRUCTION_KINDS), Label("outcome", _INSTRUCTION_OUTCOMES)),
            on_demand=True,
        ),
        gauge(
            "bigfleet_shard_ownership_settled",
            "1 once the shard knows which machines of a shared provider are its own; absent where the provider is not shared.",
            on_demand=True,
        ),
        gauge(
            "bigfleet_shard_domains",
            "Domains of the partition key: the shard's own, and those it is leaving and still has machines in.",
            labels=(Label("kind", ("owned", "leaving")),),
            on_demand=True,
        ),
        gauge(
            "bigfleet_shard_moved_machines",
            "Machines of other domains that the shard adopted, and machines of which it knows that another shard holds them.",
            labels=(Label("kind", ("adopted", "released")),),
            on_demand=True,
        ),
        gauge(
            "bigfleet_shard_foreign_machines",
            "Machines in the last listing of a shared provider that are not this shard's.",
            on_demand=True,
        ),
        gauge(
            "bigfleet_shard_machines_without_domain",
            "Machines in the last listing of a shared provider that lack the partition key, so that no shard owns them.",
            on_demand=True,
        ),
        counter(
            "bigfleet_shard_machines_let_go_total",
            "Free machines that the shard forgot, as they are no longer its own.",
        ),
        counter(
            "bigfleet_shard_coordinator_client_restarts_total",
            "How often the coordinator client died of a defect and was started anew.",
        ),
        counter(
            "bigfleet_shard_acquisitions_held_off_total",
            "Acquisitions left out because the bootstrap blob of their cluster and profile failed a short while ago.",
        ),
        counter(
            "bigfleet_shard_sessions_refused_total",
            "Sessions that were refused, or ended because of what their operator sent, by reason.",
            labels=(Label("reason", tuple(SessionRefusal)),),
        ),
        counter(
            "bigfleet_shard_sessions_expired_total",
            "Sessions ended because the operator's certificate ended, or because of their age.",
            labels=(Label("reason", ("certificate", "age")),),
        ),
        gauge("bigfleet_shard_silent_streams", "Streams of operators that have not said Hello yet."),
        counter(
            "bigfleet_shard_frames_without_payload_total",
            "Frames of operators that carried nothing this version knows.",
        ),
        counter(
            "bigfleet_shard_ingest_waits_total",
            "How often a frame or roll-up waited because its cluster had used more than its share of reading time.",
            labels=(Label("what", ("frame", "rollup")),),
        ),
        counter(
            "bigfleet_shard_session_overflows_total",
            "Sessions ended because their operator did not read for too long.",
        ),
        counter(
            "bigfleet_shard_disputed_reports_total",
            "Reports of the provider about states that no legal transition leads to, not believed yet.",
        ),
        counter(
            "bigfleet_shard_adopted_reports_total",
            "Reports of the provider taken over although no legal transition leads there: losses at once, others the third time.",
        ),
        counter(
            "bigfleet_shard_metadata_skipped_total",
            "Values in the metadata of provider records that could not be read and were skipped, once per machine and key; what "
            "they say about the worth of the machine's work is lost.",
            labels=(Label("key", _METADATA_KEYS),),
        ),
        gauge(
            "bigfleet_shard_listings_held",
            "Full listings in a row whose removals are held because they lack too many machines.",
        ),
        gauge(
            "bigfleet_shard_offering_cool_offs",
            "Offerings (instance type, zone and capacity type) that are out of stock and left out of decisions for a while.",
        ),
        gauge(
            "bigfleet_shard_listing_doubted",
            "1 while full listings of the provider lack so many machines that the shard does not believe them yet.",
        ),
        gauge(
            "bigfleet_shard_problems",
            "What is wrong at this moment, by kind: how many things, such as needs that are short or offerings in cool-off; 0 when "
            "nothing is. The sentences are in the detail of /readyz and in `bigfleet status`.",
            labels=(Label("kind", tuple(kind.value for kind in ProblemKind)),),
        ),
        counter(
            "bigfleet_shard_cycle_failures_total",
            "Cycles that were abandoned because of a defect; several in a row end the process.",
        ),
    ),
)


def show_shortfalls(metrics: Metrics, entries: tuple[AgedShortfall, ...]) -> None:
    """Set the gauges of shortfalls from the whole ledger in report order; the classes count the reported ones only."""
    metrics.gauge("bigfleet_shard_shortfalls").set(len(entries))
    reported = entries[:REPORTED]
    ages = Counter(age_class(entry.age_cycles) for entry in reported)
    for age in _AGES:
        metrics.gauge("bigfleet_shard_shortfalls_aged", bucket=age).set(ages[age])
    priorities = Counter(priority_class(entry.profile.priority) for entry in reported)
    for priority in _PRIORITIES:
        metrics.gauge("bigfleet_shard_shortfalls_by_priority", priority_class=priority).set(
            priorities[priority]
        )
