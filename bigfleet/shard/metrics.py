"""The shard's metrics, with one attribute or method per series.

Why: looking a series up by name costs more than counting, so the frequent ones are looked up once.
Must never: use a name that is not in the catalogue, which is a contract; the catalogue refuses it at start.
Rules: shard 21.
"""

from collections.abc import Mapping

from bigfleet.model.action import ActionKind
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.pending_action import ActionOutcome
from bigfleet.shard.core.shortfalls import REPORTED, age_class, priority_class
from bigfleet.shard.core.views import AgedShortfall

_AGES = ("1-9", "10-59", "60-299", "300+")
_PRIORITIES = ("critical", "service", "batch", "other")


class ShardMetrics:
    """The series of one shard."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._outcomes = {
            (kind, outcome): metrics.counter(
                "bigfleet_shard_action_execute_outcomes_total", kind=kind.value, outcome=outcome.value
            )
            for kind in ActionKind
            for outcome in ActionOutcome
        }
        self._actions = {
            kind: metrics.counter("bigfleet_shard_actions_total", kind=kind.value) for kind in ActionKind
        }
        self.deferred = metrics.counter("bigfleet_shard_actions_deferred_total")
        self.dropped = metrics.counter("bigfleet_shard_actions_dropped_total")
        self.deduped = metrics.counter("bigfleet_shard_actions_deduped_total")
        self.capped = metrics.counter("bigfleet_shard_reclaims_capped_total")
        self.backed_off = metrics.counter("bigfleet_shard_acquisitions_held_off_total")
        self.idle_releases = metrics.counter("bigfleet_shard_idle_releases_total")
        self.paused = metrics.gauge("bigfleet_shard_actuation_paused")
        self.self_paused = metrics.gauge("bigfleet_shard_self_paused")
        self.queue_depth = metrics.gauge("bigfleet_shard_action_queue_depth")
        self.in_flight = metrics.gauge("bigfleet_shard_execute_inflight")
        self.sessions = metrics.gauge("bigfleet_shard_active_sessions")
        self.identity_rejected = metrics.counter("bigfleet_shard_session_identity_rejected_total")
        self.overflowed = metrics.counter("bigfleet_shard_session_overflows_total")
        self.reconciled_at = metrics.gauge("bigfleet_shard_last_reconcile_success_timestamp_seconds")
        self.disputed = metrics.counter("bigfleet_shard_disputed_reports_total")
        self.adopted = metrics.counter("bigfleet_shard_adopted_reports_total")
        self.listings_held = metrics.gauge("bigfleet_shard_listings_held")
        self.cycle_failures = metrics.counter("bigfleet_shard_cycle_failures_total")
        self.audit_lost = metrics.counter("bigfleet_shard_audit_write_errors_total")
        self.cycle = metrics.histogram("bigfleet_shard_cycle_duration_seconds")
        self.configure = metrics.histogram("bigfleet_shard_configure_phase_seconds")
        self.drain = metrics.histogram("bigfleet_shard_drain_phase_seconds")
        self.blob = metrics.histogram("bigfleet_shard_request_bootstrap_seconds")
        self.provisioning = metrics.histogram("bigfleet_shard_provisioning_latency_seconds")
        self._shortfalls = metrics.gauge("bigfleet_shard_shortfalls")
        self._inventory: set[tuple[str, str, str]] = set()

    def action(self, kind: ActionKind) -> None:
        """An action was handed to dispatch."""
        self._actions[kind].inc()

    def outcome(self, kind: ActionKind, outcome: ActionOutcome) -> None:
        """An execution ended."""
        self._outcomes[kind, outcome].inc()

    def suppressed(self, kind: ActionKind) -> None:
        """The kill switch withheld an action."""
        self._metrics.counter("bigfleet_shard_actions_suppressed_total", kind=kind.value).inc()

    def dry_run(self, kind: ActionKind) -> None:
        """A dry run decided an action."""
        self._metrics.counter("bigfleet_shard_actions_dryrun_total", kind=kind.value).inc()

    def phase(self, name: str, seconds: float) -> None:
        """A phase of a cycle took this long."""
        self._metrics.histogram("bigfleet_shard_cycle_phase_duration_seconds", phase=name).observe(seconds)

    def session(self, event: str) -> None:
        """A session was installed, replaced or removed."""
        self._metrics.counter("bigfleet_shard_session_lifecycle_total", event=event).inc()

    def rollup_held(self, cluster: str, held: int) -> None:
        """This many roll-ups of a cluster are held in a row."""
        self._metrics.gauge("bigfleet_shard_rollup_quarantined", cluster=cluster).set(held)

    def rollup_rejected(self, cluster: str) -> None:
        """A malformed roll-up of a cluster was refused."""
        self._metrics.counter("bigfleet_shard_rollups_rejected_total", cluster=cluster).inc()

    def machine_rejected(self, reason: str) -> None:
        """A provider's record was refused."""
        self._metrics.counter("bigfleet_shard_machines_rejected_total", reason=reason).inc()

    def metadata_skipped(self, key: str) -> None:
        """A value of a machine's metadata was invalid."""
        self._metrics.counter("bigfleet_shard_metadata_skipped_total", key=key).inc()

    def proposals(self, committed: int) -> None:
        """The commit broker of Phase 1 took this many claims; with one deciding thread none conflicts."""
        self._metrics.counter("bigfleet_shard_phase1_occ_proposals_total", outcome="committed").inc(committed)

    def demand(self, rows_by_bucket: Mapping[str, int]) -> None:
        """Set the rows of demand of every bucket."""
        for bucket, rows in rows_by_bucket.items():
            self._metrics.gauge("bigfleet_shard_demand_machines", interruption_penalty_bucket=bucket).set(
                rows
            )

    def inventory(self, machines: Mapping[tuple[str, str, str], int]) -> None:
        """Set the machines by state, capacity type and bucket; series of vanished combinations are removed."""
        name = "bigfleet_shard_inventory_machines"
        for state, capacity_type, bucket in sorted(self._inventory - machines.keys()):
            self._metrics.forget(
                name, state=state, capacity_type=capacity_type, interruption_penalty_bucket=bucket
            )
        for (state, capacity_type, bucket), count in machines.items():
            self._metrics.gauge(
                name, state=state, capacity_type=capacity_type, interruption_penalty_bucket=bucket
            ).set(count)
        self._inventory = set(machines)

    def shortfalls(self, entries: tuple[AgedShortfall, ...]) -> None:
        """Set the shortfall gauges from the ledger in report order; the classes count only reported entries."""
        self._shortfalls.set(len(entries))
        reported = entries[:REPORTED]
        for label in _AGES:
            count = sum(age_class(entry.age_cycles) == label for entry in reported)
            self._metrics.gauge("bigfleet_shard_shortfalls_aged", bucket=label).set(count)
        for label in _PRIORITIES:
            count = sum(priority_class(entry.profile.priority) == label for entry in reported)
            self._metrics.gauge("bigfleet_shard_shortfalls_by_priority", priority_class=label).set(count)
