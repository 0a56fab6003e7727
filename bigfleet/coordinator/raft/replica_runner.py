"""Starts and stops the Raft object of a replica: as learner, sole voter or voter.

Why: the library cannot change the role of a node, so every change of role is a new Raft object on the same directory.
Must never: run two of them on one directory, or keep the tables of the one before: entries would be applied twice.
Rules: coordinator 9.4, 9.5 and 11.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bigfleet.aio.clock import NANOSECONDS, Clock
from bigfleet.coordinator.log import StateMachine, UnavailableError
from bigfleet.coordinator.raft.directory import ReplicaDirectory
from bigfleet.coordinator.raft.dump import DumpSerializer
from bigfleet.coordinator.raft.guarded_transport import RelayedNode
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.membership import ClusterMembers
from bigfleet.coordinator.raft.message_guard import LearnerReport, MessageGuard
from bigfleet.coordinator.raft.relays import LOOPBACK, Relays, free_port
from bigfleet.coordinator.raft.replica import Replica, ReplicaConfig, ReplicaListeners
from bigfleet.coordinator.raft.replica_thread import ReplicaThread
from bigfleet.obs.metrics import Metrics

_PREFIX = "bigfleet_coordinator_"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReplicaEnvironment:
    """The parts that every Raft object of this replica is built from."""

    members: ClusterMembers
    directory: ReplicaDirectory
    state_machine: StateMachine
    clock: Clock
    metrics: Metrics
    password: bytes
    relays: Relays | None


class ReplicaRunner:
    """The Raft object of this replica, if one runs; used on the asyncio loop."""

    def __init__(self, environment: ReplicaEnvironment, listeners: ReplicaListeners) -> None:
        self._environment, self._listeners = environment, listeners
        self._blank = environment.state_machine.dump()
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
        environment = self._environment
        found = environment.directory.examine()
        environment.state_machine.load(self._blank)
        journal = GuardedJournal(
            environment.directory.disk,
            environment.directory.files.journal,
            found.entries,
            found.metadata,
            self._observe_sync,
        )
        self.identity = identity
        # Assigned before it runs: it may win an election before `start` returns.
        self._thread = thread = ReplicaThread(
            lambda: self._built(identity, journal), self._listeners, environment.clock
        )
        await thread.start()

    async def stop(self) -> None:
        """Stop the running replica."""
        thread, self._thread = self._thread, None
        if self._environment.relays is not None:
            self._environment.relays.set_target(None)
        if thread is not None:
            await thread.stop()

    async def on_thread(self, work: Callable[[Replica], _T]) -> _T:
        """Call `work` on the replica's thread and return its result."""
        replica = self.replica
        if replica is None:
            raise UnavailableError("the replica is being restarted")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def run() -> None:
            try:
                result = work(replica)
            except Exception as error:  # the caller gets it, not the tick
                loop.call_soon_threadsafe(_settle, answer, None, error)
            else:
                loop.call_soon_threadsafe(_settle, answer, result, None)

        replica.post(run)
        return await answer

    def _built(self, identity: ReplicaIdentity, journal: GuardedJournal) -> Replica:
        """Build the Raft object; called on its thread, again with another port if the port was taken."""
        environment = self._environment
        is_voter = identity.mode is not ReplicaMode.LEARNER
        peers = environment.members.others if identity.mode is not ReplicaMode.SOLO else ()
        ports = {} if environment.relays is None else environment.relays.ports
        port = free_port()
        member = ReplicaConfig(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            raft_address=environment.members.me.raft_address,
            is_voter=is_voter,
            peers=tuple(RelayedNode(peer.raft_address, ports[peer.node_id]) for peer in peers),
            bind=f"{LOOPBACK}:{port}",
            password=environment.password,
        )
        replica = Replica(
            member,
            journal=journal,
            journal_path=environment.directory.files.journal,
            dump_path=environment.directory.files.dump,
            dumps=DumpSerializer(
                environment.directory.disk,
                environment.state_machine,
                environment.clock.monotonic_ns,
                self._observe_dump,
                journal.mark_failed,
            ),
            state_machine=environment.state_machine,
            guard=MessageGuard(
                identity.cluster_id,
                journal,
                on_refused=self._count_refused,
                report=lambda: None if is_voter else self._report(),
            ),
            listeners=self._listeners,
        )
        if is_voter and environment.relays is not None:
            environment.relays.set_target(port)
        return replica

    def _report(self) -> LearnerReport:
        replica = self.replica
        applied = 0 if replica is None else replica.view.applied
        return LearnerReport(self._environment.members.me.node_id, self.target, applied)

    # Called on the replica's thread; metrics are thread-safe.

    def _observe_sync(self, sync: Callable[[], None]) -> None:
        started = self._environment.clock.monotonic_ns()
        sync()
        seconds = (self._environment.clock.monotonic_ns() - started) / NANOSECONDS
        self._environment.metrics.histogram(f"{_PREFIX}journal_fsync_seconds").observe(seconds)

    def _observe_dump(self, seconds: float | None) -> None:
        if seconds is None:
            self._environment.metrics.counter(f"{_PREFIX}dump_failures_total").inc()
        else:
            self._environment.metrics.histogram(f"{_PREFIX}dump_seconds").observe(seconds)

    def _count_refused(self, reason: str) -> None:
        self._environment.metrics.counter(f"{_PREFIX}raft_rejected_total", reason=reason).inc()


def _settle(answer: "asyncio.Future[_T]", result: "_T | None", error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)  # type: ignore[arg-type]  # None only beside an error
