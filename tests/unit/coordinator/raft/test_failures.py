"""Failure scenarios under virtual time (`coordinator#failures`)."""

import json
from collections.abc import Iterator

import pytest

from bigfleet.aio.disk import DiskCause
from bigfleet.aio.rng import SeededRng
from bigfleet.coordinator.batches import BatchResult
from bigfleet.coordinator.log import FatalLogError, LogDiskError
from bigfleet.coordinator.raft.library import UnknownLevelError
from bigfleet.testing.disk.image import DiskFault
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, Operation, ProcessKilledError
from tests.support.coordinator.pairs import put
from tests.support.coordinator.virtual_cluster import Process, VirtualCluster

NAMES = ("c-0", "c-1", "c-2")


class Client:
    """Writes and reads at one replica, as the service would: reads behind a barrier."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.ends: dict[str, BatchResult] = {}

    def send(self, process: Process, *items: dict[str, object], epoch: int | None = None) -> str:
        """Propose at a replica; returns a name under which its end will be noted."""
        name = f"call {len(self.ends)}.{process.name}.{process.replica.journal.last.index}"
        used = process.replica.serving if epoch is None else epoch
        text = json.dumps({"v": 1, "epoch": used, "items": list(items)}, separators=(",", ":"))

        def ended(end: BatchResult, results: str) -> None:
            refused = end is BatchResult.APPLIED and not json.loads(results)[0]["ok"]
            self.ends[name] = BatchResult.NOT_APPLIED if refused else end

        process.replica.submit(text, ended)
        return name

    def call(self, process: Process, *items: dict[str, object], seconds: float = 3) -> BatchResult | None:
        """Propose and wait; None if no answer came."""
        name = self.send(process, *items)
        self.cluster.run(seconds, until=lambda: name in self.ends)
        return self.ends.get(name)

    def read(self, process: Process, key: str, seconds: float = 3) -> object:
        """Read behind a barrier; refused reads answer with the exception's class."""
        if process.replica.serving is None:
            return FatalLogError
        if self.call(process, {"kind": "barrier"}, seconds=seconds) is not BatchResult.APPLIED:
            return FatalLogError
        return process.state_machine.pairs.get(key)


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    virtual = VirtualCluster({name: MemoryDisk() for name in NAMES}, SeededRng(3).stream("failures"))
    with virtual.running():
        virtual.found()
        for name in NAMES:
            virtual.start(name)
        assert virtual.run(10, until=virtual.serving)
        yield virtual


def leader_of(cluster: VirtualCluster) -> Process:
    leader = cluster.serving()
    assert leader is not None
    return leader


def others(cluster: VirtualCluster, process: Process) -> list[Process]:
    return [cluster.processes[name] for name in NAMES if name != process.name]


def cut(cluster: VirtualCluster, one: Process, two: Process) -> None:
    cluster.cut.add(frozenset((one.name, two.name)))


def new_leader(cluster: VirtualCluster, old: Process) -> Process:
    def found() -> bool:
        leader = cluster.serving()
        return leader is not None and leader is not old

    assert cluster.run(10, until=found)
    return leader_of(cluster)


@pytest.mark.rule("coordinator#leader-killed")
def test_a_killed_leader_is_replaced_under_a_higher_term(cluster: VirtualCluster) -> None:
    client, old = Client(cluster), leader_of(cluster)
    assert client.call(old, put("a", 1)) is BatchResult.APPLIED
    cluster.kill(old.name)
    fresh = new_leader(cluster, old)
    assert (fresh.replica.serving or 0) > 0
    assert client.read(fresh, "a") == 1
    assert client.call(fresh, put("b", 2)) is BatchResult.APPLIED


