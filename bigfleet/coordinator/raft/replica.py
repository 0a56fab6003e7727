"""One Raft object: built, ticked and destroyed on one thread, with the epoch that makes a leader serve.

Why: the library is not thread-safe, and a leader may serve only once the epoch of the term it won is committed.
Must never: wait for the asyncio loop; it reports through callbacks that only pass on.
Rules: `coordinator#serving`, `coordinator#process`, `coordinator#leadership`, `coordinator#raft-library`.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pysyncobj import FAIL_REASON

from bigfleet.coordinator.batches import BatchResult, OnBatchResult
from bigfleet.coordinator.core.batch import encode_batch, encode_command
from bigfleet.coordinator.core.commands import begin_epoch
from bigfleet.coordinator.log import FatalLogError, Snapshot, StateMachine
from bigfleet.coordinator.raft.dump import DumpSerializer
from bigfleet.coordinator.raft.guarded_transport import GuardedTransport, RelayedNode
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.library import TICK_S, Raft, settings
from bigfleet.coordinator.raft.message_guard import LearnerReport, MessageGuard

_FOLLOWER, _CANDIDATE, _LEADER = 0, 1, 2


# 17.5: any other reason means that the batch may still be applied.
_ENDS = {
    FAIL_REASON.SUCCESS: BatchResult.APPLIED,
    FAIL_REASON.QUEUE_FULL: BatchResult.BUSY,
    FAIL_REASON.MISSING_LEADER: BatchResult.NOT_APPLIED,
    FAIL_REASON.DISCARDED: BatchResult.NOT_APPLIED,
    FAIL_REASON.NOT_LEADER: BatchResult.NOT_APPLIED,
}


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """The state of a replica after a tick."""

    state: int = _FOLLOWER
    leader: str | None = None
    """Raft address of the believed leader."""
    term: int = 0
    commit: int = 0
    applied: int = 0
    connected: frozenset[str] = frozenset()
    """Raft addresses of the voters it is connected to."""
    learners: tuple[LearnerReport, ...] = ()

    @property
    def is_leader(self) -> bool:
        return self.state == _LEADER

    @property
    def is_candidate(self) -> bool:
        return self.state == _CANDIDATE


@dataclass(frozen=True, slots=True)
class ReplicaListeners:
    """The callbacks of a replica; called on its thread, must not block."""

    on_serving: Callable[[int], object] = lambda _term: None
    on_lost: Callable[[str], object] = lambda _cause: None
    on_election: Callable[[], object] = lambda: None
    on_fatal: Callable[[FatalLogError], object] = lambda _error: None
    on_error: Callable[[str], object] = lambda _text: None


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """The identity, peers and address of one replica."""

    node_id: str
    cluster_id: str
    raft_address: str
    is_voter: bool
    peers: tuple[RelayedNode, ...]
    bind: str
    password: bytes


class Replica:
    """The Raft object and what we add to it; unless noted, methods are called on its own thread."""

    def __init__(
        self,
        member: ReplicaConfig,
        *,
        journal: GuardedJournal,
        journal_path: str,
        dump_path: str,
        dumps: DumpSerializer,
        state_machine: StateMachine,
        guard: MessageGuard,
        listeners: ReplicaListeners,
        transport: Callable[[Any, Any, Any, MessageGuard], Any] = GuardedTransport,
    ) -> None:
        self._member, self._state_machine, self._listeners = member, state_machine, listeners
        self.journal, self._dumps, self._guard = journal, dumps, guard
        self._posted: deque[Callable[[], None]] = deque()
        self._state = _FOLLOWER
        self._won = False
        self._proposed_term = 0
        self.serving: int | None = None
        """The term it won and whose epoch is committed; None as soon as leadership is lost."""
        self.view = ReplicaView(term=journal.getCurrentTerm())
        conf = settings(
            bind=member.bind,
            journal_path=journal_path,
            dump_path=dump_path,
            password=member.password,
            dumps=dumps,
            on_state=self._on_state,
        )
        me = RelayedNode(member.raft_address, 0) if member.is_voter else None
        self._raft = Raft(
            me,
            list(member.peers),
            conf,
            journal=journal,
            state_machine=state_machine,
            guard=guard,
            transport=transport,
        )

    def tick(self, wait_s: float = TICK_S) -> None:
        """Let Raft work, waiting at most `wait_s` for input; raises FatalLogError."""
        while self._posted:
            self._posted.popleft()()
        try:
            self._raft.doTick(wait_s)
        finally:
            # Also when the library swallowed the error, or raised another one on top of it.
            failure = self.journal.failure or self._dumps.failure or self._raft.failure
            if failure is not None:
                self._end_serving("failure")
                raise failure
        self._begin_epoch_if_won()
        seen = self._current_view()
        if seen != self.view:
            self.view = seen  # else the same object, which makes "nothing changed" a cheap check

    def destroy(self) -> None:
        """Close connections and files."""
        self._end_serving("stopped")
        self._raft.destroy()

    def post(self, work: Callable[[], None]) -> None:
        """Run `work` before the next tick; from any thread."""
        self._posted.append(work)

    def submit(self, batch: str, on_end: OnBatchResult) -> None:
        """Submit one batch; from any thread. `on_end` is called on the replica's thread, or never."""

        def ended(result: str | None, reason: int) -> None:
            on_end(_ENDS.get(reason, BatchResult.UNKNOWN), result or "")

        self._raft.apply(batch, callback=ended)

    def snapshot(self) -> Snapshot:
        """Return the tables with index and term of the last applied entry."""
        index = self._raft.raftLastApplied
        place = index - self.journal[0][1]
        return Snapshot(self._state_machine.dump(), index, self.journal[place][2])

    def transfer_leadership(self) -> bool:
        """Ask the most caught-up peer to take over leadership."""
        denied: list[int] = []
        self._raft.transferLeadership(callback=lambda _none, reason: denied.append(reason))
        return denied == [FAIL_REASON.SUCCESS]

    def _on_state(self, _old: int, new: int) -> None:
        self._end_serving("deposed" if new == _FOLLOWER else "election")
        self._state, self._won = new, new == _LEADER
        if new == _CANDIDATE:
            self._listeners.on_election()

    def _end_serving(self, cause: str) -> None:
        self._won = False
        was_serving, self.serving = self.serving is not None, None
        if was_serving:
            self._listeners.on_lost(cause)

    def _begin_epoch_if_won(self) -> None:
        """Propose the epoch of the term that was won, once; its commit makes this replica serve."""
        term = self._raft.raftCurrentTerm
        if not self._won or not self._raft._isLeader() or self._proposed_term == term:
            return
        self._proposed_term = term
        command = begin_epoch(term, self._member.node_id, self._member.cluster_id)
        # In ASCII, as every version has written it.
        batch = encode_batch(self._state_machine.epoch, [encode_command(command, ascii_only=True)])
        self.submit(batch, lambda end, results: self._on_epoch(term, end, results))

    def _on_epoch(self, term: int, end: BatchResult, results: str) -> None:
        if not self._won or self._raft.raftCurrentTerm != term:
            return
        if end is not BatchResult.APPLIED:
            self._proposed_term = 0  # still leader: try again at the next tick
            return
        result = json.loads(results)[0]
        if not result["ok"]:
            self._listeners.on_error(f"begin_epoch({term}) was refused: {result}")
            return
        self.serving = term
        self._listeners.on_serving(term)

    def _current_view(self) -> ReplicaView:
        raft = self._raft
        leader = raft._getLeader()
        return ReplicaView(
            state=self._state,
            leader=None if leader is None else str(leader.id),
            term=raft.raftCurrentTerm,
            commit=raft.raftCommitIndex,
            applied=raft.raftLastApplied,
            connected=frozenset(str(peer.id) for peer in self._member.peers if raft.isNodeConnected(peer)),
            learners=self._learners(),
        )

    def _learners(self) -> tuple[LearnerReport, ...]:
        said = self._guard.learners
        if not said:
            return ()
        return tuple(said[node.id] for node in self._raft.readonlyNodes if node.id in said)
