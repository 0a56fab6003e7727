"""The options of an operator from its flags, and the numbers that are rules rather than flags.

Must never: hold a secret.
Rules: `operator#session`, `operator#reconnect-delays`, `operator#outbox`, `operator#frame-dispatch`,
`operator#sweep-with-marker`, `operator#process`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.aio.backoff import RECONNECT, BackoffPolicy
from bigfleet.operator.core.orphans import PATIENCE_S

HANDLERS: Final = 32
"""Handlers that may write to the API server at once; eight times as many made the original's latency far worse."""
EVICTIONS: Final = 16
"""Evictions in flight in the process: a mass reclaim must not starve other calls."""
OUTBOX: Final = 256
OUTBOX_BETWEEN_ROLLUPS: Final = 64
BLOB_DEADLINE_S: Final = 25.0
"""The shard waits 30 s for a blob; a later answer is useless."""
CORDON_PATIENCE_S: Final = 5.0
POD_PATIENCE_S: Final = 60.0
"""How long the start waits for the list of pods once the others are complete. Not for ever: an older role has no right to it."""
READY_WITHOUT_SESSION_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The options of one operator."""

    cluster: str
    shard_addr: str
    rollup_interval_s: float = 10.0
    rollup_quiet_s: float = 0.1
    rollup_max_delay_s: float = 1.0
    ack_concurrency: int = 16
    cache_sync_timeout_s: float = 600.0
    watch_pods: bool = True
    pod_patience_s: float = POD_PATIENCE_S
    fragments: bool = True
    stuck_after_s: float = 30.0
    fragments_share: float = 0.25
    orphan_sweep: bool = True
    sweep_patience_s: float = PATIENCE_S
    silence_s: float = 30.0
    shutdown_grace_s: float = 10.0
    """How long evictions under way may take when the process ends."""
    backoff: BackoffPolicy = RECONNECT
