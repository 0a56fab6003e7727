"""What can be chosen about a shard; the flags of `bigfleet shard` end up here.

Why: tests, the simulator and all-in-one build shards without flags. Library defaults have every rail off, so that a
simulation sees the bare engine; the programs switch the rails on (ADR-0046).
Rules: shard 3, 11.4 and 22.1; decisions S6, S28.
"""

from dataclasses import dataclass, field

from bigfleet.model.situation import IdleHolds

BLOBS_WAITING = 4096
"""Bootstrap and reclaim frames, and acknowledgements, that may wait for one operator (decision S10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """One shard."""

    shard_id: str = "shard-0"
    provider_address: str = ""
    advertise_address: str = ""
    cycle_interval_s: float = 10.0
    woken_apart_s: float = 1.0
    """Least time between the starts of a cycle and of one that was woken (decision S25)."""
    execute_timeout_s: float = 30.0
    bootstrap_timeout_s: float = 30.0
    list_timeout_s: float = 120.0
    execute_concurrency: int = 1
    max_actions_per_cycle: int = 0
    incremental_reconcile: bool = False
    available_capacity_interval_s: float = 5.0
    metrics_warmup_cycles: int = 0
    phase_attribution_log: bool = False
    actuation_paused: bool = False
    dry_run: bool = False
    reclaim_cap_fraction: float = 0.0
    empty_rollup_guard: bool = False
    audit_strict: bool = False
    local_bootstrap: bool = False
    holds: IdleHolds = field(default_factory=IdleHolds)
    outbox_limit: int = BLOBS_WAITING
    failed_cycles_in_a_row: int = 5
    """After so many cycles that ended in a defect the process ends, to be started anew (shard 4.4)."""
