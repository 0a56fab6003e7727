"""What is to be said of a shard besides its last cycle, by those parts of its process that know.

Why: the way to the coordinator, counters and sessions are not part of a decision, so no view holds them; the insight
service is handed them as values, and never sees who they came from.
Rules: dashboard 1 and 8.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CoordinatorLinkStatus:
    """How the way to the coordinator is."""

    address: str
    last_answer_ns: int = 0
    failures: int = 0
    last_error: str = ""
    term: int = 0
    reports: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class StatusSources:
    """Asked anew for every answer; what nobody fills in is left out of it."""

    version: str = ""
    cycle_interval_s: float = 0.0
    actuation_paused: bool = False
    """The kill switch, as opposed to a pause of the shard's own."""
    coordinator: Callable[[], CoordinatorLinkStatus | None] = lambda: None
    last_reconcile_ns: Callable[[], int] = lambda: 0
    held_rollups: Callable[[str], int] = lambda _cluster: 0
    """Roll-ups of a cluster that are held back in a row."""
    is_pending: Callable[[str], bool] = lambda _machine_id: False
    """Whether an action of a machine waits or is being carried out."""
    totals: Callable[[], Mapping[str, int]] = field(default=dict)
    """Counters by name, as `reclaims_capped`."""
