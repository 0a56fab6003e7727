"""The catalogue of the coordinator's metrics.

Rules: `coordinator#series`, `coordinator#ledger`, `coordinator#partition-mode`; the first three are contract
(`shard#metrics`).
"""

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Label, catalogue, counter, gauge, histogram

_SHARD = Label("shard")
_OUTCOME = Label("outcome")

COORDINATOR_METRICS = catalogue(
    "coordinator",
    contract=(
        gauge(
            "bigfleet_coordinator_raft_term",
            "The Raft term this replica is in.",
        ),
        counter(
            "bigfleet_coordinator_apply_total",
            "Commands: applied (success), not replicated (error), or replicated and refused by the tables (fsm_error).",
            labels=(Label("outcome", ("success", "error", "fsm_error")),),
        ),
        gauge(
            "bigfleet_coordinator_pending_instructions",
            "Instructions queued for the shard and not acknowledged yet.",
            labels=(_SHARD,),
        ),
    ),
    stable=(
        gauge("bigfleet_coordinator_is_leader", "1 on the replica that Raft calls leader."),
        gauge(
            "bigfleet_coordinator_serving",
            "1 on the leader once its epoch is committed, so that it answers; at most one replica at a time.",
        ),
        gauge(
            "bigfleet_coordinator_epoch",
            "The epoch of the serving leader, as far as this replica knows.",
        ),
        gauge("bigfleet_coordinator_commit_index", "Last log entry known to be committed."),
        gauge("bigfleet_coordinator_applied_index", "Last log entry applied to the tables."),
        gauge(
            "bigfleet_coordinator_command_level",
            "Level of commands: the one that the log has been raised to, and the highest one this replica knows. They differ"
            " while an upgrade is on its way.",
            labels=(Label("which", ("raised", "known")),),
        ),
        gauge("bigfleet_coordinator_tick_age_seconds", "Time since the Raft loop last ticked."),
        counter("bigfleet_coordinator_elections_total", "Elections this replica has seen."),
        counter(
            "bigfleet_coordinator_leadership_lost_total",
            "Times this replica stopped leading, by cause.",
            labels=(Label("cause"),),
        ),
        gauge(
            "bigfleet_coordinator_peer_connected",
            "1 while the Raft connection to the peer stands.",
            labels=(Label("peer"),),
        ),
        histogram(
            "bigfleet_coordinator_barrier_seconds",
            "How long a read waited for proof that this replica still leads.",
            buckets=Buckets.A,
        ),
        counter(
            "bigfleet_coordinator_barrier_total",
            "Read barriers by outcome.",
            labels=(_OUTCOME,),
        ),
        histogram(
            "bigfleet_coordinator_batch_commands",
            "Commands per log entry; latecomers share the next one.",
            buckets=Buckets.BATCH,
        ),
        histogram(
            "bigfleet_coordinator_journal_fsync_seconds",
            "How long one sync of the journal took.",
            buckets=Buckets.D,
        ),
        gauge("bigfleet_coordinator_journal_bytes", "Size of the journal file."),
        histogram(
            "bigfleet_coordinator_dump_seconds",
            "How long one dump of the tables took: encode, write and sync.",
            buckets=Buckets.D,
        ),
        counter("bigfleet_coordinator_dump_failures_total", "Dumps that could not be written."),
        gauge(
            "bigfleet_coordinator_learner",
            "1 while this replica catches up and has no vote.",
        ),
        gauge(
            "bigfleet_coordinator_membership_solo",
            "1 while this replica is the only voter.",
        ),
        counter(
            "bigfleet_coordinator_raft_rejected_total",
            "Connections and messages refused on the Raft port, by reason.",
            labels=(Label("reason"),),
        ),
        counter(
            "bigfleet_coordinator_snapshot_export_total",
            "Snapshot exports by outcome.",
            labels=(_OUTCOME,),
        ),
        gauge(
            "bigfleet_coordinator_snapshot_export_last_success_timestamp_seconds",
            "When a snapshot was last exported, in seconds since 1970; absent where exports are off.",
            on_demand=True,  # at 0 it would read as an export in 1970 and raise the alert for stale exports
        ),
        counter(
            "bigfleet_coordinator_identity_rejected_total",
            "Calls refused because the certificate lacks the role; any value above 0 is a security event.",
            labels=(Label("rpc"),),
        ),
        gauge(
            "bigfleet_coordinator_shard_address_mismatch",
            "1 while the shard reports from another address than it registered.",
            labels=(_SHARD,),
        ),
        counter(
            "bigfleet_coordinator_instructions_acked_total",
            "Instructions acknowledged by shards, by kind and answer.",
            labels=(Label("kind"), _OUTCOME),
        ),
        counter(
            "bigfleet_coordinator_instructions_dropped_total",
            "Instructions not queued because the shard's queue was full.",
        ),
        counter(
            "bigfleet_coordinator_shortfalls_truncated_total",
            "Shortfalls cut from reports that carried more than are kept.",
        ),
        gauge(
            "bigfleet_coordinator_provider_conflict",
            "Live shards that use one provider without sharing it by one partition key; absent where there is no conflict.",
            labels=(Label("provider"),),
        ),
        gauge(
            "bigfleet_coordinator_partition_blocked_by",
            "1 while a shard (~ before a removed one), or relearn, keeps domains of shared providers from moving.",
            labels=(_SHARD,),
        ),
        gauge(
            "bigfleet_coordinator_ghosts",
            "Removed shards whose machines may still be held by them.",
        ),
        gauge(
            "bigfleet_coordinator_moves",
            "Machines in the ledger of moves between shards, by phase.",
            labels=(Label("phase", ("releasing", "adopting", "held")),),
        ),
        gauge(
            "bigfleet_coordinator_move_overdue",
            "Moves whose current step has taken too long.",
        ),
        counter("bigfleet_coordinator_rebalance_passes_total", "Passes of the rebalancer."),
        counter(
            "bigfleet_coordinator_rebalance_flows_total",
            "Flows between shards, by tier and outcome.",
            labels=(Label("tier", ("1", "2", "3")), _OUTCOME),
        ),
        gauge(
            "bigfleet_coordinator_rebalance_cooldowns",
            "Pairs of shards that are cooling down.",
        ),
    ),
)
