"""The gauges of the coordinator, refreshed at every scrape.

Why: the original sets some of them only while it handles a report, so they are wrong in between.
Must never: keep a series of a removed shard or provider, or show shards on a replica that does not serve.
Rules: `coordinator#series`.
"""

from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.core.tables import MoveState, Tables
from bigfleet.coordinator.leader_check import Leadership
from bigfleet.coordinator.log import Membership, RaftState, ReplicatedLog
from bigfleet.obs.metrics import Metrics

_LEADS: Final = (RaftState.LEADER, RaftState.SERVING)


class StateMetrics:
    """Sets gauges from the log, the tables and the leader's memory."""

    def __init__(
        self,
        metrics: Metrics,
        log: ReplicatedLog,
        state_machine: CoordinatorStateMachine,
        leadership: Leadership,
        clock: Clock,
    ) -> None:
        self._metrics, self._log, self._state_machine = metrics, log, state_machine
        self._leadership, self._clock = leadership, clock

    def refresh(self) -> None:
        """Bring every series up to date."""
        self._replica()
        self._tables()
        self._leader()

    def _replica(self) -> None:
        status = self._log.status()
        for name, value in (
            ("bigfleet_coordinator_raft_term", status.term),
            ("bigfleet_coordinator_is_leader", status.state in _LEADS),
            ("bigfleet_coordinator_serving", status.serving is not None),
            ("bigfleet_coordinator_epoch", status.epoch),
            ("bigfleet_coordinator_commit_index", status.commit_index),
            ("bigfleet_coordinator_applied_index", status.applied_index),
            ("bigfleet_coordinator_tick_age_seconds", self._log.tick_age_s()),
            ("bigfleet_coordinator_learner", status.state is RaftState.LEARNER),
            ("bigfleet_coordinator_membership_solo", status.membership is Membership.SOLO),
        ):
            self._metrics.gauge(name).set(value)
        others = [peer for peer in status.peers if peer.node_id != status.node_id]
        self._metrics.replace(
            "bigfleet_coordinator_peer_connected", {(peer.node_id,): peer.connected for peer in others}
        )

    def _tables(self) -> None:
        def look(tables: Tables) -> tuple[int, int, dict[str, int]]:
            phases = dict.fromkeys((state.value for state in MoveState), 0)
            for rows in tables.moves.values():
                for row in rows.values():
                    phases[row.phase] += 1
            return tables.level, len(tables.ghosts), phases

        level, ghosts, phases = self._state_machine.read(look)
        for which, value in (("raised", level), ("known", KNOWN_LEVEL)):
            self._metrics.gauge("bigfleet_coordinator_command_level", which=which).set(value)
        self._metrics.gauge("bigfleet_coordinator_ghosts").set(ghosts)
        for phase, count in phases.items():
            self._metrics.gauge("bigfleet_coordinator_moves", phase=phase).set(count)

    def _leader(self) -> None:
        pending: dict[tuple[str], int] = {}
        conflicts: dict[tuple[str], int] = {}
        blockers: dict[tuple[str], int] = {}
        leader = self._leadership.current
        if leader is None:
            self._metrics.replace("bigfleet_coordinator_shard_address_mismatch", {})
        else:
            pending = {(shard,): len(leader.queue.pending(shard)) for shard in leader.soft.shard_ids()}
            found = leader.soft.conflicts(monotonic_s(self._clock))
            conflicts = {(provider,): len(shards) for provider, shards in found.items()}
            blockers = {(blocker,): 1 for blocker in self._state_machine.read(leader.blockers)}
        self._metrics.replace("bigfleet_coordinator_pending_instructions", pending)
        self._metrics.replace("bigfleet_coordinator_provider_conflict", conflicts)
        self._metrics.replace("bigfleet_coordinator_partition_blocked_by", blockers)
