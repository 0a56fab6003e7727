"""Starts and ends the lives of a replica: unformed, learner, sole voter, voter; one at a time.

Why: the library cannot change what a node is, so a learner that becomes a voter, and a sole voter that becomes one of three, is a new
Raft object on the same directory. Between two lives the tables begin empty again and are filled from dump and journal.
Must never: have two of them on one directory, or reuse tables of the life before: entries would be applied twice.
Rules: coordinator 9.4, 9.5 and 11.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bigfleet.aio.clock import NANOSECONDS, Clock
from bigfleet.coordinator.log import StateMachine, UnavailableError
from bigfleet.coordinator.raft.directory import DataDirectory
from bigfleet.coordinator.raft.dump import Dumps
from bigfleet.coordinator.raft.guarded_transport import RelayedNode
from bigfleet.coordinator.raft.identity import Identity, Mode
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.membership import Members
from bigfleet.coordinator.raft.message_guard import LearnerReport, MessageGuard
from bigfleet.coordinator.raft.relays import LOOPBACK, Relays, free_port
from bigfleet.coordinator.raft.replica import Listeners, Member, Replica
from bigfleet.coordinator.raft.replica_thread import ReplicaThread
from bigfleet.obs.metrics import Metrics

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every life is built from."""

    members: Members
    directory: DataDirectory
    machine: StateMachine
    clock: Clock
    metrics: Metrics
    password: bytes
    relays: Relays | None


class Lives:
    """The present life of the replica, if there is one; used on the asyncio loop."""

    def __init__(self, around: Surroundings, listeners: Listeners) -> None:
        self._around, self._listeners = around, listeners
        self._blank = around.machine.dump()
        self._thread: ReplicaThread | None = None
        self.identity: Identity | None = None
        self.target = 0
        """The index that this learner has to apply before it may vote; 0 while nobody has admitted it."""

    @property
    def replica(self) -> Replica | None:
        """The replica of the present life; None between two of them."""
        return None if self._thread is None else self._thread.replica

    @property
    def is_learner(self) -> bool:
        return self.identity is not None and self.identity.mode is Mode.LEARNER

    def tick_age_s(self) -> float:
        """Return how long ago the present replica last ticked; 0 without one."""
        return 0.0 if self._thread is None else self._thread.tick_age_s()

    async def begin(self, identity: Identity) -> None:
        """End the present life and begin one with this identity; raises FatalLogError where the directory does not allow it."""
        await self.end()
        around = self._around
        found = around.directory.examine()
        around.machine.load(self._blank)
        journal = GuardedJournal(
            around.directory.disk,
            around.directory.files.journal,
            found.entries,
            found.metadata,
            self._observe_sync,
        )
        self.identity = identity
        # Known before it runs: it may win an election before this line goes on.
        self._thread = thread = ReplicaThread(
            lambda: self._built(identity, journal), self._listeners, around.clock
        )
        await thread.start()

    async def end(self) -> None:
        """End the present life."""
        thread, self._thread = self._thread, None
        if self._around.relays is not None:
            self._around.relays.set_target(None)
        if thread is not None:
            await thread.stop()

    async def on_thread(self, work: Callable[[Replica], _T]) -> _T:
        """Run something on the replica's thread and return what it returns."""
        replica = self.replica
        if replica is None:
            raise UnavailableError("the replica is between two lives")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def run() -> None:
            try:
                result = work(replica)
            except Exception as error:  # it belongs to whoever asked, not to the tick
                loop.call_soon_threadsafe(_settle, answer, None, error)
            else:
                loop.call_soon_threadsafe(_settle, answer, result, None)

        replica.post(run)
        return await answer

    def _built(self, identity: Identity, journal: GuardedJournal) -> Replica:
        """Build the Raft object; on its thread, once more with another port where the port was taken."""
        around = self._around
        is_voter = identity.mode is not Mode.LEARNER
        peers = around.members.others if identity.mode is not Mode.SOLO else ()
        ports = {} if around.relays is None else around.relays.ports
        port = free_port()
        member = Member(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            raft_address=around.members.me.raft_address,
            is_voter=is_voter,
            peers=tuple(RelayedNode(peer.raft_address, ports[peer.node_id]) for peer in peers),
            bind=f"{LOOPBACK}:{port}",
            password=around.password,
        )
        replica = Replica(
            member,
            journal=journal,
            journal_path=around.directory.files.journal,
            dump_path=around.directory.files.dump,
            dumps=Dumps(
                around.directory.disk,
                around.machine,
                around.clock.monotonic_ns,
                self._observe_dump,
                journal.give_up,
            ),
            machine=around.machine,
            guard=MessageGuard(
                identity.cluster_id,
                journal,
                on_refused=self._count_refused,
                report=lambda: None if is_voter else self._report(),
            ),
            listeners=self._listeners,
        )
        if is_voter and around.relays is not None:
            around.relays.set_target(port)
        return replica

    def _report(self) -> LearnerReport:
        replica = self.replica
        applied = 0 if replica is None else replica.view.applied
        return LearnerReport(self._around.members.me.node_id, self.target, applied)

    # Counted on the replica's thread; the client library's series are safe to use there.

    def _observe_sync(self, sync: Callable[[], None]) -> None:
        started = self._around.clock.monotonic_ns()
        sync()
        seconds = (self._around.clock.monotonic_ns() - started) / NANOSECONDS
        self._around.metrics.histogram("bigfleet_coordinator_journal_fsync_seconds").observe(seconds)

    def _observe_dump(self, seconds: float | None) -> None:
        if seconds is None:
            self._around.metrics.counter("bigfleet_coordinator_dump_failures_total").inc()
        else:
            self._around.metrics.histogram("bigfleet_coordinator_dump_seconds").observe(seconds)

    def _count_refused(self, reason: str) -> None:
        self._around.metrics.counter("bigfleet_coordinator_raft_rejected_total", reason=reason).inc()


def _settle(answer: "asyncio.Future[_T]", result: "_T | None", error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)  # type: ignore[arg-type]  # None only beside an error
