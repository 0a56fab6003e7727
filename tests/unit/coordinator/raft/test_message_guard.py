"""The guard between replicas: what is added, clamped, dropped and closed."""

from dataclasses import dataclass
from typing import Any

import pytest

from bigfleet.coordinator.raft.message_guard import LearnerReport, MessageGuard, MessageRefused


@dataclass
class Raft:
    raftCurrentTerm: int = 5  # noqa: N815 - the library's name
    raftCommitIndex: int = 10  # noqa: N815 - the library's name


class World:
    def __init__(self, cluster: str = "one", report: LearnerReport | None = None) -> None:
        self.synced = 0
        self.refused: list[str] = []
        self.raft = Raft()
        self.held: set[tuple[int, int]] = set()
        self.base: tuple[int, int] | None = (30, 4)
        self.guard = MessageGuard(cluster, self, on_refused=self.refused.append, report=lambda: report)

    def sync(self) -> None:
        self.synced += 1

    def holds(self, index: int, term: int) -> bool:
        return (index, term) in self.held

    def out(self, message: dict[str, Any]) -> dict[str, Any] | None:
        return self.guard.outgoing("peer", message, self.raft)

    def take(self, message: object, *, voter: bool = True) -> dict[str, Any] | MessageRefused:
        return self.guard.incoming("peer", voter, message, self.raft)


def append(**more: Any) -> dict[str, Any]:
    message = {"type": "append_entries", "term": 5, "commit_index": 100, "bf_cluster": "one"}
    return {**message, "entries": [], "prevLogIdx": 20, "prevLogTerm": 4, **more}


def chunk(data: bytes, first: bool, last: bool, offset: int | None) -> dict[str, Any]:
    message = {"type": "append_entries", "term": 5, "commit_index": 100, "bf_cluster": "one"}
    return {**message, "serialized": (data, first, last), "bf_offset": offset}


@pytest.mark.rule("coordinator#sync-before-send")
def test_everything_is_synced_before_a_message_leaves() -> None:
    world = World()
    assert world.out({"type": "request_vote", "term": 5}) == {
        "type": "request_vote",
        "term": 5,
        "bf_cluster": "one",
    }
    assert world.synced == 1


def test_an_append_answer_carries_the_term_and_one_of_another_term_is_dropped() -> None:
    world = World()
    answer = world.out({"type": "next_node_idx", "next_node_idx": 8, "reset": False, "success": True})
    assert answer is not None
    assert answer["bf_term"] == 5
    assert world.take(answer) == answer
    world.raft.raftCurrentTerm = 6
    assert world.take(answer) == MessageRefused("stale_term")


def test_a_learner_says_who_it_is_and_how_far() -> None:
    learner = World(report=LearnerReport("c-2", 40, 33))
    leader = World()
    answer = learner.out({"type": "next_node_idx", "next_node_idx": 34, "reset": False, "success": True})
    assert not isinstance(leader.take(answer, voter=False), MessageRefused)
    assert leader.guard.learners == {"peer": LearnerReport("c-2", 40, 33)}


def test_forwarded_commands_are_neither_sent_nor_taken() -> None:
    world = World()
    for kind in ("apply_command", "apply_command_response"):
        assert world.out({"type": kind, "command": b""}) is None
        assert world.take({"type": kind, "command": b"", "bf_cluster": "one"}) == MessageRefused("forwarded")


@pytest.mark.parametrize(
    ("message", "voter", "refused"),
    [
        pytest.param(["status"], True, MessageRefused("not_a_message", close=True), id="utility message"),
        pytest.param("readonly", True, MessageRefused("not_a_message", close=True), id="text"),
        pytest.param(
            {"type": "append_entries"}, True, MessageRefused("cluster", close=True), id="no cluster"
        ),
        pytest.param(
            append(bf_cluster="two"), True, MessageRefused("cluster", close=True), id="another cluster"
        ),
        pytest.param(append(), False, MessageRefused("type", close=True), id="a learner that leads"),
        pytest.param(
            {"type": "request_vote", "bf_cluster": "one"},
            False,
            MessageRefused("type", close=True),
            id="a learner's vote",
        ),
        pytest.param(
            {"type": "rm -rf", "bf_cluster": "one"}, True, MessageRefused("type", close=True), id="unknown"
        ),
        pytest.param(
            append(transmission="start"), True, MessageRefused("transmission", close=True), id="in pieces"
        ),
    ],
)
def test_what_no_replica_sends_is_refused(message: object, voter: bool, refused: MessageRefused) -> None:
    world = World()
    assert world.take(message, voter=voter) == refused
    assert world.refused == [refused.reason]


@pytest.mark.rule("coordinator#resend-from-behind")
def test_the_commit_index_is_clamped_to_what_a_message_covers() -> None:
    world = World()
    taken = world.take(append(entries=[(b"", 21, 5), (b"", 22, 5)]))
    assert isinstance(taken, dict)
    assert taken["commit_index"] == 22
    low = world.take(append(commit_index=3))
    assert isinstance(low, dict)
    assert low["commit_index"] == 3


