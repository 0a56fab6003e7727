"""Soft state: the reports, shortfalls and heartbeats that the leader keeps in memory and never replicates.

Why: every shard reports again within one interval.
Must never: outlive a term, keep a shortfall that the newest report no longer has, or let an older report replace a newer one.
Rules: `coordinator#soft-state`, `coordinator#provider-conflict`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.model.shard_report import MAX_SHORTFALLS, OwnershipView, ShardReport, ShardSummary, Shortfall

INTERVAL_S: Final = 10.0
"""The report interval, for every rule counted in intervals."""
LIVE_S: Final = 3 * INTERVAL_S
"""For how long a report counts as fresh."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One moment: by the monotonic clock for durations, in wall time for people."""

    monotonic_s: float
    wall_ns: int

    def age_ns(self, now: "ClockReading") -> int:
        """How long ago this was."""
        return max(round((now.monotonic_s - self.monotonic_s) * 1e9), 0)


@dataclass(slots=True)
class ShardState:
    """What one shard has reported under this term."""

    heartbeat: ClockReading
    reported: ClockReading | None = None
    cycle: int = 0
    shard_epoch: int = 0
    summary: ShardSummary | None = None
    shortfalls: tuple[Shortfall, ...] = ()
    view: OwnershipView | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class ReportReceipt:
    """How the leader took one report."""

    accepted: bool
    restarted: bool = False
    """The shard's epoch differs from that of the report before; earlier acks no longer count."""
    lower_epoch: bool = False
    """An older process, or a second one of the same id, still reports."""
    truncated: int = 0


class SoftState:
    """The reports since this leader began to serve."""

    def __init__(self) -> None:
        self._shards: dict[str, ShardState] = {}

    def record(self, report: ShardReport, now: ClockReading) -> ReportReceipt:
        """Record one report; an older one than the last only counts as a heartbeat."""
        state = self._shards.setdefault(report.shard_id, ShardState(now))
        state.heartbeat = now
        state.address = report.address
        reported, known = (report.shard_epoch, report.cycle), (state.shard_epoch, state.cycle)
        # A shard that lost its epoch file starts again at 1; it is accepted once the last report is old.
        fresh = state.reported is not None and now.monotonic_s - state.reported.monotonic_s <= LIVE_S
        if fresh and reported < known:
            return ReportReceipt(accepted=False, lower_epoch=report.shard_epoch < state.shard_epoch)
        restarted = state.reported is not None and report.shard_epoch != state.shard_epoch
        state.reported = now
        state.shard_epoch, state.cycle = reported
        state.summary = report.summary or state.summary
        state.shortfalls = report.shortfalls[:MAX_SHORTFALLS]
        state.view = report.ownership or (None if restarted else state.view)
        return ReportReceipt(True, restarted, truncated=max(0, len(report.shortfalls) - MAX_SHORTFALLS))

    def forget(self, shard: str) -> None:
        """Drop the reports of a removed shard."""
        self._shards.pop(shard, None)

    def of(self, shard: str) -> ShardState | None:
        """Return what a shard has reported under this term."""
        return self._shards.get(shard)

    def reported(self, only: str = "") -> list[tuple[str, ShardState]]:
        """Return the shards with a summary or shortfalls by id, or only one of them."""
        chosen = [only] if only else sorted(self._shards)
        found = [(shard, self._shards[shard]) for shard in chosen if shard in self._shards]
        return [(shard, state) for shard, state in found if state.summary is not None or state.shortfalls]

    def shard_ids(self) -> list[str]:
        """Return every shard that reported under this term."""
        return sorted(self._shards)

    def heartbeat_ns(self, shard: str) -> int:
        """Return when a shard last reported to this leader; 0 for never."""
        state = self._shards.get(shard)
        return 0 if state is None else state.heartbeat.wall_ns

    def heartbeat_age_ns(self, shard: str, now: ClockReading) -> int:
        """Return how long ago a shard last reported to this leader; 0 for never."""
        state = self._shards.get(shard)
        return 0 if state is None else state.heartbeat.age_ns(now)

    def shares_provider(self, shard: str) -> bool:
        """Whether a shard last reported that it shares its provider."""
        state = self._shards.get(shard)
        if state is None:
            return False
        # Before its first cycle a shard has no summary, but only one that shares its provider has a view.
        return state.view is not None or (state.summary is not None and bool(state.summary.partition_key))

    def has_settled(self, shard: str) -> bool:
        """Whether a shard has reported, and knows what it owns if it shares its provider."""
        state = self._shards.get(shard)
        if state is None or state.reported is None:
            return False
        return not self.shares_provider(shard) or (state.view is not None and state.view.settled)

    def views(self) -> dict[str, OwnershipView]:
        """Return the views of the shards that have sent one under this term."""
        return {shard: state.view for shard, state in self._shards.items() if state.view is not None}

    def is_partitioned(self, shard: str) -> bool:
        """Whether a removed shard may still hold machines: it shares its provider, or did not report while others share."""
        state = self._shards.get(shard)
        if state is not None and (state.summary is not None or state.view is not None):
            return self.shares_provider(shard)
        return any(self.shares_provider(other) for other in self._shards)

    def conflicts(self, now_s: float) -> dict[str, tuple[str, ...]]:
        """Return providers that several live shards use without partition mode or with different keys, with the shards."""
        users: dict[str, list[tuple[str, str]]] = {}
        for shard, state in sorted(self._shards.items()):
            live = state.reported is not None and now_s - state.reported.monotonic_s <= LIVE_S
            if live and state.summary is not None and state.summary.provider_address:
                users.setdefault(state.summary.provider_address, []).append(
                    (shard, state.summary.partition_key)
                )
        return {
            provider: tuple(shard for shard, _ in found)
            for provider, found in sorted(users.items())
            if len(found) > 1 and (len({key for _, key in found}) > 1 or not found[0][1])
        }
