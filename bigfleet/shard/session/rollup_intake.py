"""Applies roll-ups: holds those that look like a lost cache, and replaces the cluster's demand with the others.

Why: a roll-up replaces everything its cluster asked for, so it is applied whole or not at all.
Must never: let one cluster's bad roll-up touch another's demand, or wake a cycle for demand that did not change.
Rules: `shard#rollup-ingest`, `shard#rails`, `shard#wake-ups`; ADR-0036, ADR-0046.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from bigfleet.model.buckets import ALL_BUCKETS, label_of
from bigfleet.model.demand import ClusterNeeds
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.needs_table import NeedsTable
from bigfleet.obs.limited_log import LimitedLog
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.rollup_guard import RollupGuard, is_drop
from bigfleet.wire.rollup_limits import refusal_reason
from bigfleet.wire.rollups import Rollup, RollupReader

MOST_NAMED: Final = 5_000
"""Clusters that metrics name; as many as one shard is made for."""


@dataclass(frozen=True, slots=True)
class ReadRollup:
    """A roll-up that was read, with all that follows from its rows alone."""

    rollup: Rollup
    part: ClusterNeeds | None
    """The new demand of its cluster; None if that is the same as before."""
    fingerprints: Collection[str]
    buckets: Counter[str]


class RollupIntake:
    """The demand of all clusters, and the way it is replaced."""

    def __init__(self, context: ShardContext, wake: Callable[[], None]) -> None:
        self._guard = RollupGuard(enabled=context.options.empty_rollup_guard)
        self._limits = context.options.rollup_limits
        self._first_seen, self._steady = context.first_seen, context.steady
        self._metrics, self._wake = context.metrics, wake
        self._log = LimitedLog(context.log, context.clock, about="cluster")
        self.needs = NeedsTable()
        self.reported: set[str] = set()
        """Clusters that sent a valid roll-up, even if empty or held; never cleared."""
        self.accepted_ns: dict[str, int] = {}
        """When the roll-up that counts was accepted, by cluster, in steady time."""
        self._named: set[str] = set()
        """Clusters that metrics name."""
        self._buckets: dict[str, Counter[str]] = {}
        self._rows_by_bucket = Counter({label_of(bucket): 0 for bucket in ALL_BUCKETS})

    @property
    def rows_by_bucket(self) -> dict[str, int]:
        """Rows of demand per bucket of interruption penalty."""
        return dict(self._rows_by_bucket)

    def held_rollups(self, cluster: str) -> int:
        """The number of roll-ups of a cluster held in a row."""
        return self._guard.held(cluster)

    def reader(self, cluster: str) -> RollupReader:
        """A reader for one session, which refuses what is beyond the limits of this shard."""
        return RollupReader(cluster, self._limits, self._steady.now_ns)

    def refused(self, cluster: str, error: InvalidFieldError) -> None:
        """A roll-up was invalid or too large: the last good demand stays."""
        self._metrics.counter("bigfleet_shard_rollup_refusals_total", reason=refusal_reason(error)).inc()
        self._metrics.counter("bigfleet_shard_rollups_rejected_total", cluster=self._label(cluster)).inc()
        self._log.error("rollup_rejected", cluster, problem=str(error))

    def _label(self, cluster: str) -> str:
        """The cluster's name for a metric; empty for one that may be invented, as every name becomes a series that stays."""
        if cluster in self.accepted_ns and len(self._named) < MOST_NAMED:
            self._named.add(cluster)
        return cluster if cluster in self._named else ""

    def prepared(self, rollup: Rollup) -> ReadRollup:
        """Do the work that grows with the rows; it changes nothing, so that a thread may do it.

        Valid until another roll-up of the cluster is taken.
        """
        return ReadRollup(
            rollup,
            self.needs.changed_part(rollup.cluster, rollup.needs),
            dict.fromkeys(need.profile.fingerprint for need in rollup.needs),
            Counter(label_of(need.profile.interruption_bucket) for need in rollup.needs),
        )

    def take(self, prepared: ReadRollup) -> None:
        """Apply a roll-up, or hold it."""
        rollup = prepared.rollup
        cluster, rows = rollup.cluster, len(rollup.needs)
        first = cluster not in self.reported
        self.reported.add(cluster)
        accepted_before = self._guard.accepted_rows(cluster)
        held_before = self._guard.held(cluster)
        accepts = self._guard.accepts(cluster, rows)
        held = self._guard.held(cluster)
        if held or held_before:
            self._metrics.gauge("bigfleet_shard_rollup_quarantined", cluster=self._label(cluster)).set(held)
        if not accepts:
            self._log.warning("rollup_held", cluster, rows=rows, accepted_rows=accepted_before, held=held)
            return
        if held_before and is_drop(rows, accepted_before):
            self._log.warning("rollup_drop_confirmed", cluster, rows=rows, accepted_rows=accepted_before)
        if prepared.part is not None:
            self.needs.put(prepared.part)
            self._rows_by_bucket.subtract(self._buckets.pop(cluster, Counter()))
            self._rows_by_bucket.update(prepared.buckets)
            self._buckets[cluster] = prepared.buckets
        self.accepted_ns[cluster] = self._steady.now_ns()
        self._first_seen.reported(cluster, prepared.fingerprints, self._steady.now_s())
        if prepared.part is not None or first:  # an empty first one allows releases
            self._wake()
