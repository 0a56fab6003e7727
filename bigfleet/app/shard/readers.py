"""The readers of a shard: its read services, the watcher that feeds them, and its client of the coordinator.

Why: the shard knows none of them; they are connected here, from flags.
Must never: give a reader more of the shard than its views, its term, and calls that change nothing.
Rules: `shard#static-stability`, `shard#coordinator-client`, `shard#inspection`, `dashboard#insight-service`,
`shard#part-ends`.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.aio.seams import Seams
from bigfleet.aio.service import BoundService
from bigfleet.app.shard.command import ShardSettings
from bigfleet.coordlink.link import CoordinatorLink
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import CoordinatorLinkStatus
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.shard.read.live_sources import live_sources
from bigfleet.shard.read.need_frames import NeedFrames
from bigfleet.shard.read.problem_watch import ProblemWatch
from bigfleet.shard.read.read_service import ReadService
from bigfleet.shard.shard import Shard
from bigfleet.transport.resolve import system_resolve
from bigfleet.version import __version__


@dataclass(frozen=True, slots=True)
class ShardReaders:
    """The read services, and the parts that run with the shard."""

    read: ReadService
    insight: InsightService
    follower: CycleFollower
    problems: ProblemWatch
    link: CoordinatorLink | None

    def services(self) -> tuple[BoundService, ...]:
        """Return the services for the session port."""
        return (self.read.bound(), self.insight.bound())

    def parts(self) -> dict[str, Coroutine[Any, Any, object]]:
        """Return the parts to run; none of them ends by itself."""
        parts: dict[str, Coroutine[Any, Any, object]] = {
            "watching": self.follower.follow(),
            "problem watch": self.problems.follow(),
        }
        if self.link is not None:
            parts["coordinator client"] = self.link.run()
        return parts


def readers_of(
    settings: ShardSettings,
    shard: Shard,
    decisions: DecisionLog,
    *,
    seams: Seams,
    metrics: Metrics,
    log: FilteringBoundLogger,
) -> ShardReaders:
    """Connect the readers to a shard; raises for a term file that cannot be read."""
    link = None
    if settings.coordinator_addr:
        link = CoordinatorLink(
            shard,
            shard.term,
            settings.coordinator_addr,
            data_dir=settings.data_dir,
            net=seams.net,
            resolve=system_resolve,
            clock=seams.clock,
            disk=seams.disk,
            metrics=metrics,
            log=log,
            interval_s=settings.coordinator_heartbeat_interval,
            shared=shard.ownership,
        )
    follower = CycleFollower(shard, decisions, log=log)
    sources = replace(
        live_sources(shard),
        version=__version__,
        coordinator=lambda: None if link is None else _link_status(link, shard.term.value),
        last_reconcile_ns=lambda: round(
            metrics.value("bigfleet_shard_last_reconcile_success_timestamp_seconds") * NANOSECONDS
        ),
        rollup_accepted_ns=lambda cluster: shard.intake.accepted_ns.get(cluster, 0),
        totals=lambda: metrics.totals("bigfleet_shard_"),
    )
    coverage = CoverageReader(shard, sources)
    frames = NeedFrames(coverage)
    return ShardReaders(
        ReadService(shard, frames),
        InsightService(shard, follower, sources, frames, coverage),
        follower,
        ProblemWatch(shard, coverage, sources, clock=seams.clock, metrics=metrics, log=log),
        link,
    )


def _link_status(link: CoordinatorLink, term: int) -> CoordinatorLinkStatus:
    status = link.status
    return CoordinatorLinkStatus(
        address=status.address,
        last_answer_ns=status.last_answer_ns,
        last_answer_age_s=link.last_answer_age_s,
        failures=status.failures,
        last_error=status.last_error,
        term=term,
        reports=status.reports,
        restarts=status.restarts,
    )