def test_news_of_a_commit_alone_waits_for_the_next_message_once() -> None:
    world = World()
    entry = {"entries": [(b"", 21, 5)]}

    def sent(commit: int, **more: Any) -> bool:
        return world.out(append(commit_index=commit, **more)) is not None

    assert sent(20)  # the first word to a peer
    assert sent(20, **entry)
    assert not sent(21)  # only a commit index: nothing waits for it
    assert sent(21)  # the heartbeat says so, and never are two left out
    assert sent(21)  # a heartbeat without news
    assert not sent(22)
    assert sent(23, **entry)  # entries are never left out, and bring the news along
    assert not sent(24)
    assert sent(24, **entry)
    assert not sent(25)


def test_news_of_a_commit_wait_for_each_peer_by_itself() -> None:
    world = World()
    for peer in ("one", "two"):
        assert world.guard.outgoing(peer, append(commit_index=20), world.raft) is not None
    for peer in ("one", "two"):
        assert world.guard.outgoing(peer, append(commit_index=21), world.raft) is None
    assert world.guard.outgoing("one", append(commit_index=21), world.raft) is not None
    assert world.synced == 3  # what does not leave needs no sync


@pytest.mark.rule("coordinator#commit-clamp")
def test_a_snapshot_chunk_moves_no_commit_index() -> None:
    taken = World().take(chunk(b"abc", True, False, 0))
    assert isinstance(taken, dict)
    assert taken["commit_index"] == 10


@pytest.mark.rule("coordinator#resend-from-behind")
@pytest.mark.parametrize(
    ("snapshot", "held", "installed"),
    [
        pytest.param((30, 4), set(), True, id="ahead of this log"),
        pytest.param((30, 4), {(30, 4)}, False, id="in this log"),
        pytest.param((30, 4), {(30, 3)}, True, id="in the place of another entry"),
        pytest.param((10, 4), set(), False, id="committed here"),
        pytest.param(None, set(), True, id="of an unknown place"),
    ],
)
def test_a_snapshot_of_what_is_in_the_log_already_is_a_sign_of_life_only(
    snapshot: tuple[int, int] | None, held: set[tuple[int, int]], installed: bool
) -> None:
    world = World()
    world.held = held
    taken = world.take({**chunk(b"abc", True, False, 0), "bf_snapshot": snapshot})
    assert isinstance(taken, dict)
    assert ("serialized" in taken) is installed
    assert taken["commit_index"] == 10
    assert world.refused == []


def test_a_chunk_names_the_entry_at_which_its_snapshot_stands() -> None:
    sent = World().out({"type": "append_entries", "commit_index": 1, "serialized": (b"abc", True, False)})
    assert sent is not None
    assert sent["bf_snapshot"] == (30, 4)


def test_chunks_of_a_snapshot_must_follow_each_other() -> None:
    sender, receiver = World(), World()
    parts = [(b"abc", True, False), (b"def", False, False), (b"", False, True)]
    sent = [
        sender.out({"type": "append_entries", "term": 5, "commit_index": 1, "serialized": part})
        for part in parts
    ]
    assert [message and message["bf_offset"] for message in sent] == [0, 3, 6]
    assert not isinstance(receiver.take(sent[0]), MessageRefused)
    # The second one was lost with its connection; the leader went on.
    assert receiver.take(sent[2]) == MessageRefused("snapshot_gap")
    for message in sent:
        assert not isinstance(receiver.take(message), MessageRefused)
    assert receiver.take(chunk(b"x", False, False, None)) == MessageRefused("snapshot_gap")


@pytest.mark.rule("testing#fuzzing")
@pytest.mark.parametrize(
    "message",
    [
        {"type": "append_entries", "bf_cluster": "one", "prevLogIdx": 20, "entries": []},
        {"type": "append_entries", "bf_cluster": "one", "prevLogIdx": "x", "commit_index": 1},
        {
            "type": "append_entries",
            "bf_cluster": "one",
            "commit_index": 1,
            "serialized": (1,),
            "bf_offset": 0,
        },
        {"type": "next_node_idx", "bf_cluster": "one", "bf_term": 5, "bf_learner": "not three"},
        {"type": ["append_entries"], "bf_cluster": "one"},
        {"type": "request_vote", "bf_cluster": "one", "last_log_index": 1, "last_log_term": 1},
        {"type": "response_vote", "bf_cluster": "one", "term": True},
        {"type": "timeout_now", "bf_cluster": "one", "term": float("inf")},
        {
            "type": "next_node_idx",
            "bf_cluster": "one",
            "bf_term": 5,
            "next_node_idx": "x",
            "reset": True,
            "success": False,
        },
        {
            "type": "next_node_idx",
            "bf_cluster": "one",
            "bf_term": 5,
            "next_node_idx": 8,
            "reset": 1,
            "success": False,
        },
        append(prevLogIdx=None),
        append(prevLogTerm="4"),
        append(commit_index=-1),
        append(term=1 << 62),
        append(entries="ab"),
        append(entries=[("text", 21, 5)]),
        append(entries=[(b"", 22, 5)]),
        append(entries=[(b"", 21, 5), (b"", 23, 5)]),
        append(entries=[(b"", 21)]),
        chunk("text", True, False, 0),  # type: ignore[arg-type]  # what no replica sends
        {**chunk(b"", True, False, 0), "bf_snapshot": (1, "x")},
    ],
)
def test_a_message_with_fields_that_no_replica_sends_ends_its_connection(message: dict[str, Any]) -> None:
    assert World().take(message) == MessageRefused("malformed", close=True)
