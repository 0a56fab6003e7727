"""No write is acknowledged before a majority has synced it, and no replica gives up what it acknowledged.

Rules: `coordinator#leader-cut-off`, `coordinator#resend-from-behind`, `coordinator#sync-before-send`,
`coordinator#cut-on-conflict`. Runs in virtual time, where "after the cut" and "synced" are exact: at the moment of each
OK the disks are looked at as a power cut in that moment would leave them.
"""

import itertools
import json
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest

from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.coordinator.batches import BatchResult
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.message_guard import MessageGuard
from bigfleet.coordinator.raft.preflight import examine
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from tests.support.coordinator.pairs import put
from tests.support.coordinator.virtual_cluster import Process, VirtualCluster

NAMES = ("c-0", "c-1", "c-2")


class Watched:
    """A cluster whose every OK is checked against the disks when it is given, and against the tables at the end."""

    def __init__(self, seed: int) -> None:
        self.stream: RandomStream = SeededRng(seed).stream("majority")
        self.disks = {name: MemoryDisk() for name in NAMES}
        self.cluster = VirtualCluster(self.disks, self.stream)
        self.ok: dict[str, tuple[int, int]] = {}
        self.not_ok: set[str] = set()
        self._names = itertools.count()

    def begin(self) -> None:
        self.cluster.found()
        for name in NAMES:
            self.cluster.start(name)
        self.until_serving()

    def until_serving(self) -> Process:
        assert self.cluster.run(20, until=self.cluster.serving), "no replica serves"
        leader = self.cluster.serving()
        assert leader is not None
        return leader

    def write(self, process: Process) -> str:
        """Send a write to a replica, whatever it believes to be."""
        key = f"k{next(self._names)}"
        item = put(key, key)
        text = json.dumps({"v": 1, "epoch": process.replica.serving, "items": [item]}, separators=(",", ":"))
        process.replica.submit(text, lambda end, results: self._answered(process, key, end, results))
        return key

    def acknowledged(self, process: Process) -> str:
        """Send a write and wait for its OK."""
        key = self.write(process)
        assert self.cluster.run(5, until=lambda: key in self.ok), "no OK"
        return key

    def holders(self, index: int, term: int) -> list[str]:
        """Who would still have an entry if the power of all hosts went now."""
        return [name for name in NAMES if self._holds(name, index, term)]

    def settled(self) -> None:
        """Let everybody come back and agree; then every OK is in every replica's tables."""
        self.cluster.cut.clear()
        for name in NAMES:
            if name not in self.cluster.processes:
                self.cluster.start(name)
            self.cluster.processes[name].paused = False

        def level() -> bool:
            leader = self.cluster.serving()
            applied = {process.replica.view.applied for process in self.cluster.processes.values()}
            return leader is not None and applied == {leader.replica.journal.last.index}

        assert self.cluster.run(30, until=level), "the replicas do not come together"
        for process in self.cluster.processes.values():
            assert process.failure is None
            assert not [key for key in self.ok if key not in process.state_machine.pairs], process.name

    def _answered(self, process: Process, key: str, end: BatchResult, results: str) -> None:
        if end is not BatchResult.APPLIED or not json.loads(results)[0]["ok"]:
            self.not_ok.add(key)
            return
        index = process.replica._raft.raftLastApplied + 1  # the library counts it once all callbacks have run
        journal = process.replica.journal
        term = journal[index - journal[0][1]][2]
        self.ok[key] = index, term
        holders = self.holders(index, term)
        assert len(holders) >= 2, f"{key} was acknowledged while only {holders} had synced it"

    def _holds(self, name: str, index: int, term: int) -> bool:
        image = self.disks[name].image.durable_copy()
        found = examine(MemoryDisk(image), f"/{name}/journal", f"/{name}/dump")
        if found.dump is not None and found.dump.last.index >= index:
            return True
        return any((entry.index, entry.term) == (index, term) for entry in found.entries)


@pytest.fixture
def watched() -> Iterator[Watched]:
    world = Watched(7)
    with world.cluster.running():
        world.begin()
        yield world


