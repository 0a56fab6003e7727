"""Metrics of the coordinator.

Rules: coordinator 13 and 12.9; the first three are contract (shard 21.2).
"""

from functools import partial

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.metric import Component, Label, Metric, Stability, Type

_metric = partial(Metric, Component.COORDINATOR)
_SHARD = Label("shard")
_OUTCOME = Label("outcome")

COORDINATOR = (
    _metric(
        "bigfleet_coordinator_raft_term",
        Type.GAUGE,
        "The Raft term this replica is in.",
        stability=Stability.CONTRACT,
    ),
    _metric(
        "bigfleet_coordinator_apply_total",
        Type.COUNTER,
        "Commands: applied (success), not replicated (error), or replicated and refused by the tables (fsm_error).",
        labels=(Label("outcome", ("success", "error", "fsm_error")),),
        stability=Stability.CONTRACT,
    ),
    _metric(
        "bigfleet_coordinator_pending_instructions",
        Type.GAUGE,
        "Instructions queued for the shard and not acknowledged yet.",
        labels=(_SHARD,),
        stability=Stability.CONTRACT,
    ),
    _metric("bigfleet_coordinator_is_leader", Type.GAUGE, "1 on the replica that Raft calls leader."),
    _metric(
        "bigfleet_coordinator_serving",
        Type.GAUGE,
        "1 on the leader once its epoch is committed, so that it answers; at most one replica at a time.",
    ),
    _metric(
        "bigfleet_coordinator_epoch",
        Type.GAUGE,
        "The epoch of the serving leader, as far as this replica knows.",
    ),
    _metric("bigfleet_coordinator_commit_index", Type.GAUGE, "Last log entry known to be committed."),
    _metric("bigfleet_coordinator_applied_index", Type.GAUGE, "Last log entry applied to the tables."),
    _metric(
        "bigfleet_coordinator_command_level",
        Type.GAUGE,
        "Level of commands: the one that the log has been raised to, and the highest one this replica knows. They differ"
        " while an upgrade is on its way.",
        labels=(Label("which", ("raised", "known")),),
    ),
    _metric("bigfleet_coordinator_tick_age_seconds", Type.GAUGE, "Time since the Raft loop last ticked."),
    _metric("bigfleet_coordinator_elections_total", Type.COUNTER, "Elections this replica has seen."),
    _metric(
        "bigfleet_coordinator_leadership_lost_total",
        Type.COUNTER,
        "Times this replica stopped leading, by cause.",
        labels=(Label("cause"),),
    ),
    _metric(
        "bigfleet_coordinator_peer_connected",
        Type.GAUGE,
        "1 while the Raft connection to the peer stands.",
        labels=(Label("peer"),),
    ),
    _metric(
        "bigfleet_coordinator_barrier_seconds",
        Type.HISTOGRAM,
        "How long a read waited for proof that this replica still leads.",
        buckets=Buckets.A,
    ),
    _metric(
        "bigfleet_coordinator_barrier_total",
        Type.COUNTER,
        "Read barriers by outcome.",
        labels=(_OUTCOME,),
    ),
    _metric(
        "bigfleet_coordinator_batch_commands",
        Type.HISTOGRAM,
        "Commands per log entry; latecomers share the next one.",
        buckets=Buckets.BATCH,
    ),
    _metric(
        "bigfleet_coordinator_journal_fsync_seconds",
        Type.HISTOGRAM,
        "How long one sync of the journal took.",
        buckets=Buckets.D,
    ),
    _metric("bigfleet_coordinator_journal_bytes", Type.GAUGE, "Size of the journal file."),
    _metric(
        "bigfleet_coordinator_dump_seconds",
        Type.HISTOGRAM,
        "How long one dump of the tables took: encode, write and sync.",
        buckets=Buckets.D,
    ),
    _metric("bigfleet_coordinator_dump_failures_total", Type.COUNTER, "Dumps that could not be written."),
    _metric("bigfleet_coordinator_learner", Type.GAUGE, "1 while this replica catches up and has no vote."),
    _metric("bigfleet_coordinator_membership_solo", Type.GAUGE, "1 while this replica is the only voter."),
    _metric(
        "bigfleet_coordinator_raft_rejected_total",
        Type.COUNTER,
        "Connections and messages refused on the Raft port, by reason.",
        labels=(Label("reason"),),
    ),
    _metric(
        "bigfleet_coordinator_snapshot_export_total",
        Type.COUNTER,
        "Snapshot exports by outcome.",
        labels=(_OUTCOME,),
    ),
    _metric(
        "bigfleet_coordinator_snapshot_export_last_success_timestamp_seconds",
        Type.GAUGE,
        "When a snapshot was last exported, in seconds since 1970; absent where exports are off.",
        on_demand=True,  # at 0 it would read as an export in 1970 and raise the alert for stale exports
    ),
    _metric(
        "bigfleet_coordinator_identity_rejected_total",
        Type.COUNTER,
        "Calls refused because the certificate lacks the role; any value above 0 is a security event.",
        labels=(Label("rpc"),),
    ),
    _metric(
        "bigfleet_coordinator_shard_address_mismatch",
        Type.GAUGE,
        "1 while the shard reports from another address than it registered.",
        labels=(_SHARD,),
    ),
    _metric(
        "bigfleet_coordinator_instructions_acked_total",
        Type.COUNTER,
        "Instructions acknowledged by shards, by kind and answer.",
        labels=(Label("kind"), _OUTCOME),
    ),
    _metric(
        "bigfleet_coordinator_instructions_dropped_total",
        Type.COUNTER,
        "Instructions not queued because the shard's queue was full.",
    ),
    _metric(
        "bigfleet_coordinator_shortfalls_truncated_total",
        Type.COUNTER,
        "Shortfalls cut from reports that carried more than are kept.",
    ),
    _metric(
        "bigfleet_coordinator_provider_conflict",
        Type.GAUGE,
        "Live shards that use one provider without sharing it by one partition key; absent where there is no conflict.",
        labels=(Label("provider"),),
    ),
    _metric(
        "bigfleet_coordinator_partition_blocked_by",
        Type.GAUGE,
        "1 while a shard (~ before a removed one), or relearn, keeps domains of shared providers from moving.",
        labels=(_SHARD,),
    ),
    _metric(
        "bigfleet_coordinator_ghosts", Type.GAUGE, "Removed shards whose machines may still be held by them."
    ),
    _metric(
        "bigfleet_coordinator_moves",
        Type.GAUGE,
        "Machines in the ledger of moves between shards, by phase.",
        labels=(Label("phase", ("releasing", "adopting", "held")),),
    ),
    _metric("bigfleet_coordinator_move_overdue", Type.GAUGE, "Moves whose current step has taken too long."),
    _metric("bigfleet_coordinator_rebalance_passes_total", Type.COUNTER, "Passes of the rebalancer."),
    _metric(
        "bigfleet_coordinator_rebalance_flows_total",
        Type.COUNTER,
        "Flows between shards, by tier and outcome.",
        labels=(Label("tier", ("1", "2", "3")), _OUTCOME),
    ),
    _metric("bigfleet_coordinator_rebalance_cooldowns", Type.GAUGE, "Pairs of shards that are cooling down."),
)
