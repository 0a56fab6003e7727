"""What the interface of the log promises, on both stores: Raft on three directories, and three real members of etcd.

A test that is about one store alone stands with that store's tests.
Rules: `coordinator#log-interface`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from bigfleet.aio.clock import SystemClock, monotonic_s
from bigfleet.coordinator.core.batch import MAX_BATCH_BYTES
from bigfleet.coordinator.log import (
    CommandOutcomeUnknownError,
    LogError,
    Membership,
    NotLeaderError,
    RaftState,
    ReplicatedLog,
    TooLargeError,
    UnavailableError,
)
from tests.support.coordinator.local_cluster import LocalCluster, Node
from tests.support.coordinator.pairs import put
from tests.support.coordinator.processes import PATIENCE_S
from tests.support.etcd.local import EtcdNode, EtcdNodes
from tests.support.etcd.members import EtcdMembers

pytestmark = [pytest.mark.integration, pytest.mark.rule("coordinator#log-interface")]

REPLICAS: Final = 3
Replica: TypeAlias = Node | EtcdNode
Cluster: TypeAlias = LocalCluster | EtcdNodes
Scenario = Callable[[Cluster], Coroutine[Any, Any, None]]
Run = Callable[[Scenario], None]
_CLOCK = SystemClock()


@pytest.fixture(params=["raft", "etcd"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a scenario on three replicas that have a leader."""

    @asynccontextmanager
    async def cluster() -> AsyncIterator[Cluster]:
        if request.param == "raft":
            yield LocalCluster(tmp_path)
            return
        async with EtcdMembers(request.getfixturevalue("etcd_binary"), tmp_path) as members:
            yield EtcdNodes(members)

    async def all_of_it(scenario: Scenario) -> None:
        async with cluster() as three:
            try:
                for ordinal in range(REPLICAS):
                    await three.start(ordinal)
                await until(lambda: formed(three))
                await scenario(three)
            finally:
                await three.stop_all()

    return lambda scenario: asyncio.run(all_of_it(scenario))


async def until(fact: Callable[[], bool]) -> None:
    give_up_s = monotonic_s(_CLOCK) + PATIENCE_S
    while not fact():
        assert monotonic_s(_CLOCK) < give_up_s, "a fact did not come"
        await _CLOCK.sleep(0.02)


def formed(cluster: Cluster) -> bool:
    states = [node.log.status() for node in cluster.nodes.values()]
    return (
        cluster.serving() is not None
        and all(state.membership is Membership.FULL and not state.waiting for state in states)
        and all(state.state is not RaftState.LEARNER for state in states)
    )


async def leader(cluster: Cluster) -> tuple[int, Replica]:
    await until(lambda: cluster.serving() is not None)
    return next((n, node) for n, node in cluster.nodes.items() if node.log.serving() is not None)


