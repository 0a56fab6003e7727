"""Replicas of the log in one thread, under virtual time, on disks and links that can be cut.

Why: a round of crashes takes milliseconds and can be repeated from its seed, so tests run thousands of them.
Must never: be more lenient than processes: messages are pickled, a dead replica loses its memory, and the disk decides about
unsynced data.
Rules: `coordinator#leader-killed`, `coordinator#replicas-killed`, `coordinator#power-cut`,
`coordinator#killed-around-trim`, `coordinator#leader-cut-off`, `coordinator#link-cut-idle`,
`coordinator#link-cut-writing`, `coordinator#leader-paused`, `coordinator#follower-paused`, `coordinator#quorum-lost`,
`coordinator#replica-wiped`, `coordinator#resend-from-behind`, `testing#constructor-seams`.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from bigfleet.aio.clock import nanoseconds
from bigfleet.aio.disk import Disk
from bigfleet.aio.rng import RandomStream
from bigfleet.coordinator.log import FatalLogError
from bigfleet.coordinator.raft.directory import ReplicaDirectory
from bigfleet.coordinator.raft.dump import DumpSerializer
from bigfleet.coordinator.raft.guarded_transport import RelayedNode
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode, write_identity
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.message_guard import LearnerReport, MessageGuard, MessageRefused
from bigfleet.coordinator.raft.replica import Replica, ReplicaConfig, ReplicaListeners
from tests.support.coordinator.pairs import Pairs
from tests.support.coordinator.virtual_library import host_of, virtual_library

STEP_S = 0.005
CLUSTER = "virtual-cluster"


@dataclass(eq=False)
class Process:
    """One running replica."""

    name: str
    state_machine: Pairs
    directory: ReplicaDirectory
    replica: Replica
    guard: MessageGuard
    transport: "MemoryTransport"
    is_voter: bool
    paused: bool = False
    failure: FatalLogError | None = None


@dataclass(order=True)
class _Parcel:
    due_s: float
    number: int
    sender: str = field(compare=False)
    receiver: str = field(compare=False)
    line: int = field(compare=False)
    data: bytes = field(compare=False)


class MemoryTransport(Transport):  # type: ignore[misc]  # the library has no types; `Any` below is its objects
    """The library's transport over the cluster's links, with our guard on both sides."""

    def __init__(self, cluster: "VirtualCluster", name: str, is_voter: bool, guard: MessageGuard) -> None:
        super().__init__(None, None, ())
        self._cluster, self._name, self._guard = cluster, name, guard
        self.raft: Any = None
        self.is_voter = is_voter
        self.nodes: dict[str, Any] = {}
        self.lines: dict[str, int] = {}

    def attach(self, raft: Any, others: Any) -> "MemoryTransport":
        self.raft = raft
        self._voters = {str(node.id).partition(":")[0]: node for node in others}
        return self

    def connect(self, peer: str, peer_is_voter: bool, line: int) -> None:
        self.lines[peer] = line
        if peer_is_voter:
            self.nodes[peer] = self._voters[peer]
            self._onNodeConnected(self.nodes[peer])
        else:
            self.nodes[peer] = Node(f"learner {peer} {line}")
            self._onReadonlyNodeConnected(self.nodes[peer])

    def disconnect(self, peer: str) -> None:
        node = self.nodes.pop(peer, None)
        if node is None:
            return
        if isinstance(node, RelayedNode):
            self._onNodeDisconnected(node)
        else:
            self._onReadonlyNodeDisconnected(node)

    def send(self, node: Any, message: Any) -> bool:
        tagged = self._guard.outgoing(str(node.id), message, self.raft)
        peer = next((name for name, known in self.nodes.items() if known == node), None)
        if tagged is None or peer is None:
            return False
        self._cluster.post(self._name, peer, self.lines[peer], pickle.dumps(tagged))
        return True

    def receive(self, peer: str, data: bytes) -> None:
        node = self.nodes[peer]
        message = pickle.loads(data)  # noqa: S301 - our own bytes, as the library would do it
        verdict = self._guard.incoming(str(node.id), isinstance(node, RelayedNode), message, self.raft)
        if not isinstance(verdict, MessageRefused):
            self._onMessageReceived(node, verdict)

    def destroy(self) -> None:
        self.nodes.clear()


class VirtualCluster:
    """Named replicas, each with its disk; use it inside `running()`."""

    def __init__(
        self,
        disks: Mapping[str, Disk],
        stream: RandomStream,
        dies_of: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> None:
        """`dies_of` is what a disk raises to kill its process in the middle of a call."""
        self._dies_of = dies_of
        self.names = tuple(disks)
        self.disks = dict(disks)
        self.processes: dict[str, Process] = {}
        self.cut: set[frozenset[str]] = set()
        """Links that pass nothing."""
        self.targets: dict[str, int] = {}
        """The target index of each learner."""
        self._stream = stream
        self._now_s = 100.0
        self._parcels: list[_Parcel] = []
        self._posted = 0
        self._lines: dict[frozenset[str], int] = {}
        self._last_due_s: dict[tuple[str, str, int], float] = {}

    @contextmanager
    def running(self) -> Iterator["VirtualCluster"]:
        """Run the library on this cluster's clock, randomness and disks."""
        with virtual_library(lambda: self._now_s, self._stream, lambda path: self.disks[host_of(path)]):
            yield self

    def found(self) -> None:
        """Give every disk an identity as full member of one new cluster."""
        for name in self.names:
            with ReplicaDirectory(self.disks[name], f"/{name}") as directory:
                directory.mint(name, CLUSTER)
                identity = ReplicaIdentity(name, CLUSTER, 1, ReplicaMode.FULL, self.names)
                write_identity(directory.disk, directory.files.identity, identity)

    def start(self, name: str) -> Process:
        """Start a process on its disk; raises FatalLogError as the program would end with it."""
        directory = ReplicaDirectory(self.disks[name], f"/{name}")
        try:
            return self._started(name, directory)
        except BaseException:
            directory.close()
            raise

    def _started(self, name: str, directory: ReplicaDirectory) -> Process:
        identity = directory.identity(name) or directory.learn(name, CLUSTER)
        found = directory.examine()
        is_voter = identity.mode is not ReplicaMode.LEARNER
        state_machine = Pairs()
        journal = GuardedJournal(directory.disk, directory.files.journal, found.entries, found.metadata)

        def report() -> LearnerReport | None:
            if is_voter or name not in self.processes:
                return None
            return LearnerReport(name, self.targets.get(name, 0), self.processes[name].replica.view.applied)

        guard = MessageGuard(identity.cluster_id, journal, report=report)
        transport = MemoryTransport(self, name, is_voter, guard)
        peers = tuple(
            RelayedNode(_address(other), 1)
            for other in self.names
            if other != name and (identity.mode is not ReplicaMode.SOLO)
        )
        member = ReplicaConfig(
            name, identity.cluster_id, _address(name), is_voter, peers, "127.0.0.1:1", b"virtual"
        )
        replica = Replica(
            member,
            journal=journal,
            journal_path=directory.files.journal,
            dump_path=directory.files.dump,
            dumps=DumpSerializer(
                directory.disk,
                state_machine,
                lambda: nanoseconds(self._now_s),
                on_failure=journal.mark_failed,
            ),
            state_machine=state_machine,
            guard=guard,
            listeners=ReplicaListeners(),
            transport=lambda raft, _me, others, _guard: transport.attach(raft, others),
        )
        process = Process(name, state_machine, directory, replica, guard, transport, is_voter)
        self.processes[name] = process
        return process

    def kill(self, name: str) -> None:
        """Kill a process."""
        process = self.processes.pop(name, None)
        if process is None:
            return
        for other in self.processes.values():
            other.transport.disconnect(name)
        process.directory.close()
        self._lines = {pair: line for pair, line in self._lines.items() if name not in pair}

    def post(self, sender: str, receiver: str, line: int, data: bytes) -> None:
        """Send a message; on one connection messages arrive in order, as with TCP."""
        self._posted += 1
        way = (sender, receiver, line)
        due_s = max(self._now_s + self._stream.uniform(0.0005, 0.004), self._last_due_s.get(way, 0.0))
        self._last_due_s[way] = due_s
        self._parcels.append(_Parcel(due_s, self._posted, sender, receiver, line, data))

    def run(self, seconds: float, until: Callable[[], object] = lambda: False) -> bool:
        """Advance the time until `until` holds; return whether it does."""
        end_s = self._now_s + seconds
        while self._now_s < end_s:
            if until():
                return True
            self.step()
        return bool(until())

    def step(self) -> None:
        """Advance one step: links, deliveries, then every replica that is not paused, in random order."""
        self._now_s += STEP_S
        self._settle_links()
        self._deliver()
        order = sorted(self.processes)
        self._stream.shuffle(order)
        for name in order:
            process = self.processes.get(name)
            if process is not None and not process.paused and process.failure is None:
                self._guarded(process, partial(process.replica.tick, 0.0))

    def serving(self) -> Process | None:
        """Return the serving replica of the highest term, None if there is none."""
        candidates = [
            p for p in self.processes.values() if p.replica.serving is not None and p.failure is None
        ]
        return max(candidates, key=lambda process: process.replica.serving or 0, default=None)

    def _settle_links(self) -> None:
        for pair in _pairs(self.names):
            one, two = sorted(pair)
            up = pair not in self.cut and one in self.processes and two in self.processes
            up = (
                up and (self.processes[one].is_voter or self.processes[two].is_voter) and self._know(one, two)
            )
            if up and pair not in self._lines:
                self._posted += 1
                self._lines[pair] = self._posted
                for name, peer in ((one, two), (two, one)):
                    process = self.processes[name]
                    process.transport.connect(peer, self.processes[peer].is_voter, self._posted)
            elif not up and pair in self._lines:
                del self._lines[pair]
                for name, peer in ((one, two), (two, one)):
                    if name in self.processes:
                        self.processes[name].transport.disconnect(peer)

    def _know(self, one: str, two: str) -> bool:
        """Whether two replicas connect: two voters must know each other, and learners connect to any voter."""
        first, second = self.processes[one], self.processes[two]
        if first.is_voter and second.is_voter:
            return two in first.transport._voters and one in second.transport._voters
        return True

    def _deliver(self) -> None:
        due = sorted(parcel for parcel in self._parcels if parcel.due_s <= self._now_s)
        kept = [parcel for parcel in self._parcels if parcel.due_s > self._now_s]
        self._parcels = kept
        for parcel in due:
            receiver = self.processes.get(parcel.receiver)
            if receiver is None or receiver.failure is not None:
                continue
            if receiver.paused:
                self._parcels.append(parcel)  # it waits in the socket
            elif receiver.transport.lines.get(parcel.sender) == parcel.line and (
                parcel.sender in receiver.transport.nodes
            ):
                self._guarded(receiver, partial(receiver.transport.receive, parcel.sender, parcel.data))

    def _guarded(self, process: Process, work: Callable[[], None]) -> None:
        try:
            work()
        except FatalLogError as failure:
            process.failure = failure
        except self._dies_of:
            self.kill(process.name)


def _address(name: str) -> str:
    return f"{name}:1"


def _pairs(names: tuple[str, ...]) -> list[frozenset[str]]:
    return [frozenset((one, two)) for place, one in enumerate(names) for two in names[place + 1 :]]
