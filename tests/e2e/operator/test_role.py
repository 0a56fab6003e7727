"""Every verb of the role is needed: without any one of them the operator is denied something (`operator#roles`).

An administrator impersonates an account that has the role without one verb.
"""

import asyncio
import os
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.roles import OPERATOR, WATCH_PODS
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.cluster_operator import ClusterOperator
from bigfleet.operator.core.bootstrap import StubRenderer
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.options import OperatorOptions
from tests.e2e.operator.harness import CLUSTER, Bench
from tests.e2e.rights import Denied, bind, less, rights
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.scripted_shard import hint, node_state, reclaim

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

CLUSTER_WIDE = replace(OPERATOR, own_namespace=())
RIGHTS = rights(CLUSTER_WIDE)


async def everything(world: Bench, transport: Denied) -> None:
    """Make the operator do everything it can do, repeatedly."""
    turn = 0
    while True:
        turn += 1
        if world.shard.is_connected:
            labels = {"turn": str(turn)}
            # The answer to one write about m is lost, so that the next one has to look first.
            transport.add(
                Fault(Trouble.LOSE_ANSWER, times=1, method="PATCH", path="upcomingnodes/un-m/status")
            )
            world.shard.send(
                node_state("m", "Configuring" if turn % 2 else "Configured", labels=labels),
                node_state("lost", "Configured"),
                node_state("gone", "Idle" if turn % 2 else "Configured"),
                hint("p=1", turn),
                reclaim(f"i{turn}", "lost"),
            )
            if turn == 4:
                world.shard.send(hint("p=2", 1), reclaim("drain", "m"))
        await asyncio.sleep(0.4)


@pytest.mark.rule("operator#roles", "packaging#roles")
@pytest.mark.parametrize("right", RIGHTS, ids=[f"{name} {verb}" for name, verb in RIGHTS])
async def test_without_one_verb_something_is_denied(world: Bench, right: tuple[str, str]) -> None:
    resource, verb = right
    name = f"operator-{resource.replace('/', '-')}-{verb}"
    bind(world.cluster, replace(less(CLUSTER_WIDE, resource, verb), name=name), name, frozenset({WATCH_PODS}))
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(world.cluster.kubeconfig()))
    login = Login(replace(target, impersonate=name), SystemDisk(), SystemClock())
    transport = Denied(HttpTransport(login))
    world.add_request("good")
    world.add_node("m")
    world.add_pods("m", "a")
    await world.running("m", "a")
    clock = SystemClock()
    client = KubeClient(transport, RateLimiter(clock, qps=500, burst=500))
    options = OperatorOptions(
        CLUSTER, f"127.0.0.1:{world.port}", rollup_interval_s=0.5, sweep_patience_s=2.0, shutdown_grace_s=1.0
    )
    metrics = Metrics(OPERATOR_METRICS, CollectorRegistry(), version="0", commit="0")
    operator = ClusterOperator(
        options, client, world.net, StubRenderer(CLUSTER), clock=clock, rng=SeededRng(1), metrics=metrics
    )
    tasks = [asyncio.ensure_future(operator.run()), asyncio.ensure_future(everything(world, transport))]
    try:
        await world.until(f"{verb} on {resource} is denied", lambda: right in transport.denied)
        assert transport.denied == {right}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await client.close()
