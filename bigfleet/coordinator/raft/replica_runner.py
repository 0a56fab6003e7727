"""Starts and stops the Raft object of a replica: as learner, sole voter or voter.

Why: the library cannot change the role of a node, so every change of role is a new Raft object on the same directory.
Must never: run two of them on one directory, or keep the tables of the one before: entries would be applied twice.
Rules: `coordinator#learner`, `coordinator#expand`, `coordinator#process`.
"""

from collections.abc import Callable
from typing import TypeVar

from bigfleet.aio.clock import NANOSECONDS, Clock
from bigfleet.coordinator.log import StateMachine, UnavailableError
from bigfleet.coordinator.raft.directory import ReplicaDirectory
from bigfleet.coordinator.raft.dump import DumpSerializer
from bigfleet.coordinator.raft.guarded_transport import RelayedNode
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.membership import RaftMembers
from bigfleet.coordinator.raft.message_guard import LearnerReport, MessageGuard
from bigfleet.coordinator.raft.raft_gate import LOOPBACK
from bigfleet.coordinator.raft.relays import Relays, free_port
from bigfleet.coordinator.raft.replica import Replica, ReplicaConfig, ReplicaListeners
from bigfleet.coordinator.raft.replica_thread import ReplicaThread
from bigfleet.obs.metrics import Metrics

_T = TypeVar("_T")


class ReplicaRunner:
    """The Raft object of this replica, if one runs; used on the asyncio loop."""

    def __init__(
        self,
        *,
        members: RaftMembers,
        directory: ReplicaDirectory,
        state_machine: StateMachine,
        clock: Clock,
        metrics: Metrics,
        password: bytes,
        relays: Relays | None,
        listeners: ReplicaListeners,
    ) -> None:
        self._members, self._directory, self._state_machine = members, directory, state_machine
        self._clock, self._metrics, self._listeners = clock, metrics, listeners
        self._password, self._relays = password, relays
        self._blank = state_machine.dump()
        self._thread: ReplicaThread | None = None
        self.identity: ReplicaIdentity | None = None
        self.target = 0
        """The index that this learner has to apply before it may vote; 0 until a leader has admitted it."""

    @property
    def replica(self) -> Replica | None:
        """The running replica; None while none runs."""
        return None if self._thread is None else self._thread.replica

    @property
    def is_learner(self) -> bool:
        return self.identity is not None and self.identity.mode is ReplicaMode.LEARNER

    def tick_age_s(self) -> float:
        """Return the time since the last tick; 0 while none runs."""
        return 0.0 if self._thread is None else self._thread.tick_age_s()

    async def restart_as(self, identity: ReplicaIdentity) -> None:
        """Stop the replica and start it with this identity; raises FatalLogError if the directory does not allow it."""
        await self.stop()
        found = self._directory.examine()
        self._state_machine.load(self._blank)
        journal = GuardedJournal(
            self._directory.disk,
            self._directory.files.journal,
            found.entries,
            found.metadata,
            self._observe_sync,
        )
        self.identity = identity
        # Assigned before it runs: it may win an election before `start` returns.
        self._thread = thread = ReplicaThread(
            lambda: self._built(identity, journal), self._listeners, self._clock
        )
        await thread.start()

    async def stop(self) -> None:
        """Stop the running replica."""
        thread, self._thread = self._thread, None
        if thread is None:
            return  # the relays may be gone already
        if self._relays is not None:
            self._relays.set_target(None)
        await thread.stop()

    async def on_thread(self, work: Callable[[Replica], _T]) -> _T:
        """Call `work` on the replica's thread and return its result."""
        if self._thread is None or self._thread.replica is None:
            raise UnavailableError("the replica is being restarted")
        return await self._thread.call(work, self._thread.replica)

    def _built(self, identity: ReplicaIdentity, journal: GuardedJournal) -> Replica:
        """Build the Raft object; called on its thread, again with another port if the port was taken."""
        is_voter = identity.mode is not ReplicaMode.LEARNER
        peers = self._members.others if identity.mode is not ReplicaMode.SOLO else ()
        ports = {} if self._relays is None else self._relays.ports
        port = free_port()
        member = ReplicaConfig(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            raft_address=self._members.me.raft_address,
            is_voter=is_voter,
            peers=tuple(RelayedNode(peer.raft_address, ports[peer.node_id]) for peer in peers),
            bind=f"{LOOPBACK}:{port}",
            password=self._password,
        )
        replica = Replica(
            member,
            journal=journal,
            journal_path=self._directory.files.journal,
            dump_path=self._directory.files.dump,
            dumps=DumpSerializer(
                self._directory.disk,
                self._state_machine,
                self._clock.monotonic_ns,
                self._observe_dump,
                journal.mark_failed,
            ),
            state_machine=self._state_machine,
            guard=MessageGuard(
                identity.cluster_id,
                journal,
                on_refused=self._count_refused,
                report=lambda: None if is_voter else self._report(),
            ),
            listeners=self._listeners,
        )
        if is_voter and self._relays is not None:
            self._relays.set_target(port)
        return replica

    def _report(self) -> LearnerReport:
        replica = self.replica
        applied = 0 if replica is None else replica.view.applied
        return LearnerReport(self._members.me.node_id, self.target, applied)

    # Called on the replica's thread; metrics are thread-safe.

    def _observe_sync(self, sync: Callable[[], None]) -> None:
        started = self._clock.monotonic_ns()
        sync()
        seconds = (self._clock.monotonic_ns() - started) / NANOSECONDS
        self._metrics.histogram("bigfleet_coordinator_journal_fsync_seconds").observe(seconds)

    def _observe_dump(self, seconds: float | None) -> None:
        if seconds is None:
            self._metrics.counter("bigfleet_coordinator_dump_failures_total").inc()
        else:
            self._metrics.histogram("bigfleet_coordinator_dump_seconds").observe(seconds)

    def _count_refused(self, reason: str) -> None:
        self._metrics.counter("bigfleet_coordinator_raft_rejected_total", reason=reason).inc()