@pytest.mark.rule("coordinator#killed-around-trim")
@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_a_kill_at_any_call_around_a_dump_and_its_trim_loses_nothing(victim: str) -> None:
    reached = set()
    for place in range(1, 60):
        cluster = VirtualCluster(
            {name: MemoryDisk() for name in NAMES}, SeededRng(4).stream("dump"), dies_of=ProcessKilledError
        )
        with cluster.running():
            cluster.found()
            for name in NAMES:
                cluster.start(name)
            assert cluster.run(10, until=cluster.serving)
            client, leader = Client(cluster), leader_of(cluster)
            for number in range(8):
                assert client.call(leader, put(f"k{number}", number)) is BatchResult.APPLIED
            cluster.run(1)
            hurt = leader if victim == "leader" else others(cluster, leader)[0]
            disk = cluster.disks[hurt.name]
            assert isinstance(disk, MemoryDisk)
            seen: list[Operation] = []
            kill = KillAt(disk.operations + place)

            def hook(operation: Operation, seen: list[Operation] = seen, kill: KillAt = kill) -> None:
                seen.append(operation)
                kill(operation)

            disk.hook = hook
            hurt.replica._raft.forceLogCompaction()
            cluster.run(0.4)
            if hurt.name in cluster.processes:
                break  # the whole of it takes fewer calls than this
            reached.add((seen[-1].kind, seen[-1].path.rpartition("/")[2]))
            cluster.disks[hurt.name] = MemoryDisk(disk.image)
            cluster.start(hurt.name)
            assert cluster.run(10, until=cluster.serving)
            cluster.run(2)
            pairs = cluster.processes[hurt.name].state_machine.pairs
            assert pairs == {f"k{number}": number for number in range(8)}, f"after {seen[-1]}"
    # Between the dump's rename and the trimmed journal lie at least these.
    assert {("fsync directory", hurt.name), ("rename", "journal.new")} <= reached


@pytest.mark.rule("coordinator#leader-cut-off")
def test_a_leader_cut_from_both_stops_serving_within_a_second(
    cluster: VirtualCluster,
) -> None:
    client, old = Client(cluster), leader_of(cluster)
    for other in others(cluster, old):
        cut(cluster, old, other)
    lost = client.send(old, put("lost", 1))
    assert cluster.run(1.0, until=lambda: old.replica.serving is None)
    fresh = new_leader(cluster, old)
    assert client.call(fresh, put("a", 2)) is BatchResult.APPLIED
    assert client.read(old, "a") is FatalLogError
    cluster.cut.clear()
    assert cluster.run(5, until=lambda: old.state_machine.pairs.get("a") == 2)
    assert "lost" not in old.state_machine.pairs
    assert client.ends.get(lost) is not BatchResult.APPLIED


@pytest.mark.rule("coordinator#link-cut-writing")
@pytest.mark.parametrize("seed", range(4))
def test_with_one_link_cut_under_writes_there_is_a_short_gap_and_the_middle_node_leads(
    seed: int,
) -> None:
    cluster = VirtualCluster({name: MemoryDisk() for name in NAMES}, SeededRng(seed).stream("row 7"))
    with cluster.running():
        cluster.found()
        for name in NAMES:
            cluster.start(name)
        assert cluster.run(10, until=cluster.serving)
        client, old = Client(cluster), leader_of(cluster)
        middle, far = others(cluster, old)
        cut(cluster, old, far)
        newest = -1
        gap_s = worst_s = 0.0
        for number in range(200):  # of a tenth of a second each
            leader = cluster.serving()
            if (
                leader is not None
                and client.call(leader, put("x", number), seconds=0.1) is BatchResult.APPLIED
            ):
                newest, gap_s = number, 0.0
            gap_s += 0.1
            worst_s = max(worst_s, gap_s)
            for process in cluster.processes.values():
                if process.replica.serving is not None:
                    found = client.read(process, "x", seconds=0.05)
                    assert not isinstance(found, int) or found >= newest, "a stale read"
            cluster.run(0.05)
        assert worst_s < 5
        assert cluster.run(20, until=lambda: cluster.serving() is middle)


@pytest.mark.rule("coordinator#link-cut-idle")
@pytest.mark.parametrize("seed", range(20))
def test_with_one_link_cut_on_an_idle_cluster_no_read_is_stale(seed: int) -> None:
    cluster = VirtualCluster({name: MemoryDisk() for name in NAMES}, SeededRng(seed).stream("one link"))
    with cluster.running():
        cluster.found()
        for name in NAMES:
            cluster.start(name)
        assert cluster.run(10, until=cluster.serving)
        client, old = Client(cluster), leader_of(cluster)
        assert client.call(old, put("x", "old")) is BatchResult.APPLIED
        cluster.run(2)
        cut(cluster, old, others(cluster, old)[seed % 2])
        for number in range(6):
            cluster.run(0.4)
            leader = leader_of(cluster) if cluster.serving() else None
            if leader is None or client.call(leader, put("x", number)) is not BatchResult.APPLIED:
                continue
            for process in cluster.processes.values():
                if process is not leader and process.replica.serving is not None:
                    assert client.read(process, "x", seconds=0.2) in (FatalLogError, number)
            assert client.read(leader, "x") in (FatalLogError, number)


