"""The options of a shard, with the only set of defaults; the flags of `bigfleet shard` take theirs from here.

Why: a shard built without flags must be as safe as one built from flags, so the rails are on (ADR-0046).
Rules: `shard#start-and-stop`, `shard#rail-defaults`, `shard#flags`, `shard#wake-ups`, `shard#provider-calls`.
"""

from dataclasses import dataclass, field

from bigfleet.model.situation import IdleHolds
from bigfleet.wire.rollup_limits import RollupLimits

BLOBS_WAITING = 4096
"""Bootstrap requests, reclaim instructions and acknowledgements that may wait for one operator (`shard#outbox`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """The options of one shard."""

    shard_id: str = "shard-0"
    provider_address: str = ""
    advertise_address: str = ""
    plaintext_exposed: bool = False
    """Whether other hosts can reach the session port and no certificate is asked for; shown to people, changes nothing."""
    cycle_interval_s: float = 10.0
    woken_apart_least_s: float = 0.1
    woken_apart_most_s: float = 1.0
    """Bounds of the time between the start of a cycle and the start of a woken one after it (`shard#wake-ups`)."""
    execute_timeout_s: float = 30.0
    bootstrap_timeout_s: float = 30.0
    list_timeout_s: float = 30.0
    transition_poll_interval_s: float = 1.0
    """How often to ask for what the provider is at work on, between two ticks; 0 never (`shard#transition-polls`)."""
    listing_guard_window_s: float = 120.0
    """For how long listings must lack too many machines before their removal is believed (`shard#listing-guard`)."""
    execute_concurrency: int = 1
    max_actions_per_cycle: int = 0
    incremental_reconcile: bool = False
    available_capacity_interval_s: float = 5.0
    metrics_warmup_cycles: int = 0
    phase_attribution_log: bool = False
    actuation_paused: bool = False
    dry_run: bool = False
    reclaim_cap_fraction: float = 0.05
    empty_rollup_guard: bool = True
    rollup_limits: RollupLimits = field(default_factory=RollupLimits)
    audit_strict: bool = False
    local_bootstrap: bool = False
    holds: IdleHolds = field(default_factory=IdleHolds)
    outbox_limit: int = BLOBS_WAITING
    hello_timeout_s: float = 10.0
    max_silent_streams: int = 5000
    max_sessions: int = 10_000
    max_session_age_s: float = 12 * 3600.0
    """0 for any age (`shard#session-age`)."""
    ingest_share: float = 0.2
    """Of one core, what reading the frames of one cluster may take for long (`shard#ingest-share`)."""
    failed_cycles_in_a_row: int = 5
    """After this many failed cycles in a row the process ends, to be restarted (`shard#never-waits`)."""