def others(world: Watched, process: Process) -> list[Process]:
    return [world.cluster.processes[name] for name in NAMES if name != process.name]


def cut_off(world: Watched, process: Process) -> None:
    for other in others(world, process):
        world.cluster.cut.add(frozenset((process.name, other.name)))


@pytest.mark.rule("coordinator#leader-cut-off")
@pytest.mark.parametrize("seed", range(6))
def test_a_leader_cut_off_acknowledges_nothing_however_often_it_is_asked(seed: int) -> None:
    world = Watched(seed)
    with world.cluster.running():
        world.begin()
        for _ in range(3):
            old = world.until_serving()
            before = [world.acknowledged(old) for _ in range(3)]
            in_flight = [world.write(old) for _ in range(2)]  # of these either may be true
            world.cluster.run(world.stream.uniform(0, 0.02))
            cut_off(world, old)
            late = []
            for _ in range(30):
                late.append(world.write(old))
                world.cluster.run(0.1)
            assert not [key for key in late if key in world.ok], "an OK from behind the cut"
            fresh = world.until_serving()
            assert fresh is not old
            after = world.acknowledged(fresh)
            world.settled()
            tables = world.until_serving().state_machine.pairs
            assert {*before, after} <= set(tables)
            assert not [key for key in late if key in tables], "a refused write took effect"
            assert {key for key in in_flight if key in world.ok} <= set(tables)


@pytest.mark.rule("coordinator#replicas-killed", "coordinator#sync-before-send")
@pytest.mark.parametrize("seed", range(6))
def test_every_ok_rests_on_two_synced_disks_through_cuts_pauses_kills_and_compactions(
    seed: int,
) -> None:
    world = Watched(100 + seed)
    with world.cluster.running():
        world.begin()
        for _ in range(12):
            hurt(world)
            for _ in range(world.stream.randint(5, 40)):
                for process in list(world.cluster.processes.values()):
                    # Also at a replica that wrongly believes to lead.
                    if process.replica.serving is not None and world.stream.random() < 0.7:
                        world.write(process)
                if world.stream.random() < 0.1:
                    victim = world.stream.choice(sorted(world.cluster.processes))
                    world.cluster.processes[victim].replica._raft.forceLogCompaction()
                world.cluster.step()
            heal(world)
        world.settled()
    assert len(world.ok) > 50


def hurt(world: Watched) -> None:
    stream, cluster = world.stream, world.cluster
    match stream.choice(("cut", "cut off", "pause", "kill", "nothing")):
        case "cut":
            cluster.cut.add(frozenset(stream.sample(NAMES, 2)))
        case "cut off":
            lonely = stream.choice(NAMES)
            cluster.cut |= {frozenset((lonely, name)) for name in NAMES if name != lonely}
        case "pause":
            cluster.processes[stream.choice(sorted(cluster.processes))].paused = True
        case "kill":
            cluster.kill(stream.choice(sorted(cluster.processes)))


def heal(world: Watched) -> None:
    world.cluster.run(world.stream.uniform(0, 1.5))
    world.cluster.cut.clear()
    for process in world.cluster.processes.values():
        process.paused = False
    for name in NAMES:
        if name not in world.cluster.processes:
            world.cluster.start(name)
    world.cluster.run(world.stream.uniform(0, 0.5))


def test_the_watch_notices_an_answer_that_leaves_before_the_sync(watched: Watched) -> None:
    def unsynced(guard: MessageGuard, _node: str, message: dict[str, Any], raft: Any) -> dict[str, Any]:
        tagged = {**message, "bf_cluster": guard._cluster_id}
        return {**tagged, "bf_term": raft.raftCurrentTerm} if message["type"] == "next_node_idx" else tagged

    def late(journal: GuardedJournal) -> None:
        """Sync when the second is over, as a journal without any guard would at best."""

    leader = watched.until_serving()
    with (
        mock.patch.object(MessageGuard, "outgoing", unsynced),
        mock.patch.object(GuardedJournal, "sync", late),
        pytest.raises(AssertionError, match="had synced it"),
    ):
        watched.acknowledged(leader)


