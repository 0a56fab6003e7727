"""The periodic work of a replica: readiness, and on the leader provider conflicts, re-learning and command levels.

Must never: raise the level before every voter advertises it (`coordinator#command-levels`), end the re-learning before
every shard has reported (`coordinator#restore`, `coordinator#relearn`), or go on for more than a second after
leadership is lost.
Rules: `coordinator#serving`, `coordinator#provider-conflict`, `coordinator#restore`, `coordinator#relearn`,
`coordinator#chart`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Health
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.core.relearn import relearn
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.core.tables import Tables
from bigfleet.coordinator.leader_check import Leadership
from bigfleet.coordinator.leader_state import LeaderState
from bigfleet.coordinator.log import ReplicatedLog
from bigfleet.coordinator.proposer import Proposer
from bigfleet.coordinator.raft.peer_calls import PeerCalls
from bigfleet.model.errors import BigFleetError
from bigfleet.transport.coordinator import COORDINATOR

EVERY_S: Final = 1.0
CONFLICT_LOG_S: Final = 60.0
LEVEL_S: Final = 10.0
RELEARN_S: Final = 600.0

LevelsOfVoters = Callable[[], Awaitable[Mapping[str, int]]]
"""Asks every voter which level of commands it knows; a voter that does not answer counts as 0."""


def levels_of_voters(log: ReplicatedLog, calls: PeerCalls, known_level: int = KNOWN_LEVEL) -> LevelsOfVoters:
    """Return a function that asks the voters over gRPC."""

    async def ask() -> Mapping[str, int]:
        status = log.status()
        levels = {status.node_id: known_level}
        for peer in status.peers:
            if peer.node_id != status.node_id:
                answer = await calls.probe(peer.grpc_address)
                levels[peer.node_id] = 0 if answer is None else answer.command_level
        return levels

    return ask


class Maintenance:
    """The loop of a replica that runs once a second."""

    def __init__(
        self,
        *,
        log: ReplicatedLog,
        state_machine: CoordinatorStateMachine,
        leadership: Leadership,
        proposer: Proposer,
        clock: Clock,
        logger: FilteringBoundLogger,
        levels: LevelsOfVoters,
        known_level: int = KNOWN_LEVEL,
    ) -> None:
        self._log, self._state_machine = log, state_machine
        self._leadership, self._proposer = leadership, proposer
        self._clock, self._logger = clock, logger
        self._levels, self._known_level = levels, known_level
        self._next_conflict_s = self._next_level_s = self._next_dispute_s = 0.0

    async def run(self, health: Health) -> None:
        """Do what is due once a second, until cancelled."""
        while True:
            health.set_serving(COORDINATOR.name, not self._log.status().waiting)
            leader = self._leadership.current
            if leader is not None:
                try:
                    await self.run_leader_tasks(leader)
                except (
                    BigFleetError
                ) as error:  # leadership was lost or the log is busy: try again in a second
                    self._logger.debug("upkeep_postponed", why=str(error))
            await self._clock.sleep(EVERY_S)

    async def run_leader_tasks(self, leader: LeaderState) -> None:
        """Do what is due on the leader."""
        now_s = monotonic_s(self._clock)
        self._log_conflicts(leader, now_s)
        await self._end_relearning(leader, now_s)
        await self._raise_level(now_s)

    def _log_conflicts(self, leader: LeaderState, now_s: float) -> None:
        if now_s < self._next_conflict_s:
            return
        conflicts = leader.soft.conflicts(now_s)
        for provider, shards in conflicts.items():
            self._logger.error(
                "provider_conflict",
                provider=provider,
                shards=list(shards),
                what="these shards all own every machine of one provider; give each a provider of its own",
            )
        if conflicts:
            self._next_conflict_s = now_s + CONFLICT_LOG_S

    async def _end_relearning(self, leader: LeaderState, now_s: float) -> None:
        def look(tables: Tables) -> tuple[bool, list[str]]:
            return tables.relearn, list(tables.shards)

        relearning, shards = self._state_machine.read(look)
        if not relearning or leader.first_report is None:
            return
        if not await self._relearn(leader, now_s):
            return
        if now_s - leader.first_report.monotonic_s < RELEARN_S or not all(
            leader.soft.has_settled(shard) for shard in shards
        ):
            return
        await self._proposer.propose(commands.relearn_done())
        self._logger.info("relearning_done", shards=len(shards))

    async def _relearn(self, leader: LeaderState, now_s: float) -> bool:
        """Take over what the views of shards say; return whether nothing was left to do."""
        found = self._state_machine.read(lambda tables: relearn(tables, leader.soft.views()))
        if found.disputed and now_s >= self._next_dispute_s:
            self._next_dispute_s = now_s + CONFLICT_LOG_S
            self._logger.error(
                "domains_disputed",
                domains=[f"{key}={value}" for key, value in found.disputed[:20]],
                count=len(found.disputed),
                what="more than one shard holds each of these; nothing moves until one of them is removed as destroyed",
            )
        for command in found.commands:
            await self._proposer.propose(command)
        return not found.commands and not found.disputed

    async def _raise_level(self, now_s: float) -> None:
        level = self._state_machine.read(lambda tables: tables.level)
        if level >= self._known_level or now_s < self._next_level_s:
            return
        self._next_level_s = now_s + LEVEL_S
        known = await self._levels()
        lowest = min((known.get(voter, 0) for voter in self._log.status().voters), default=0)
        if lowest > level:
            await self._proposer.propose(commands.raise_level(min(lowest, self._known_level)))
            self._logger.info("command_level_raised", level=min(lowest, self._known_level))
