"""All parts of one replica above its log, wired to each other.

Why: the program, the all-in-one process, the simulator and tests build the same thing around different logs and clocks.
Must never: make a clock, a socket or a file; all of them are handed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.aio.ids import Ids
from bigfleet.aio.net import ServeOptions
from bigfleet.aio.service import BoundService
from bigfleet.coordinator.core.machine import Machine
from bigfleet.coordinator.desk import STATUSES, Desk
from bigfleet.coordinator.log import ReplicatedLog
from bigfleet.coordinator.reign import Throne
from bigfleet.coordinator.reporting import Reporting
from bigfleet.coordinator.service import CoordinatorService, Now
from bigfleet.coordinator.state_metrics import StateMetrics
from bigfleet.coordinator.upkeep import LevelsOfVoters, Upkeep
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.coordinator import COORDINATOR


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica's parts."""

    service: CoordinatorService
    throne: Throne
    desk: Desk
    upkeep: Upkeep
    state_metrics: StateMetrics

    def bound(self) -> BoundService:
        """The service, ready to be served."""
        return COORDINATOR.bind(self.service)


def serve_options(*, reflection: bool = False) -> ServeOptions:
    """What the server of a coordinator needs besides the service."""
    return ServeOptions(reflection=reflection, statuses=STATUSES)


def assemble(
    log: ReplicatedLog,
    machine: Machine,
    *,
    clock: Clock,
    ids: Ids,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    levels: LevelsOfVoters | None = None,
) -> Replica:
    """Build everything above a log; the log is not started here."""
    now = Now(clock)
    throne = Throne(log, ids.instruction, now)
    desk = Desk(log, clock, metrics)
    reporting = Reporting(throne=throne, machine=machine, desk=desk, metrics=metrics, log=logger)
    service = CoordinatorService(
        log=log, machine=machine, throne=throne, desk=desk, reporting=reporting, now=now
    )
    upkeep = Upkeep(
        log=log,
        machine=machine,
        throne=throne,
        desk=desk,
        clock=clock,
        logger=logger,
        levels=levels or _nobody,
    )
    return Replica(service, throne, desk, upkeep, StateMetrics(metrics, log, machine, throne, clock))


async def _nobody() -> Mapping[str, int]:
    return {}
