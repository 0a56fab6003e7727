"""The message guard: checks and tags every message between replicas, in both directions.

Why: the library sends before it syncs, answers without a term, commits its own stale tail while a snapshot arrives, and carries
out forwarded commands. Each of these was measured to lose or invent data.
Must never: pass a message of another cluster, send before the journal is synced, or accept a snapshot that would undo what this
replica has acknowledged.
Rules: `coordinator#durability`, `coordinator#leadership`, `coordinator#raft-port`, `coordinator#raft-library`;
ADR-0150, ADR-0151.

Our keys begin with `bf_`: the cluster in every message; the sender's term in append answers; the offset of a snapshot chunk and
the last entry of its snapshot; and a learner's id, applied index and target index.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bigfleet.coordinator.raft.message_fields import VOTER_TYPES, has_fields

FORWARDED_TYPES = frozenset({"apply_command", "apply_command_response"})

Message = dict[str, Any]  # the library's messages: plain data, its own keys
Raft = Any  # the library's object, which has no types


class DurableLog(Protocol):
    """What the guard uses of the journal."""

    def sync(self) -> None:
        """Return once everything is durable that a message could depend on; raises FatalLogError."""

    def holds(self, index: int, term: int) -> bool:
        """Whether there is an entry of this index and term."""

    @property
    def base(self) -> tuple[int, int] | None:
        """Index and term of the dump's last entry, if there is a dump."""


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """What a learner reports with every answer."""

    node_id: str
    target: int
    """The index it has to apply before it may vote; 0 until a leader has admitted it."""
    applied: int


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """Why a message is refused; `close` if its connection must be closed too."""

    reason: str
    close: bool = False


class MessageGuard:
    """The guard of one replica; called on the tick thread only."""

    def __init__(
        self,
        cluster_id: str,
        journal: DurableLog,
        *,
        on_refused: Callable[[str], object] = lambda _reason: None,
        report: Callable[[], LearnerReport | None] = lambda: None,
    ) -> None:
        """`report` returns this replica's report while it learns; None for a voter."""
        self._cluster_id, self._journal = cluster_id, journal
        self._on_refused, self._report = on_refused, report
        self._sent_commit: dict[str, int] = {}
        self._postponed: set[str] = set()
        self._sent_bytes: dict[str, int] = {}
        self._received_bytes: dict[str, int] = {}
        self.learners: dict[str, LearnerReport] = {}
        """The last report of every learner by connection, also of closed ones."""

    def outgoing(self, node: str, message: Message, raft: Raft) -> Message | None:
        """Return the message to send, None to drop it; everything it depends on is durable by then."""
        if message.get("type") in FORWARDED_TYPES or self._can_wait(node, message):
            return None
        self._journal.sync()
        tagged = {**message, "bf_cluster": self._cluster_id}
        if message["type"] == "next_node_idx":
            tagged["bf_term"] = raft.raftCurrentTerm
            if (report := self._report()) is not None:
                tagged["bf_learner"] = (report.node_id, report.target, report.applied)
        chunk = message.get("serialized")
        if chunk is not None and isinstance(chunk, tuple):
            data, is_first, _ = chunk
            begin = 0 if is_first else self._sent_bytes.get(node, 0)
            tagged["bf_offset"] = begin
            tagged["bf_snapshot"] = self._journal.base
            self._sent_bytes[node] = begin + len(data)
        return tagged

    def _can_wait(self, node: str, message: Message) -> bool:
        """Whether a message only reports a higher commit index, and the one before it was not dropped for that reason.

        The library sends one to every follower after every commit. The next entries or the next heartbeat report the same.
        """
        if "prevLogIdx" not in message:
            return False
        commit = message["commit_index"]
        is_news = not message.get("entries") and commit > self._sent_commit.get(node, commit)
        if is_news and node not in self._postponed:
            self._postponed.add(node)
            return True
        self._postponed.discard(node)
        self._sent_commit[node] = commit
        return False

    def incoming(self, node: str, is_voter: bool, message: object, raft: Raft) -> Message | MessageRefused:
        """Return the message for the library, or why it is refused."""
        verdict = self._judge(node, is_voter, message, raft)
        if isinstance(verdict, MessageRefused):
            self._on_refused(verdict.reason)
        return verdict

    def _judge(self, node: str, is_voter: bool, message: object, raft: Raft) -> Message | MessageRefused:
        if not isinstance(message, dict):
            return MessageRefused("not_a_message", close=True)
        if message.get("bf_cluster") != self._cluster_id:
            return MessageRefused("cluster", close=True)
        kind = message.get("type")
        if not isinstance(kind, str):
            return MessageRefused("malformed", close=True)
        if kind in FORWARDED_TYPES:
            return MessageRefused("forwarded")
        if kind not in VOTER_TYPES or not (is_voter or kind == "next_node_idx"):
            return MessageRefused("type", close=True)
        if not has_fields(message):
            # A peer with our secret, but with fields that no replica sends: its connection ends, not this replica.
            return MessageRefused("malformed", close=True)
        if kind == "next_node_idx":
            return self._append_answer(node, message, raft)
        if kind == "append_entries":
            return self._append(node, message, raft)
        return dict(message)

    def _append_answer(self, node: str, message: Message, raft: Raft) -> Message | MessageRefused:
        if message.get("bf_term") != raft.raftCurrentTerm:
            return MessageRefused("stale_term")
        learner = message.get("bf_learner")
        if learner is not None:
            self.learners[node] = LearnerReport(*learner)
        return dict(message)

    def _append(self, node: str, message: Message, raft: Raft) -> Message | MessageRefused:
        if "transmission" in message:
            # An entry in pieces: ours are too small for that, and the library marks the last piece wrongly.
            return MessageRefused("transmission", close=True)
        passed = dict(message)
        previous = message.get("prevLogIdx")
        if previous is not None:
            covered = previous + len(message.get("entries", ()))
            passed["commit_index"] = min(message["commit_index"], covered)
            return passed
        passed["commit_index"] = min(message["commit_index"], raft.raftCommitIndex)
        chunk = message.get("serialized")
        if chunk is None:
            return passed
        if self._has(message.get("bf_snapshot"), raft):
            # Passed as a heartbeat: the library would drop every entry after the snapshot's, acknowledged ones too, while the
            # leader goes on counting them. The leader continues right after the snapshot.
            del passed["serialized"]
            return passed
        if not isinstance(chunk, tuple) or not self._continues(node, message, chunk):
            return MessageRefused("snapshot_gap")
        return passed

    def _has(self, snapshot: object, raft: Raft) -> bool:
        """Whether this replica's log already has the last entry of a snapshot."""
        if not isinstance(snapshot, tuple):
            return False
        index, term = snapshot
        # Committed entries are the same everywhere; beyond them the terms have to agree.
        return bool(index <= raft.raftCommitIndex or self._journal.holds(index, term))

    def _continues(self, node: str, message: Mapping[str, Any], chunk: tuple[bytes, bool, bool]) -> bool:
        """Whether a chunk follows the last one; after a reconnect the leader would continue in the middle."""
        data, is_first, _ = chunk
        expected = 0 if is_first else self._received_bytes.get(node)
        if message.get("bf_offset") != expected:
            self._received_bytes.pop(node, None)
            return False
        self._received_bytes[node] = (expected or 0) + len(data)
        return True
