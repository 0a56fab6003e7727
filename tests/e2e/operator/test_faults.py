"""A real operator through crashes, restarts, conflict storms and absences: it converges and leaks nothing."""

import pytest

from tests.e2e.operator.harness import UPCOMING, Bench, KillAt, front
from tests.support.kube_api.http import HttpFault
from tests.support.scripted_shard import node_state, reclaim

pytestmark = pytest.mark.asyncio

CONFLICT = '{"kind":"Status","apiVersion":"v1","code":409,"reason":"Conflict","message":"the object has been modified"}'


def names(world: Bench) -> set[str]:
    return {item["metadata"]["name"] for item in world.cluster.admin.get(UPCOMING)["items"]}


LONG = pytest.mark.long


async def send_states(world: Bench, machine: str, *states: str) -> None:
    """Send the states of a machine one by one, each after the last was written; return early when the operator is dead."""
    assert world.operator is not None
    for number, state in enumerate(states):
        labels = {"turn": str(number)}
        world.shard.send(node_state(machine, state, labels=labels, resources={"cpu": "8"}))
        await world.until_killed_or(state, lambda wanted=PHASES[state]: world.phase(machine) == wanted)  # type: ignore[misc]
        if world.operator.code is not None:
            return


PHASES = {"Configuring": "Registered", "Configured": "Ready", "Idle": "gone"}
CUTS = [(1, "leaves"), (2, "stays"), (3, "leaves"), (3, "stays"), (4, "leaves"), (4, "stays"), (5, "leaves")]


@pytest.mark.rule("operator#n5")
@pytest.mark.parametrize("cuts", [CUTS[:2], pytest.param(CUTS[2:], marks=LONG)], ids=["some", "others"])
async def test_killed_right_after_any_write_of_an_upcoming_node_none_is_lost_and_none_leaks(
    world: Bench, cuts: list[tuple[int, str]]
) -> None:
    # Create, status, spec, status, delete: the nth is carried out, and the operator is dead before it hears of it.
    async with front(world) as (server, config):
        world.start(kubeconfig=config)
        await world.connected()
        for nth, then in cuts:
            machine = f"m-{nth}-{then}"
            kill = KillAt(world, nth)
            server.on_carried_out = kill
            await send_states(world, machine, "Configuring", "Configured", "Idle")
            assert world.operator is not None
            assert world.operator.code == -9, kill.writes
            world.shard.replay = [node_state(machine, "Configured")] if then == "stays" else []
            sessions = len(world.shard.sessions)
            world.start(kubeconfig=config)
            await world.connected(sessions + 1)
            if then == "stays":
                await world.until("it is Ready", lambda one=machine: world.phase(one) == "Ready")  # type: ignore[misc]
                assert names(world) == {f"un-{machine}"}
                world.shard.send(node_state(machine, "Idle"))
            await world.until("nothing is left", lambda: not names(world))


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


@pytest.mark.rule("operator#c4", "operator#n1")
async def test_conflict_storms_and_expired_watches_lose_nothing(world: Bench) -> None:
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


@pytest.mark.rule("operator#u3")
@LONG
async def test_busy_and_broken_answers_slow_it_down_and_lose_nothing(world: Bench) -> None:
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


@pytest.mark.rule("operator#e3")
async def test_with_the_shard_gone_nothing_changes_and_then_a_rollup_comes_at_once(world: Bench) -> None:
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
    await world.until("several dials", lambda: world.metric(series) >= 3)
    assert (world.upcoming("m-1"), world.request("good")) == before
    assert world.pods_on("m-1") == {"a"}
    assert operator.http("/healthz")[0] == 200
    world.shard.replay = [node_state("m-1", "Configured")]
    await world.serve(port)
    await world.connected(2)
    assert len(world.shard.current.rollups[0].needs) == 1
    assert world.acks() == []


@pytest.mark.rule("operator#d4")
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


@pytest.mark.rule("operator#convergence")
async def test_after_a_mix_of_faults_there_is_one_object_per_bound_machine_and_no_cordon_too_many(
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
