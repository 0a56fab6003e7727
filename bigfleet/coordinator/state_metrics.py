"""The series of the coordinator that describe a state: brought up to date at every scrape.

Why: the original sets some of them only while it serves a report, so that they lie in between; here each scrape looks.
Must never: keep a series of a shard or provider that is gone, or say anything of shards on a replica that does not serve.
Rules: coordinator 13.
"""

from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.core.machine import Machine
from bigfleet.coordinator.core.tables import MoveState, Tables
from bigfleet.coordinator.log import Membership, RaftState, ReplicatedLog
from bigfleet.coordinator.reign import Throne
from bigfleet.obs.metrics import Metrics

_LEADS: Final = (RaftState.LEADER, RaftState.SERVING)


class StateMetrics:
    """Writes gauges from the log, the tables and the reign."""

    def __init__(
        self, metrics: Metrics, log: ReplicatedLog, machine: Machine, throne: Throne, clock: Clock
    ) -> None:
        self._metrics, self._log, self._machine = metrics, log, machine
        self._throne, self._clock = throne, clock

    def refresh(self) -> None:
        """Bring every series up to date."""
        self._replica()
        self._tables()
        self._reign()

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

        level, ghosts, phases = self._machine.read(look)
        for which, value in (("raised", level), ("known", KNOWN_LEVEL)):
            self._metrics.gauge("bigfleet_coordinator_command_level", which=which).set(value)
        self._metrics.gauge("bigfleet_coordinator_ghosts").set(ghosts)
        for phase, count in phases.items():
            self._metrics.gauge("bigfleet_coordinator_moves", phase=phase).set(count)

    def _reign(self) -> None:
        pending: dict[tuple[str], int] = {}
        conflicts: dict[tuple[str], int] = {}
        blockers: dict[tuple[str], int] = {}
        reign = self._throne.reign
        if reign is None:
            self._metrics.replace("bigfleet_coordinator_shard_address_mismatch", {})
        else:
            pending = {(shard,): len(reign.queue.pending(shard)) for shard in reign.soft.heard()}
            found = reign.soft.conflicts(monotonic_s(self._clock))
            conflicts = {(provider,): len(shards) for provider, shards in found.items()}
            shards, ghosts, relearn = self._machine.read(
                lambda tables: (list(tables.shards), list(tables.ghosts), tables.relearn)
            )
            blockers = {(blocker,): 1 for blocker in reign.blockers(shards, ghosts, relearn=relearn)}
        self._metrics.replace("bigfleet_coordinator_pending_instructions", pending)
        self._metrics.replace("bigfleet_coordinator_provider_conflict", conflicts)
        self._metrics.replace("bigfleet_coordinator_partition_blocked_by", blockers)