def behind_then_compacted(world: Watched) -> tuple[Process, Process, str]:
    """A leader and one follower with an entry that both acknowledged behind the leader's dump; the third is away."""
    leader = world.until_serving()
    follower, away = others(world, leader)
    world.cluster.kill(away.name)
    for _ in range(5):
        world.acknowledged(leader)
    world.cluster.run(0.5)
    leader.replica._raft.forceLogCompaction()
    world.cluster.run(0.2)
    assert len(leader.replica.journal) == 2
    return leader, follower, world.acknowledged(leader)


@pytest.mark.rule("coordinator#resend-from-behind")
def test_a_snapshot_from_behind_takes_back_nothing_that_was_acknowledged(watched: Watched) -> None:
    """A follower that was behind answers every append with "go back", also those already on their way.

    Where the leader compacts its log between two such answers, the second one makes it send its snapshot to a follower which by
    then holds more than the snapshot. Installed, that would drop entries which the leader counts as held by a majority; here the
    link breaks and the leader dies before it can send them again.
    """
    leader, follower, key = behind_then_compacted(watched)
    index, term = watched.ok[key]
    back = {"type": "next_node_idx", "next_node_idx": 2, "reset": True, "success": False}
    tagged = follower.guard.outgoing("c", back, follower.replica._raft)
    taken = leader.guard.incoming("c", True, tagged, leader.replica._raft)
    leader.transport._onMessageReceived(leader.transport.nodes[follower.name], taken)

    arrived = False
    receive = follower.transport.receive

    def until_the_last_chunk(peer: str, data: bytes) -> None:
        nonlocal arrived
        if not arrived:
            receive(peer, data)
            chunk = pickle.loads(data).get("serialized")  # noqa: S301 - our own bytes
            arrived = chunk is not None and chunk[2]

    with mock.patch.object(follower.transport, "receive", until_the_last_chunk):
        assert watched.cluster.run(1, until=lambda: arrived), "the leader sent no snapshot"
    assert follower.replica.journal.holds(index, term), "the follower gave up what it had acknowledged"
    assert len(watched.holders(index, term)) == 2
    watched.cluster.kill(leader.name)
    watched.cluster.start(others_name(leader, follower))
    fresh = watched.until_serving()
    assert fresh is not leader
    assert fresh.state_machine.pairs[key] == key


def others_name(*known: Process) -> str:
    return next(name for name in NAMES if name not in {process.name for process in known})


@pytest.mark.rule("coordinator#resend-from-behind")
def test_a_damaged_snapshot_is_not_acknowledged_with_the_end_of_an_own_stale_log(
    watched: Watched,
) -> None:
    """The library answers "I have everything up to my own end" even where it could not load what it was sent."""
    leader = watched.until_serving()
    follower, third = others(watched, leader)
    stale = follower.replica.journal.last
    for number in range(50):  # entries that were never committed, more than in the leader's log
        follower.replica.journal.add(b"\x00stale", stale.index + 1 + number, stale.term)
    said: list[dict[str, Any]] = []
    seen = follower.transport.send

    def send(node: Any, message: dict[str, Any]) -> bool:
        sent = seen(node, message)
        said.append(message)  # only what left: the guard raises for what may not
        return bool(sent)

    sends = mock.patch.object(follower.transport, "send", send)
    for place, part in enumerate([(b"no dump at all", True, False), (b"", False, True)]):
        chunk = {
            "type": "append_entries",
            "term": leader.replica.view.term,
            "commit_index": 1000,
            "serialized": part,
            "bf_cluster": "virtual-cluster",
            "bf_offset": 14 * place,
            "bf_snapshot": (stale.index + 40, stale.term + 1),
        }
        taken = follower.guard.incoming("c", True, chunk, follower.replica._raft)
        handle = partial(follower.transport._onMessageReceived, follower.transport.nodes[leader.name], taken)
        with sends:
            watched.cluster._guarded(follower, handle)
    assert not [message for message in said if message.get("success")]
    assert follower.failure is not None
    assert follower.failure.exit_code == 71
    assert third.failure is None
    watched.acknowledged(leader)