@pytest.mark.rule("coordinator#leader-paused")
def test_a_leader_paused_for_40_s_serves_nothing_stale_and_its_late_writes_are_refused(
    cluster: VirtualCluster,
) -> None:
    client, old = Client(cluster), leader_of(cluster)
    epoch = old.replica.serving
    assert client.call(old, put("x", "old")) is BatchResult.APPLIED
    old.paused = True
    late = client.send(old, put("late", 1))
    fresh = new_leader(cluster, old)
    assert client.call(fresh, put("x", "new")) is BatchResult.APPLIED
    cluster.run(40)
    old.paused = False
    assert client.read(old, "x") in (FatalLogError, "new")
    cluster.run(3)
    assert client.ends.get(late) is not BatchResult.APPLIED
    assert "late" not in fresh.state_machine.pairs
    # Even under the new leader a batch stamped with the old epoch has no effect.
    stale = client.send(leader_of(cluster), put("late", 2), epoch=epoch)
    cluster.run(2, until=lambda: stale in client.ends)
    assert client.ends[stale] is BatchResult.NOT_APPLIED
    assert "late" not in leader_of(cluster).state_machine.pairs


@pytest.mark.rule("coordinator#follower-paused")
def test_a_follower_paused_for_six_seconds_causes_at_most_one_election(cluster: VirtualCluster) -> None:
    old = leader_of(cluster)
    term = old.replica.view.term
    follower = others(cluster, old)[0]
    follower.paused = True
    cluster.run(6)
    follower.paused = False
    cluster.run(5)
    assert leader_of(cluster).replica.view.term <= term + 2


@pytest.mark.rule("coordinator#quorum-lost")
def test_with_two_followers_gone_the_leader_stops_serving_within_a_second(
    cluster: VirtualCluster,
) -> None:
    client, old = Client(cluster), leader_of(cluster)
    for other in others(cluster, old):
        cluster.kill(other.name)
    assert cluster.run(1.0, until=lambda: old.replica.serving is None)
    assert client.read(old, "x") is FatalLogError
    assert not cluster.run(10, until=cluster.serving)


@pytest.mark.rule("coordinator#disk-error", "coordinator#fatal-errors")
@pytest.mark.parametrize(
    ("operation", "cause"),
    [("fsync", DiskCause.IO), ("write", DiskCause.FULL)],
    ids=["sync error", "disk full"],
)
def test_a_failing_disk_ends_the_process_without_an_ack(
    cluster: VirtualCluster, operation: str, cause: DiskCause
) -> None:
    client, old = Client(cluster), leader_of(cluster)
    disk = cluster.disks[old.name]
    assert isinstance(disk, MemoryDisk)
    disk.image.inject(DiskFault(operation, cause, times=None))
    name = client.send(old, put("a", 1))
    cluster.run(1)
    assert isinstance(old.failure, LogDiskError)
    assert old.failure.exit_code == 74
    assert client.ends.get(name) is not BatchResult.APPLIED
    assert old.replica.serving is None
    assert client.call(new_leader(cluster, old), put("b", 1)) is BatchResult.APPLIED


@pytest.mark.rule("coordinator#replica-wiped", "coordinator#promotion")
def test_a_wiped_replica_that_had_acked_does_not_elect_a_leader_without_the_entries(
    cluster: VirtualCluster,
) -> None:
    client, leader = Client(cluster), leader_of(cluster)
    wiped, away = others(cluster, leader)
    cluster.kill(away.name)  # so the write rests on the leader and the replica that will be wiped
    assert client.call(leader, put("acked", 1)) is BatchResult.APPLIED
    cluster.kill(wiped.name)
    cluster.disks[wiped.name] = MemoryDisk()
    cluster.kill(leader.name)
    cluster.start(wiped.name)
    cluster.start(away.name)
    assert not cluster.run(20, until=cluster.serving), "a learner must not vote"
    cluster.start(leader.name)
    assert cluster.run(20, until=cluster.serving)
    assert client.read(leader_of(cluster), "acked") == 1
    learner = cluster.processes[wiped.name]
    assert cluster.run(10, until=lambda: learner.state_machine.pairs.get("acked") == 1)
    assert not learner.is_voter


@pytest.mark.rule("coordinator#command-raises")
def test_a_raising_command_is_a_refusal_and_the_cluster_lives(cluster: VirtualCluster) -> None:
    client, leader = Client(cluster), leader_of(cluster)
    assert client.call(leader, {"kind": "poison"}) is BatchResult.NOT_APPLIED
    assert client.call(leader, put("a", 1)) is BatchResult.APPLIED
    cluster.run(1)
    assert all(process.state_machine.pairs == {"a": 1} for process in cluster.processes.values())


