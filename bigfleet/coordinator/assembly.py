"""Builds the parts of one replica above its log.

Why: the program and the tests build the same thing around different logs and clocks.
Must never: create a clock, a socket or a file; the caller passes them in.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SteadyWall, monotonic_s
from bigfleet.aio.ids import Ids
from bigfleet.aio.net import ServeOptions
from bigfleet.aio.service import BoundService
from bigfleet.coordinator.core.soft_state import ClockReading
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.leader_check import Leadership
from bigfleet.coordinator.log import ReplicatedLog
from bigfleet.coordinator.maintenance import LevelsOfVoters, Maintenance
from bigfleet.coordinator.metrics import StateMetrics
from bigfleet.coordinator.proposer import STATUSES, Proposer
from bigfleet.coordinator.report_handler import ReportHandler
from bigfleet.coordinator.service import CoordinatorService
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.coordinator import COORDINATOR


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """The parts of one replica above its log."""

    service: CoordinatorService
    leadership: Leadership
    proposer: Proposer
    maintenance: Maintenance
    state_metrics: StateMetrics

    def bound(self) -> BoundService:
        """Return the service for a server."""
        return COORDINATOR.bind(self.service)


def serve_options(*, reflection: bool = False) -> ServeOptions:
    """Return the server options of a coordinator."""
    return ServeOptions(reflection=reflection, statuses=STATUSES)


def assemble(
    log: ReplicatedLog,
    state_machine: CoordinatorStateMachine,
    *,
    clock: Clock,
    ids: Ids,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    levels: LevelsOfVoters | None = None,
) -> CoordinatorParts:
    """Build everything above a log; the caller starts the log."""
    wall = SteadyWall(clock)

    def now() -> ClockReading:
        return ClockReading(monotonic_s(clock), wall.now_ns())

    leadership = Leadership(log, ids.instruction)
    proposer = Proposer(log, clock, metrics)
    reports = ReportHandler(
        leadership=leadership, state_machine=state_machine, proposer=proposer, metrics=metrics, log=logger
    )
    service = CoordinatorService(
        log=log,
        state_machine=state_machine,
        leadership=leadership,
        proposer=proposer,
        reports=reports,
        now=now,
    )
    maintenance = Maintenance(
        log=log,
        state_machine=state_machine,
        leadership=leadership,
        proposer=proposer,
        clock=clock,
        logger=logger,
        levels=levels or _no_levels,
    )
    return CoordinatorParts(
        service,
        leadership,
        proposer,
        maintenance,
        StateMetrics(metrics, log, state_machine, leadership, clock),
    )


async def _no_levels() -> Mapping[str, int]:
    return {}
