"""What may pass between replicas, in both directions, whatever carries it.

Why: the library sends before it syncs, answers without a term, commits its own stale tail while a snapshot arrives, and obeys
forwarded commands. Each of these lost or invented data when it was measured.
Must never: pass a message of another cluster, let one out before the journal is synced, or let a snapshot through that would
take back what this replica has acknowledged.
Rules: coordinator 17.2, 17.5, 17.7 and 17.9 (transport); ADR-0150 and ADR-0151.

Keys that we add begin with `bf_`: the cluster in every message; the sender's term in append answers; where a chunk of a snapshot
begins, and the entry at which its snapshot stands; and, from a learner, who it is, how far it has applied and which index it has
to reach.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

VOTER_TYPES = frozenset({"request_vote", "response_vote", "append_entries", "next_node_idx", "timeout_now"})
FORWARDED_TYPES = frozenset({"apply_command", "apply_command_response"})

Message = dict[str, Any]  # the library's messages: plain data, its own keys


class DurableLog(Protocol):
    """What the guard has to know of the journal."""

    def sync(self) -> None:
        """Return once everything is durable that a message could rest on; raises FatalLogError."""

    def holds(self, index: int, term: int) -> bool:
        """Whether the entry of this index is there, and of this term."""

    @property
    def base(self) -> tuple[int, int] | None:
        """Index and term of the entry at which the dump stands, if there is one."""


class RaftIndexes(Protocol):
    """The two numbers of the Raft object that decide about messages."""

    @property
    def raftCurrentTerm(self) -> int: ...  # noqa: N802 - the library's name

    @property
    def raftCommitIndex(self) -> int: ...  # noqa: N802 - the library's name


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """What a learner says of itself with every answer."""

    node_id: str
    target: int
    """The index it has to apply before it may vote; 0 while no leader has admitted it."""
    applied: int


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """Why a message does not pass; `close` when its connection must not go on either."""

    reason: str
    close: bool = False


class MessageGuard:
    """The rules of one replica; called on the tick thread alone."""

    def __init__(
        self,
        cluster_id: str,
        journal: DurableLog,
        *,
        on_refused: Callable[[str], object] = lambda _reason: None,
        report: Callable[[], LearnerReport | None] = lambda: None,
    ) -> None:
        """`report` is what this replica says of itself while it learns; None for a voter."""
        self._cluster_id, self._journal = cluster_id, journal
        self._on_refused, self._report = on_refused, report
        self._sent_commit: dict[str, int] = {}
        self._postponed: set[str] = set()
        self._sent_bytes: dict[str, int] = {}
        self._received_bytes: dict[str, int] = {}
        self.learners: dict[str, LearnerReport] = {}
        """What learners last said, by connection, whether it still stands or not."""
        self.match: dict[str, int] = {}
        """The last index that a connection said to hold, under the present term."""

    def outgoing(self, node: str, message: Message, raft: RaftIndexes) -> Message | None:
        """Return what to send in place of a message, None for nothing; everything it rests on is durable by then."""
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
        """Whether a message only says that more is committed, which the next one says too; one such is left out, not two.

        The library sends one to every follower behind every commit. Nobody waits for it: clients are answered by the leader, and
        the next entries or the next heartbeat bring the same news.
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

    def incoming(
        self, node: str, is_voter: bool, message: object, raft: RaftIndexes
    ) -> Message | MessageRefused:
        """Return what to hand to the library in place of a message, or why nothing."""
        verdict = self._judge(node, is_voter, message, raft)
        if isinstance(verdict, MessageRefused):
            self._on_refused(verdict.reason)
        return verdict

    def _judge(
        self, node: str, is_voter: bool, message: object, raft: RaftIndexes
    ) -> Message | MessageRefused:
        if not isinstance(message, dict):
            return MessageRefused("not_a_message", close=True)
        if message.get("bf_cluster") != self._cluster_id:
            return MessageRefused("cluster", close=True)
        kind = message.get("type")
        if kind in FORWARDED_TYPES:
            return MessageRefused("forwarded")
        if kind not in VOTER_TYPES or not (is_voter or kind == "next_node_idx"):
            return MessageRefused("type", close=True)
        if kind == "next_node_idx":
            return self._append_answer(node, message, raft)
        if kind == "append_entries":
            return self._append(node, message, raft)
        return dict(message)

    def _append_answer(self, node: str, message: Message, raft: RaftIndexes) -> Message | MessageRefused:
        if message.get("bf_term") != raft.raftCurrentTerm:
            return MessageRefused("stale_term")
        learner = message.get("bf_learner")
        if learner is not None:
            self.learners[node] = LearnerReport(*learner)
        if message.get("success"):
            self.match[node] = message["next_node_idx"] - 1
        return dict(message)

    def _append(self, node: str, message: Message, raft: RaftIndexes) -> Message | MessageRefused:
        if "transmission" in message:
            # An entry in pieces: entries are too small for that, and the library marks the last piece wrongly.
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
            # Only a sign of life: the library would drop every entry behind the snapshot's, acknowledged ones too, while the
            # leader goes on counting them. What the leader sends next begins right behind the snapshot.
            del passed["serialized"]
            return passed
        if not isinstance(chunk, tuple) or not self._continues(node, message, chunk):
            return MessageRefused("snapshot_gap")
        return passed

    def _has(self, snapshot: object, raft: RaftIndexes) -> bool:
        """Whether the entry at which a snapshot stands is in this replica's log already, so that it has nothing to gain."""
        if not isinstance(snapshot, tuple):
            return False
        index, term = snapshot
        # What is committed is the same everywhere; beyond that the terms have to agree.
        return bool(index <= raft.raftCommitIndex or self._journal.holds(index, term))

    def _continues(self, node: str, message: Mapping[str, Any], chunk: tuple[bytes, bool, bool]) -> bool:
        """Whether a chunk is the one that follows; after a reconnect the leader would go on in the middle."""
        data, is_first, _ = chunk
        expected = 0 if is_first else self._received_bytes.get(node)
        if message.get("bf_offset") != expected:
            self._received_bytes.pop(node, None)
            return False
        self._received_bytes[node] = (expected or 0) + len(data)
        return True