@pytest.mark.rule("coordinator#resend-from-behind", "coordinator#cut-on-conflict")
def test_a_resend_from_behind_keeps_the_acked_tail(cluster: VirtualCluster) -> None:
    client, leader = Client(cluster), leader_of(cluster)
    for number in range(10):
        assert client.call(leader, put(f"k{number}", number)) is BatchResult.APPLIED
    cluster.run(1)
    follower = others(cluster, leader)[0]
    last = follower.replica.journal.last
    first = follower.replica.journal[0][1]
    place = last.index - 4 - first
    previous, *resent = follower.replica.journal[place : place + 3]
    message = {
        "type": "append_entries",
        "term": leader.replica.view.term,
        "commit_index": last.index,
        "entries": resent,
        "prevLogIdx": previous[1],
        "prevLogTerm": previous[2],
    }
    tagged = leader.guard.outgoing("c", message, leader.replica._raft)
    taken = follower.guard.incoming("c", True, tagged, follower.replica._raft)
    follower.transport._onMessageReceived(follower.transport.nodes[leader.name], taken)
    assert follower.replica.journal.last == last
    # And it refuses its vote to a log that ends there.
    vote = {
        "type": "request_vote",
        "term": leader.replica.view.term + 1,
        "last_log_index": resent[-1][1],
        "last_log_term": resent[-1][2],
    }
    follower.transport._onMessageReceived(follower.transport.nodes[leader.name], vote)
    assert follower.replica.journal.getVotedForNodeId() is None


@pytest.mark.rule("coordinator#resend-from-behind", "coordinator#commit-clamp")
def test_a_stale_tail_is_not_applied_while_a_snapshot_arrives(
    cluster: VirtualCluster,
) -> None:
    client, leader = Client(cluster), leader_of(cluster)
    follower = others(cluster, leader)[0]
    stale = follower.replica.journal.last
    for number in range(3):
        follower.replica.journal.add(b"\x00stale", stale.index + 1 + number, stale.term)
    before = follower.replica.view.commit
    chunk = {
        "type": "append_entries",
        "term": leader.replica.view.term + 5,
        "commit_index": 1000,
        "serialized": (b"first part of a dump", True, False),
    }
    tagged = leader.guard.outgoing("c", chunk, leader.replica._raft)
    taken = follower.guard.incoming("c", True, tagged, follower.replica._raft)
    follower.transport._onMessageReceived(follower.transport.nodes[leader.name], taken)
    follower.replica.tick(0.0)
    assert follower.replica.view.commit == before
    assert follower.replica.view.applied == before
    assert client.ends == {}


def test_a_replica_far_behind_is_brought_up_by_a_snapshot(cluster: VirtualCluster) -> None:
    client, leader = Client(cluster), leader_of(cluster)
    behind = others(cluster, leader)[0]
    cluster.kill(behind.name)
    for number in range(30):
        assert client.call(leader, put(f"k{number}", "x" * 3000)) is BatchResult.APPLIED
    leader.replica._raft.forceLogCompaction()
    cluster.run(1)
    assert len(leader.replica.journal) < 10
    back = cluster.start(behind.name)
    assert cluster.run(10, until=lambda: back.state_machine.pairs == leader.state_machine.pairs)
    assert back.failure is None


@pytest.mark.rule("coordinator#command-levels")
def test_a_batch_of_a_newer_form_ends_the_process(cluster: VirtualCluster) -> None:
    leader = leader_of(cluster)
    leader.replica.submit('{"v":2,"epoch":1,"items":[{"kind":"barrier"}]}', lambda _end, _results: None)
    cluster.run(8)
    # Whoever applies it ends; the last one has no majority any more and never gets that far.
    failures = [process.failure for process in cluster.processes.values() if process.failure is not None]
    assert isinstance(leader.failure, UnknownLevelError)
    assert len(failures) == 2
    assert {failure.exit_code for failure in failures} == {71}
    assert cluster.serving() is None


@pytest.mark.rule("coordinator#won-term")
def test_the_epoch_is_the_term_that_was_won(cluster: VirtualCluster) -> None:
    old = leader_of(cluster)
    assert old.replica.serving == old.replica.view.term == old.state_machine.epoch
    cluster.kill(old.name)
    fresh = new_leader(cluster, old)
    assert fresh.replica.serving == fresh.state_machine.epoch == fresh.replica.view.term
    assert fresh.replica.serving > (old.state_machine.epoch or 0)


@pytest.mark.rule("coordinator#shutdown")
def test_leadership_is_handed_over_at_once(cluster: VirtualCluster) -> None:
    old = leader_of(cluster)
    cluster.run(1)
    assert old.replica.transfer_leadership()
    assert cluster.run(1.0, until=lambda: (leader := cluster.serving()) is not None and leader is not old)