async def committed(cluster: Cluster, key: str, value: object) -> None:
    """Put a value, with every leader there is until one has done it; a put may be repeated."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            _, node = await leader(cluster)
            try:
                assert (await node.log.propose(put(key, value)))["ok"]
                return
            except LogError:
                await _CLOCK.sleep(0.02)


def test_one_replica_serves_and_the_others_name_it(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        number, serving = await leader(cluster)
        status = serving.log.status()
        assert (status.state, status.serving, status.epoch) == (RaftState.SERVING, status.term, status.term)
        await until(
            lambda: all(node.log.status().leader == f"grpc-{number}" for node in cluster.nodes.values())
        )
        await until(lambda: all(len(node.log.status().voters) == REPLICAS for node in cluster.nodes.values()))
        for other in cluster.nodes.values():
            assert other.log.status().cluster_id == status.cluster_id
            if other is serving:
                continue
            for refused in (other.log.propose(put("a", 1)), other.log.barrier(), other.log.snapshot()):
                with pytest.raises(NotLeaderError) as error:
                    await refused
                assert error.value.hint == f"grpc-{number}"

    run(scenario)


async def steadily(cluster: Cluster, attempt: Callable[[Replica, int], Coroutine[Any, Any, None]]) -> None:
    """Try under one leader; again under the next one, since elections happen on a busy machine."""
    async with asyncio.timeout(PATIENCE_S):
        for turn in count():
            _, serving = await leader(cluster)
            with suppress(NotLeaderError, CommandOutcomeUnknownError):
                await attempt(serving, turn)
                return


def test_results_come_in_order_refusals_are_values_and_what_is_too_large_is_not_proposed(run: Run) -> None:
    async def attempt(serving: Replica, turn: int) -> None:
        commands = [put(f"{turn}k{number:04}", number) for number in range(600)]
        commands[300] = {"kind": "unknown"}
        results = await asyncio.gather(*(serving.log.propose(command) for command in commands))
        assert [result["ok"] for result in results] == [number != 300 for number in range(600)]
        applied = [key for key in serving.state_machine.applied if key.startswith(f"{turn}k")]
        assert applied == [f"{turn}k{number:04}" for number in range(600) if number != 300]
        before = serving.log.status().applied_index
        with pytest.raises(TooLargeError):
            await serving.log.propose(put("big", "x" * MAX_BATCH_BYTES))
        assert serving.log.status().applied_index == before
        large = "y" * (MAX_BATCH_BYTES - 200)
        await asyncio.gather(*(serving.log.propose(put(f"large{number}", large)) for number in range(4)))

    async def scenario(cluster: Cluster) -> None:
        await steadily(cluster, attempt)
        nodes: list[Replica] = list(cluster.nodes.values())
        await until(lambda: all(node.state_machine.pairs == nodes[0].state_machine.pairs for node in nodes))

    run(scenario)


def test_a_snapshot_holds_everything_acknowledged_with_its_index_and_epoch(run: Run) -> None:
    async def attempt(serving: Replica, _turn: int) -> None:
        await serving.log.propose(put("a", "ü"))
        snapshot = await serving.log.snapshot()
        status = serving.log.status()
        assert snapshot.tables["pairs"] == {"a": "ü"}
        assert (snapshot.index, snapshot.term) == (status.applied_index, status.term)

    run(lambda cluster: steadily(cluster, attempt))


def test_the_next_leader_has_a_higher_epoch_and_every_acknowledged_write(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        number, serving = await leader(cluster)
        epochs = [serving.log.status().epoch]
        lost: list[str] = []
        serving.log.on_lost(lambda: lost.append("lost"))
        await asyncio.gather(*(serving.log.propose(put(f"a{n}", n)) for n in range(50)))
        await cluster.stop(number)
        assert lost == ["lost"]
        _, successor = await leader(cluster)
        await successor.log.barrier()
        epochs.append(successor.log.status().epoch)
        assert epochs[1] > epochs[0]
        assert {f"a{n}" for n in range(50)} <= set(successor.state_machine.pairs)
        back = await cluster.start(number)
        await until(lambda: back.state_machine.pairs == successor.state_machine.pairs)

    run(scenario)


def test_all_replicas_stopped_and_started_again_know_everything(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        for n in range(20):
            await committed(cluster, f"a{n}", n)
        _, serving = await leader(cluster)
        before, cluster_id = serving.log.status().epoch, serving.log.status().cluster_id
        await cluster.stop_all()
        for ordinal in range(REPLICAS):
            await cluster.start(ordinal)
        _, serving = await leader(cluster)
        await serving.log.barrier()
        assert serving.log.status().epoch > before
        assert serving.log.status().cluster_id == cluster_id
        assert serving.state_machine.pairs == {f"a{n}": n for n in range(20)}

    run(scenario)


def test_leadership_can_be_handed_over_and_callbacks_come_in_order(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        number, serving = await leader(cluster)
        told: list[object] = []

        def listen(log: ReplicatedLog) -> None:
            log.on_serving(lambda epoch: told.append((epoch, log.serving())))

        for other in cluster.nodes.values():
            if other is not serving:
                listen(other.log)
        await serving.log.propose(put("a", 1))
        assert await serving.log.transfer_leadership()
        successor, node = await leader(cluster)
        assert successor != number
        # Soft state is dropped before anybody could be answered from it.
        assert told == [(node.log.serving(), None)]
        await committed(cluster, "b", 2)
        assert node.state_machine.pairs == {"a": 1, "b": 2}

    run(scenario)


def test_a_stopped_log_answers_nobody(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        number, serving = await leader(cluster)
        await cluster.stop(number)
        for refused in (serving.log.propose(put("a", 1)), serving.log.barrier(), serving.log.snapshot()):
            with pytest.raises((NotLeaderError, UnavailableError, CommandOutcomeUnknownError)):
                await refused
        assert serving.log.serving() is None
        await serving.log.stop()

    run(scenario)
