"""Power cuts, kills and full logs under virtual time: nothing acknowledged is lost, replicas agree, no repair is needed.

Laws: `coordinator#replicas-killed`, `coordinator#power-cut` and `coordinator#killed-around-trim`. The disk loses, tears
and reorders whatever was not synced, bytes and names alike; the library's own dump files are on it too.
"""

import itertools
import json
from collections.abc import Callable, Mapping
from unittest import mock

import pytest

from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.coordinator.batches import BatchResult
from bigfleet.coordinator.log import FatalLogError
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, ProcessKilledError
from tests.support.coordinator.pairs import put
from tests.support.coordinator.virtual_cluster import VirtualCluster

NAMES = ("coordinator-0", "coordinator-1", "coordinator-2")
ROUNDS = 25


class Rounds:
    """A cluster with repeated faults under writes."""

    def __init__(self, seed: int) -> None:
        self.stream: RandomStream = SeededRng(seed).stream("rounds")
        self.disks = {name: MemoryDisk() for name in NAMES}
        self.cluster = VirtualCluster(self.disks, self.stream, dies_of=ProcessKilledError)
        self.acked: dict[str, int] = {}
        self.proposed = itertools.count()

    def run(self, rounds: int, *, power: bool) -> None:
        with self.cluster.running():
            self.cluster.found()
            for name in NAMES:
                self.cluster.start(name)
            for number in range(rounds):
                self.write(self.stream.uniform(0.3, 1.5))
                self.hurt(power)
                self.recover(number)

    def write(self, seconds: float) -> None:
        self.cluster.run(4, until=self.cluster.serving)
        self.cluster.run(seconds, until=self.write_once)

    def write_once(self) -> None:
        leader = self.cluster.serving()
        if leader is None or self.stream.random() < 0.5:
            return
        count = self.stream.randint(1, 8)
        keys = [f"k{next(self.proposed)}" for _ in range(count)]
        items = [put(key, int(key[1:])) for key in keys]
        text = json.dumps({"v": 1, "epoch": leader.replica.serving, "items": items}, separators=(",", ":"))
        leader.replica.submit(text, lambda end, results: self.note(keys, end, results))
        if self.stream.random() < 0.05:
            victim = self.stream.choice(sorted(self.cluster.processes))
            self.cluster.processes[victim].replica._raft.forceLogCompaction()

    def note(self, keys: list[str], end: BatchResult, results: str) -> None:
        if end is BatchResult.APPLIED:
            for key, result in zip(keys, json.loads(results), strict=False):
                if result["ok"]:
                    self.acked[key] = int(key[1:])

    def hurt(self, power: bool) -> None:
        victims = self.stream.sample(NAMES, self.stream.randint(1, 3))
        for name in victims:
            disk = self.disks[name]
            if self.stream.random() < 0.5:  # in the middle of a call to the disk, within the next moments
                disk.hook = KillAt(disk.operations + self.stream.randint(1, 12), self.stream.randint(0, 40))
        for _ in range(self.stream.randint(0, 10)):
            self.write_once()
            self.cluster.step()
        for name in victims:
            self.cluster.kill(name)
            self.disks[name].kill()
            if power:
                self.disks[name].image.power_cut(self.stream)
            self.disks[name] = self.cluster.disks[name] = MemoryDisk(self.disks[name].image)
        if self.stream.random() < 0.3:  # the survivors go on for a while
            self.write(self.stream.uniform(0.0, 2.0))

    def recover(self, number: int) -> None:
        for name in NAMES:
            if name not in self.cluster.processes:
                self.cluster.start(name)
        assert self.cluster.run(20, until=self.cluster.serving), f"round {number}: no leader"

        def settled() -> bool:
            leader = self.cluster.serving()
            applied = {process.replica.view.applied for process in self.cluster.processes.values()}
            return leader is not None and applied == {leader.replica.journal.last.index}

        assert self.cluster.run(20, until=settled), f"round {number}: replicas do not catch up"
        machines = {name: process.state_machine for name, process in self.cluster.processes.items()}
        for name, state_machine in machines.items():
            assert not self.cluster.processes[name].failure
            lost = {key for key in self.acked if state_machine.pairs.get(key) != self.acked[key]}
            assert not lost, f"round {number}: {name} lost {sorted(lost)[:5]}"
        first = machines[NAMES[0]].dump()
        assert all(state_machine.dump() == first for state_machine in machines.values()), (
            f"round {number}: divergence"
        )


@pytest.mark.rule("coordinator#power-cut")
@pytest.mark.parametrize("seed", range(2))
def test_a_tenth_of_the_power_cuts_lose_nothing_acknowledged(seed: int) -> None:
    rounds = Rounds(seed)
    rounds.run(ROUNDS // 2, power=True)
    assert rounds.acked


@pytest.mark.rule("coordinator#replicas-killed")
def test_kills_at_any_call_to_the_disk_lose_nothing_acknowledged() -> None:
    rounds = Rounds(1000)
    rounds.run(ROUNDS, power=False)
    assert rounds.acked


@pytest.mark.rule("coordinator#power-cut")
@pytest.mark.long
@pytest.mark.parametrize("seed", range(20, 23))
def test_a_hundred_and_fifty_power_cuts_lose_nothing_acknowledged(
    evidence: Callable[[str, Mapping[str, object]], None], seed: int
) -> None:
    rounds = Rounds(seed)
    rounds.run(50, power=True)
    evidence(
        "coordinator-faults.jsonl",
        {
            "test": "power cuts of one, two or all hosts: unsynced bytes and names lost, torn, reordered; virtual time",
            "seed": seed,
            "rounds": 50,
            "acknowledged": len(rounds.acked),
            "lost": 0,
            "replicas_differ": False,
        },
    )


def _never(_journal: GuardedJournal) -> None:
    """Sync nothing."""


@pytest.mark.rule("coordinator#power-cut")
def test_the_rounds_notice_a_journal_that_does_not_sync() -> None:
    def hurt() -> None:
        for seed in range(4):
            Rounds(seed).run(10, power=True)

    with (
        mock.patch.object(GuardedJournal, "_sync_data", _never),
        pytest.raises((AssertionError, FatalLogError)),
    ):
        hurt()
