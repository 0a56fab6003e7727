"""S1: a second operator of the same cluster, with a shard of either kind."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import PODS
from bigfleet.kube.roles import OPERATOR
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.cluster_operator import ClusterOperator
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.options import OperatorOptions
from tests.support.scripted_shard import node_state, reclaim
from tests.unit.operator.world import ADDRESS, CLUSTER, World, play


def second_operator(world: World) -> tuple[ClusterOperator, CollectorRegistry]:
    registry = CollectorRegistry()
    client = KubeClient(world.api.transport(OPERATOR), RateLimiter(world.clock, qps=1e6, burst=10_000))
    operator = ClusterOperator(
        OperatorOptions(CLUSTER, ADDRESS),
        client,
        world.network.host("operator-2"),
        world.renderer,
        clock=world.clock,
        rng=world.rng.child("second"),
        metrics=Metrics(OPERATOR_METRICS, registry, version="0", commit="0"),
    )
    return operator, registry


@pytest.mark.rule("operator#s1")
def test_the_one_that_is_replaced_is_ended_and_backs_off_and_no_node_is_drained_twice() -> None:
    async def scene(world: World) -> None:
        await world.add_node("m")
        await world.add_pods("m", "a", "b")
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        world.shard.replay = [node_state("m", "Configured")]
        operator, registry = second_operator(world)
        running = asyncio.ensure_future(operator.run())
        first = world.shard.current
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        world.shard.replay = [node_state("m", "Draining")]
        first.close()  # as our shard does
        await world.eventually(lambda: world.value("session_reconnects_total") == 1)
        world.shard.sessions[1].send(reclaim("i1", "m"))
        await world.eventually(lambda: world.phase("m") == "Drained", 30)
        evictions = registry.get_sample_value("bigfleet_operator_evictions_total", {"answer": "201-accepted"})
        assert evictions == 2
        assert world.calls("POST", "/eviction") == 0
        assert world.all(PODS) == {}
        running.cancel()
        await asyncio.wait({running})

    play(scene)


@pytest.mark.rule("operator#s1")
def test_before_an_old_shard_the_deaf_one_shows_it_by_the_time_of_its_last_ack() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(25)
        before = world.value("last_ack_timestamp_seconds")
        assert before > 0
        world.shard.acks_rollups = False  # its roll-ups are ignored from now on
        await world.clock.sleep(120)
        assert world.value("last_ack_timestamp_seconds") == before
        assert len(world.shard.sessions) == 1

    play(scene)
