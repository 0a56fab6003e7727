"""What a replica does besides answering: readiness, and the leader's watch over conflicts, re-learning and levels.

Why: none of it belongs into a call, and all of it must stop within a second of losing the leadership.
Must never: raise the level before every voter advertises it (decision C12), or end the re-learning before every shard has
been heard (coordinator 10.4).
Rules: coordinator 4.1, 8.2, 10.4, 16.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Health
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.core.machine import Machine
from bigfleet.coordinator.core.tables import Tables
from bigfleet.coordinator.desk import Desk
from bigfleet.coordinator.log import ReplicatedLog
from bigfleet.coordinator.reign import Reign, Throne
from bigfleet.model.errors import BigFleetError
from bigfleet.transport.coordinator import COORDINATOR

EVERY_S: Final = 1.0
CONFLICT_LOG_S: Final = 60.0
LEVEL_S: Final = 10.0
RELEARN_S: Final = 600.0

LevelsOfVoters = Callable[[], Awaitable[Mapping[str, int]]]
"""Asks every voter which level of commands it knows; one that does not answer counts as 0."""


class Upkeep:
    """The second hand of a replica."""

    def __init__(
        self,
        *,
        log: ReplicatedLog,
        machine: Machine,
        throne: Throne,
        desk: Desk,
        clock: Clock,
        logger: FilteringBoundLogger,
        levels: LevelsOfVoters,
        known_level: int = KNOWN_LEVEL,
    ) -> None:
        self._log, self._machine, self._throne, self._desk = log, machine, throne, desk
        self._clock, self._logger = clock, logger
        self._levels, self._known_level = levels, known_level
        self._next_conflict_s = self._next_level_s = 0.0

    async def run(self, health: Health) -> None:
        """Look after the replica until cancelled."""
        while True:
            health.set_serving(COORDINATOR.name, not self._log.status().waiting)
            reign = self._throne.reign
            if reign is not None:
                try:
                    await self.look_after(reign)
                except BigFleetError as error:  # the leadership went, or the log is busy: next second
                    self._logger.debug("upkeep_postponed", why=str(error))
            await self._clock.sleep(EVERY_S)

    async def look_after(self, reign: Reign) -> None:
        """Do what is due under this reign."""
        now_s = monotonic_s(self._clock)
        self._log_conflicts(reign, now_s)
        await self._end_relearning(reign, now_s)
        await self._raise_level(now_s)

    def _log_conflicts(self, reign: Reign, now_s: float) -> None:
        if now_s < self._next_conflict_s:
            return
        conflicts = reign.soft.conflicts(now_s)
        for provider, shards in conflicts.items():
            self._logger.error(
                "provider_conflict",
                provider=provider,
                shards=list(shards),
                what="these shards all own every machine of one provider; give each a provider of its own",
            )
        if conflicts:
            self._next_conflict_s = now_s + CONFLICT_LOG_S

    async def _end_relearning(self, reign: Reign, now_s: float) -> None:
        def look(tables: Tables) -> tuple[bool, list[str]]:
            return tables.relearn, list(tables.shards)

        relearn, shards = self._machine.read(look)
        if not relearn or reign.first_report is None:
            return
        if now_s - reign.first_report.monotonic_s < RELEARN_S or not all(
            self._has_settled(reign, shard) for shard in shards
        ):
            return
        await self._desk.propose(commands.relearn_done())
        self._logger.info("relearning_done", shards=len(shards))

    @staticmethod
    def _has_settled(reign: Reign, shard: str) -> bool:
        state = reign.soft.of(shard)
        if state is None or state.reported is None:
            return False
        sharing = state.summary is not None and bool(state.summary.partition_key)
        return not sharing or (state.view is not None and state.view.settled)

    async def _raise_level(self, now_s: float) -> None:
        level = self._machine.read(lambda tables: tables.level)
        if level >= self._known_level or now_s < self._next_level_s:
            return
        self._next_level_s = now_s + LEVEL_S
        known = await self._levels()
        lowest = min((known.get(voter, 0) for voter in self._log.status().voters), default=0)
        if lowest > level:
            await self._desk.propose(commands.raise_level(min(lowest, self._known_level)))
            self._logger.info("command_level_raised", level=min(lowest, self._known_level))
