"""Forming, joining and growing: three logs over real sockets and files, asking each other directly.

Rules: `coordinator#replica-wiped`, `coordinator#ordinal-0-wiped`, `coordinator#pod-missing-at-install`,
`coordinator#crash-while-expanding`, `coordinator#pod-ip-changed`, `coordinator#directory-used-twice`,
`coordinator#volume-rolled-back`, `coordinator#startup-decision`, `coordinator#first-bootstrap`, `coordinator#expand`,
`coordinator#fixed-membership`, `coordinator#directory-lock`, `coordinator#identity-file`.
"""

import asyncio
import gc
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bigfleet.coordinator.log import DamagedDirectoryError, FatalLogError, Membership, RaftState
from bigfleet.coordinator.raft.directory import DirectoryInUseError
from tests.support.coordinator.local_cluster import LocalCluster, Node
from tests.support.coordinator.pairs import put

pytestmark = pytest.mark.integration

PATIENCE_S = 60.0


def run(directory: Path, scenario: Callable[[LocalCluster], Awaitable[None]], **options: int) -> None:
    async def in_a_cluster() -> None:
        cluster = LocalCluster(directory, **options)  # type: ignore[arg-type]  # only `replicas` is ever given
        try:
            await scenario(cluster)
        finally:
            await cluster.stop_all()

    asyncio.run(in_a_cluster())
    gc.collect()  # what was left is found here and not in the middle of another test


