"""Reads figures from metrics: from the hour kept in memory, or from a Prometheus.

Why: pages ask for sums, rates and quantiles by label and need not know where they come from.
Must never: turn "nothing known" into 0; a label that is not in an answer is unknown.
Rules: `dashboard#sources`, `dashboard#metrics-contract`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bigfleet.dashboard.core.series import Labels, SeriesStore

WINDOW_S: Final = 300.0
CYCLE: Final = "bigfleet_shard_cycle_duration_seconds"
PHASE: Final = "bigfleet_shard_cycle_phase_duration_seconds"
INVENTORY: Final = "bigfleet_shard_inventory_machines"
SHORTFALLS: Final = "bigfleet_shard_shortfalls"
SESSIONS: Final = "bigfleet_shard_active_sessions"
ACTIONS: Final = "bigfleet_shard_actions_total"
OUTCOMES: Final = "bigfleet_shard_action_execute_outcomes_total"
PROPOSALS: Final = "bigfleet_shard_phase1_occ_proposals_total"
DEMAND: Final = "bigfleet_shard_demand_machines"
TERM: Final = "bigfleet_coordinator_raft_term"
APPLIED: Final = "bigfleet_coordinator_apply_total"
PENDING: Final = "bigfleet_coordinator_pending_instructions"


@dataclass(frozen=True, slots=True)
class Trend:
    """Values over time by labels; None where nothing is known."""

    times: Sequence[float]
    values: Mapping[Labels, Sequence[float | None]]


class MetricReader(Protocol):
    """What pages ask of metrics. Raises `SourceError` when the source does not answer."""

    async def sums(self, name: str, by: Sequence[str], **only: str) -> Mapping[Labels, float]:
        """Latest values, added up by labels."""

    async def rates(
        self, name: str, by: Sequence[str], window_s: float = WINDOW_S, **only: str
    ) -> Mapping[Labels, float]:
        """Rise per second over a window, added up by labels."""

    async def quantiles(
        self, name: str, by: Sequence[str], quantile: float, window_s: float = WINDOW_S, **only: str
    ) -> Mapping[Labels, float]:
        """A quantile of a histogram over a window, by labels."""

    async def rate_trend(
        self, name: str, by: Sequence[str], duration_s: float, step_s: float, **only: str
    ) -> Trend:
        """Rates at each step of a time that ends now."""

    async def quantile_trend(
        self, name: str, by: Sequence[str], quantile: float, duration_s: float, step_s: float, **only: str
    ) -> Trend:
        """Quantiles at each step of a time that ends now."""


class MemoryMetrics:
    """Reads what the built-in scraper recorded."""

    def __init__(self, store: SeriesStore, now: "CurrentValue") -> None:
        self._store, self._now = store, now

    async def sums(self, name: str, by: Sequence[str], **only: str) -> Mapping[Labels, float]:
        return self._store.sums(name, by, self._now(), **only)

    async def rates(
        self, name: str, by: Sequence[str], window_s: float = WINDOW_S, **only: str
    ) -> Mapping[Labels, float]:
        return self._store.rates(name, by, self._now(), window_s, **only)

    async def quantiles(
        self, name: str, by: Sequence[str], quantile: float, window_s: float = WINDOW_S, **only: str
    ) -> Mapping[Labels, float]:
        return self._store.quantiles(name, by, self._now(), window_s, quantile, **only)

    async def rate_trend(
        self, name: str, by: Sequence[str], duration_s: float, step_s: float, **only: str
    ) -> Trend:
        times = steps(self._now(), duration_s, step_s)
        window_s = max(step_s, RATE_WINDOW_S)
        return _trend(times, [self._store.rates(name, by, time, window_s, **only) for time in times])

    async def quantile_trend(
        self, name: str, by: Sequence[str], quantile: float, duration_s: float, step_s: float, **only: str
    ) -> Trend:
        times = steps(self._now(), duration_s, step_s)
        found = [self._store.quantiles(name, by, time, WINDOW_S, quantile, **only) for time in times]
        return _trend(times, found)


class CurrentValue(Protocol):
    """Tells the time in seconds since 1970."""

    def __call__(self) -> float: ...


RATE_WINDOW_S: Final = 60.0
"""Least time over which a rate is taken: six scrapes."""


def steps(end: float, duration_s: float, step_s: float) -> list[float]:
    """Return the times of a trend, oldest first; they fall on multiples of the step, so that charts do not creep.

    The last one is in the future: it is the step that has begun.
    """
    last = end - end % step_s + step_s
    return [last - step_s * back for back in range(int(duration_s // step_s), -1, -1)]


def _trend(times: Sequence[float], found: Sequence[Mapping[Labels, float]]) -> Trend:
    names = sorted({labels for at in found for labels in at})
    return Trend(times, {labels: [at.get(labels) for at in found] for labels in names})
