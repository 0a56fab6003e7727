"""A real operator through real trouble: crashes, restarts, storms, absences; it converges and leaks nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.http_link import HttpLink
from bigfleet.kube.login import Login, find_target
from bigfleet.testing.kube_api_http import HttpFault, HttpFront
from bigfleet.testing.scripted_shard import node_state, reclaim
from tests.e2e.operator.harness import ACCOUNT, UPCOMING, Bench

pytestmark = pytest.mark.asyncio

CONFLICT = '{"kind":"Status","apiVersion":"v1","code":409,"reason":"Conflict","message":"the object has been modified"}'


@asynccontextmanager
async def front(world: Bench) -> AsyncIterator[tuple[HttpFront, Path]]:
    """Stand between the operator and the API server."""
    disk = SystemDisk()
    target = find_target({}, disk, kubeconfig=str(world.cluster.kubeconfig(ACCOUNT)))
    link = HttpLink(Login(target, disk, SystemClock()))
    try:
        async with HttpFront(link).serving() as server:
            config = world.directory / "front.kubeconfig"
            config.write_text(
                "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
                f"clusters: [{{name: x, cluster: {{server: '{server.url}'}}}}]\n"
                "users: [{name: x, user: {}}]\n"
                "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
            )
            yield server, config
    finally:
        await link.close()


def names(world: Bench) -> set[str]:
    return {item["metadata"]["name"] for item in world.cluster.admin.get(UPCOMING)["items"]}


LONG = pytest.mark.long


@pytest.mark.parametrize("after", [0, 3, *(pytest.param(cut, marks=LONG) for cut in (1, 2, 4, 5, 6, 7, 8))])
async def test_n5_killed_after_any_write_of_upcoming_nodes_none_is_lost_and_none_leaks(
    world: Bench, after: int
) -> None:
    operator = world.start()
    await world.connected()
    frames = [node_state(f"m-{number}", "Configured", resources={"cpu": "8"}) for number in range(4)]
    world.shard.send(*frames)
    series = (
        'bigfleet_operator_upcoming_node_writes_total{op="create",outcome="success"}',
        'bigfleet_operator_upcoming_node_writes_total{op="status_update",outcome="success"}',
    )
    if after:
        await world.until("writes", lambda: sum(map(world.metric, series)) >= after)
    operator.kill()
    world.shard.replay = frames[:3]
    world.start()
    await world.connected(2)
    await world.until("all three", lambda: all(world.phase(f"m-{number}") == "Ready" for number in range(3)))
    await world.until("no fourth", lambda: names(world) == {"un-m-0", "un-m-1", "un-m-2"})


async def test_an_api_server_that_restarts_is_ridden_out(world: Bench) -> None:
    world.add_request("good")
    operator = world.start()
    await world.connected()
    world.shard.send(node_state("m-1", "Configuring"))
    await world.until("Registered", lambda: world.phase("m-1") == "Registered")
    await world.kill_api_server()
    world.shard.send(node_state("m-1", "Configured"))
    rollups = len(world.shard.current.rollups)
    await world.until("still sent", lambda: len(world.shard.current.rollups) > rollups + 2)
    assert len(world.shard.current.rollups[-1].needs) == 1
    await world.restart_api_server()
    await world.until("Ready", lambda: world.phase("m-1") == "Ready")
    assert len(world.shard.sessions) == 1
    assert operator.http("/readyz")[0] == 200


async def test_c4_n1_conflict_storms_and_expired_watches_lose_nothing(world: Bench) -> None:
    async with front(world) as (server, config):
        world.add_request("good")
        world.start(kubeconfig=config)
        await world.connected()
        gone = '{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired","message":"too old resource version"}'
        server.faults.append(
            HttpFault(status=410, body=gone, content_type="application/json", watch=True, times=4)
        )
        server.cut_watches()
        storm = HttpFault(
            status=409, body=CONFLICT, content_type="application/json", method="PATCH", times=25
        )
        server.faults.append(storm)
        frames = [node_state(f"m-{number}", "Configured") for number in range(5)]
        world.shard.send(*frames)
        await world.until(
            "all Ready", lambda: all(world.phase(f"m-{number}") == "Ready" for number in range(5))
        )
        assert storm.hits == 25
        await world.until("a roll-up after all that", lambda: len(world.shard.current.rollups) > 1)
        seen = {len(rollup.needs) for rollup in world.shard.current.rollups[1:]}
        assert seen == {1}


@LONG
async def test_u3_busy_and_broken_answers_slow_it_down_and_lose_nothing(world: Bench) -> None:
    async with front(world) as (server, config):
        operator = world.start(kubeconfig=config)
        await world.connected()
        server.faults += [
            HttpFault(status=429, body="busy", headers={"Retry-After": "1"}, times=2, watch=False),
            HttpFault(status=503, body="<html>no</html>", content_type="text/html", times=2, watch=False),
            HttpFault(what="cut", times=2, watch=False),
            HttpFault(status=401, body="Unauthorized", times=1, watch=False),
        ]
        world.shard.send(node_state("m-1", "Configured"), node_state("m-2", "Configured"))
        await world.until("Ready", lambda: world.phase("m-1") == world.phase("m-2") == "Ready")
        assert operator.http("/healthz")[0] == 200


async def test_e3_with_the_shard_gone_nothing_changes_and_then_a_rollup_comes_at_once(world: Bench) -> None:
    world.add_request("good")
    operator = world.start()
    await world.connected()
    world.add_node("m-1")
    world.add_pods("m-1", "a")
    await world.running("m-1", "a")
    world.shard.send(node_state("m-1", "Configured"))
    await world.until("Ready", lambda: world.phase("m-1") == "Ready")
    await world.until("acknowledged", lambda: "status" in world.request("good"))
    before = (world.upcoming("m-1"), world.request("good"))
    port = world.port
    await world.hush()
    series = "bigfleet_operator_session_reconnects_total"
    await world.until("several dials", lambda: world.metric(series) >= 4)
    assert (world.upcoming("m-1"), world.request("good")) == before
    assert world.pods_on("m-1") == {"a"}
    assert operator.http("/healthz")[0] == 200
    world.shard.replay = [node_state("m-1", "Configured")]
    await world.serve(port)
    await world.connected(2)
    assert len(world.shard.current.rollups[0].needs) == 1
    assert world.acks() == []


@LONG
async def test_a_drain_goes_on_while_shard_and_api_server_come_and_go(world: Bench) -> None:
    world.start()
    await world.connected()
    world.add_node("m-1")
    world.add_pods("m-1", "a", "b")
    await world.running("m-1", "a", "b")
    world.add_pods("m-1", "web-0", app="web")
    await world.running("m-1", "web-0")
    world.add_budget("web", "web", 1)
    await world.budget_seen("web")
    world.shard.send(node_state("m-1", "Configured"))
    await world.until("Ready", lambda: world.phase("m-1") == "Ready")
    world.shard.send(reclaim("i1", "m-1", grace_s=300))
    await world.until("two left", lambda: world.pods_on("m-1") == {"web-0"})
    await world.hush()
    await world.restart_api_server()
    world.cluster.admin.delete(f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/web")
    await world.until("drained", lambda: world.phase("m-1") == "Drained", 120)


async def test_90_after_a_mix_of_faults_there_is_one_object_per_bound_machine_and_no_cordon_too_many(
    world: Bench,
) -> None:
    world.start()
    await world.connected()
    for number in range(3):
        world.add_node(f"m-{number}")
    world.shard.send(*(node_state(f"m-{number}", "Configured") for number in range(3)))
    await world.until("three", lambda: len(names(world)) == 3)
    world.shard.send(reclaim("i1", "m-0", grace_s=30))
    assert world.operator is not None
    world.operator.kill()
    await world.restart_api_server()
    world.shard.replay = [node_state("m-0", "Configuring"), node_state("m-2", "Configured")]
    world.start()
    await world.connected(2)
    await world.until("two", lambda: names(world) == {"un-m-0", "un-m-2"})
    await world.until("no cordon", lambda: not world.node("m-0")["spec"].get("unschedulable"))
    assert world.marks("m-0") == {}