async def until(fact: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not fact():  # noqa: ASYNC110 - a fact of other threads, which announce nothing
            await asyncio.sleep(0.02)


def is_formed(cluster: LocalCluster) -> bool:
    statuses = [node.log.status() for node in cluster.nodes.values()]
    voters = all(status.membership is Membership.FULL and not status.waiting for status in statuses)
    return voters and len(statuses) == 3 and cluster.serving() is not None


async def formed(cluster: LocalCluster) -> Node:
    for ordinal in range(3):
        if ordinal not in cluster.nodes:
            await cluster.start(ordinal)
    await until(lambda: is_formed(cluster))
    leader = cluster.serving()
    assert leader is not None
    return leader


async def equal(cluster: LocalCluster, key: str, value: object) -> None:
    await until(lambda: all(node.state_machine.pairs.get(key) == value for node in cluster.nodes.values()))


def clusters(cluster: LocalCluster) -> set[str]:
    return {node.log.status().cluster_id for node in cluster.nodes.values()}


@pytest.mark.rule("coordinator#startup-decision")
def test_three_empty_replicas_with_identical_flags_form_one_cluster(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        leader = await formed(cluster)
        assert len(clusters(cluster)) == 1
        assert await leader.log.propose(put("a", 1)) == {"ok": True}
        await equal(cluster, "a", 1)
        snapshot = await leader.log.snapshot()
        assert snapshot.tables["pairs"] == {"a": 1}
        # And again from their disks.
        await cluster.stop_all()
        leader = await formed(cluster)
        await equal(cluster, "a", 1)
        assert leader.log.status().epoch == leader.log.status().serving

    run(tmp_path, scenario)


@pytest.mark.rule("coordinator#first-bootstrap", "coordinator#pod-missing-at-install")
def test_with_one_peer_missing_ordinal_0_waits_and_names_it(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        zero = await cluster.start(0)
        await cluster.start(1)
        await until(lambda: zero.log.status().waiting == ("peer coordinator-2 does not answer",))
        assert zero.log.status().state is RaftState.UNFORMED
        assert zero.log.status().cluster_id == ""
        await formed(cluster)

    run(tmp_path, scenario)


@pytest.mark.rule("coordinator#first-bootstrap")
def test_bootstrap_without_peers_lets_ordinal_0_begin_alone(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        zero = await cluster.start(0, without_peers=True)
        await until(lambda: zero.log.status().serving is not None)
        assert zero.log.status().membership is Membership.SOLO
        await zero.log.propose(put("a", 1))
        await formed(cluster)
        await equal(cluster, "a", 1)

    run(tmp_path, scenario)


@pytest.mark.rule("coordinator#replica-wiped", "coordinator#ordinal-0-wiped")
@pytest.mark.parametrize("ordinal", [0, 2])
def test_a_wiped_replica_learns_and_votes_again(tmp_path: Path, ordinal: int) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        leader = await formed(cluster)
        await leader.log.propose(put("a", 1))
        before = clusters(cluster)
        await cluster.stop(ordinal)
        shutil.rmtree(cluster.data_dir(ordinal))
        steps: list[str] = []
        await cluster.start(ordinal, on_step=steps.append)
        await until(lambda: is_formed(cluster))
        assert steps == ["learning", "admitted", "promoted"]
        assert clusters(cluster) == before
        await equal(cluster, "a", 1)

    run(tmp_path, scenario)


@pytest.mark.rule("coordinator#volume-rolled-back", "coordinator#startup-decision")
def test_a_directory_rolled_back_to_its_solo_days_exits_71(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        zero = await cluster.start(0, without_peers=True)
        await until(lambda: zero.log.status().serving is not None)
        await cluster.stop(0)
        shutil.copytree(cluster.data_dir(0), tmp_path / "old")
        await formed(cluster)
        await cluster.stop(0)
        shutil.rmtree(cluster.data_dir(0))
        shutil.copytree(tmp_path / "old", cluster.data_dir(0))
        rolled_back = await cluster.start(0)
        async with asyncio.timeout(PATIENCE_S):
            failure = await rolled_back.log.wait_failure()
        assert isinstance(failure, DamagedDirectoryError)
        assert failure.exit_code == 71
        assert "rolled back" in str(failure)
        await until(lambda: (leader := cluster.serving()) is not None and leader is not rolled_back)

    run(tmp_path, scenario)


@pytest.mark.rule("coordinator#crash-while-expanding", "coordinator#expand")
@pytest.mark.parametrize("step", ["minted", "frozen", "matched", "full", "rebuilt"])
def test_a_kill_after_each_step_of_expand_leaves_one_quorum(tmp_path: Path, step: str) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        died = asyncio.Event()

        def die(at: str) -> None:
            if at == step and not died.is_set():
                died.set()
                raise asyncio.CancelledError

        await cluster.start(0, on_step=die)
        await cluster.start(1)
        await cluster.start(2)
        async with asyncio.timeout(PATIENCE_S):
            await died.wait()
        await cluster.stop(0)
        leader = await formed(cluster)
        assert len(clusters(cluster)) == 1
        await leader.log.propose(put("a", step))
        await equal(cluster, "a", step)

    run(tmp_path, scenario)


@pytest.mark.rule(
    "coordinator#directory-used-twice", "coordinator#directory-lock", "coordinator#identity-file"
)
def test_two_processes_on_one_directory_and_a_directory_of_another(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await cluster.start(0, without_peers=True)
        with pytest.raises(DirectoryInUseError):
            await cluster.start(0)
        node = cluster.nodes[0]
        await until(lambda: node.log.status().serving is not None)
        await cluster.stop(0)
        shutil.copytree(cluster.data_dir(0), cluster.data_dir(1))
        with pytest.raises(DamagedDirectoryError, match="belongs to coordinator-0"):
            await cluster.start(1)

    run(tmp_path, scenario)


def test_one_replica_forms_by_itself_and_keeps_its_tables(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        node = await cluster.start(0)
        await until(lambda: node.log.status().serving is not None)
        assert not node.log.status().waiting
        await node.log.propose(put("a", 1))
        assert not await node.log.transfer_leadership()
        await cluster.stop(0)
        node = await cluster.start(0)
        await until(lambda: node.log.status().serving is not None)
        assert node.state_machine.pairs == {"a": 1}

    run(tmp_path, scenario, replicas=1)


@pytest.mark.rule("coordinator#leader-terminated", "coordinator#shutdown")
def test_a_leader_that_is_told_to_stop_hands_over(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        leader = await formed(cluster)
        await leader.log.propose(put("a", 1))
        assert await leader.log.transfer_leadership()
        await until(lambda: (node := cluster.serving()) is not None and node is not leader)

    run(tmp_path, scenario)


@pytest.mark.rule("coordinator#damaged-files")
def test_a_replica_with_a_damaged_file_refuses_and_the_others_go_on(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        leader = await formed(cluster)
        for number in range(20):
            await leader.log.propose(put(f"k{number}", number))
        victim = next(ordinal for ordinal, node in cluster.nodes.items() if node is not leader)
        await cluster.stop(victim)
        journal = cluster.data_dir(victim) / "journal"
        data = bytearray(journal.read_bytes())
        data[len(data) // 2] ^= 1
        journal.write_bytes(bytes(data))
        with pytest.raises(FatalLogError, match="journal") as refused:
            await cluster.start(victim)
        assert refused.value.exit_code == 71
        await leader.log.propose(put("after", 1))
        assert journal.read_bytes() == bytes(data)  # never wiped, never repaired

    run(tmp_path, scenario)
