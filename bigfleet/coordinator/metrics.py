"""The gauges of the coordinator, refreshed at every scrape.

Why: the original sets some of them only while it handles a report, so they are wrong in between.
Must never: keep a series of a removed shard or provider, or show shards on a replica that does not serve.
Rules: coordinator 13.
"""

from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.core.tables import MoveState, Tables
from bigfleet.coordinator.leader_check import Leadership
from bigfleet.coordinator.log import Membership, RaftState, ReplicatedLog
from bigfleet.obs.metrics import Metrics

_PREFIX: Final = "bigfleet_coordinator_"
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
            ("raft_term", status.term),
            ("is_leader", status.state in _LEADS),
            ("serving", status.serving is not None),
            ("epoch", status.epoch),
            ("commit_index", status.commit_index),
            ("applied_index", status.applied_index),
            ("tick_age_seconds", self._log.tick_age_s()),
            ("learner", status.state is RaftState.LEARNER),
            ("membership_solo", status.membership is Membership.SOLO),
        ):
            self._metrics.gauge(f"{_PREFIX}{name}").set(value)
        self._metrics.clear(f"{_PREFIX}peer_connected")
        for peer in status.peers:
            if peer.node_id != status.node_id:
                self._metrics.gauge(f"{_PREFIX}peer_connected", peer=peer.node_id).set(peer.connected)

    def _tables(self) -> None:
        def look(tables: Tables) -> tuple[int, int, dict[str, int]]:
            phases = dict.fromkeys((state.value for state in MoveState), 0)
            for rows in tables.moves.values():
                for row in rows.values():
                    phases[row.phase] += 1
            return tables.level, len(tables.ghosts), phases

        level, ghosts, phases = self._state_machine.read(look)
        for which, value in (("raised", level), ("known", KNOWN_LEVEL)):
            self._metrics.gauge(f"{_PREFIX}command_level", which=which).set(value)
        self._metrics.gauge(f"{_PREFIX}ghosts").set(ghosts)
        for phase, count in phases.items():
            self._metrics.gauge(f"{_PREFIX}moves", phase=phase).set(count)

    def _leader(self) -> None:
        for name in ("pending_instructions", "provider_conflict", "partition_blocked_by"):
            self._metrics.clear(f"{_PREFIX}{name}")
        leader = self._leadership.current
        if leader is None:
            self._metrics.clear(f"{_PREFIX}shard_address_mismatch")
            return
        for shard in leader.soft.shard_ids():
            pending = len(leader.queue.pending(shard))
            self._metrics.gauge(f"{_PREFIX}pending_instructions", shard=shard).set(pending)
        for provider, shards in leader.soft.conflicts(monotonic_s(self._clock)).items():
            self._metrics.gauge(f"{_PREFIX}provider_conflict", provider=provider).set(len(shards))
        for blocker in self._state_machine.read(leader.blockers):
            self._metrics.gauge(f"{_PREFIX}partition_blocked_by", shard=blocker).set(1)
