"""Reclaims on the real API server: cordon, eviction with real budgets, the end, and every crash in between."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.e2e.operator.harness import NODES, PREFIX, Bench, KillAt, front
from tests.support.scripted_shard import node_state, reclaim

pytestmark = pytest.mark.asyncio


async def bound(world: Bench, machine: str, node: str, *pods: str, **options: object) -> None:
    """Create a Ready machine with its node and running pods."""
    world.add_node(node, **options)
    world.shard.send(node_state(machine, "Configured", provider_id=f"host-{machine}"))
    await world.until("Ready", lambda: world.phase(machine) == "Ready")
    if pods:
        world.add_pods(node, *pods)
        await world.running(node, *pods)


@pytest.mark.rule("operator#reclaim-order", "operator#drain-rounds")
async def test_cordon_ack_and_then_the_drain_by_eviction_alone(world: Bench) -> None:
    world.start()
    await world.connected()
    await bound(world, "m-1", "m-1", "a", "b")
    world.shard.send(reclaim("i1", "m-1", grace_s=60))
    await world.until("the ack", lambda: world.acks() == [("i1", 1)])
    assert world.node("m-1")["spec"]["unschedulable"] is True
    assert world.marks("m-1")["cordoned-by"] == "i1"
    await world.until("drained", lambda: world.phase("m-1") == "Drained")
    assert world.pods_on("m-1") == set()
    await world.until("no deadline left", lambda: "reclaim-deadline" not in world.marks("m-1"))
    assert world.node("m-1")["spec"]["unschedulable"] is True
    assert sorted(world.calls("create", "pods", "eviction"))[-2:] == ["a", "b"]
    assert world.calls("delete", "pods") == []
    assert world.metric('bigfleet_operator_drains_total{outcome="drained"}') == 1
    world.shard.send(node_state("m-1", "Idle"))
    await world.until("gone", lambda: world.phase("m-1") == "gone")


@pytest.mark.rule("operator#node-identity", "operator#e20")
@pytest.mark.parametrize("how", ["label", "provider id"])
async def test_a_node_named_differently_is_drained(world: Bench, how: str) -> None:
    world.start()
    await world.connected()
    if how == "label":
        await bound(world, "m-1", "ip-1", "a", labels={f"{PREFIX}/machine-id": "m-1"})
    else:
        await bound(world, "m-1", "ip-1", "a", provider_id="cloud:///z/host-m-1")
    world.shard.send(reclaim("i1", "m-1", machines=["m-1"]))
    await world.until("the ack", lambda: world.acks() == [("i1", 1)])
    await world.until("drained", lambda: world.phase("m-1") == "Drained")
    assert world.pods_on("ip-1") == set()


@pytest.mark.rule("operator#evict-budget", "operator#drain-end", "operator#e12")
async def test_a_budget_answers_429_until_it_is_relaxed(world: Bench) -> None:
    world.start()
    await world.connected()
    await bound(world, "m-1", "m-1")
    world.add_pods("m-1", "web-0", app="web")
    await world.running("m-1", "web-0")
    world.add_budget("web", "web", 1)
    await world.budget_seen("web")
    world.shard.send(reclaim("i1", "m-1", grace_s=120))
    series = 'bigfleet_operator_evictions_total{answer="429-budget"}'
    await world.until("two rounds", lambda: world.metric(series) >= 2)
    assert world.pods_on("m-1") == {"web-0"}
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/web"
    world.cluster.admin.patch(path, {"spec": {"minAvailable": 0}})
    await world.until("drained", lambda: world.phase("m-1") == "Drained")


@pytest.mark.rule(
    "operator#evict-budget",
    "operator#drain-end",
    "operator#grace",
    "operator#evict-several-budgets",
    "operator#e12",
)
async def test_time_up_is_failed_with_the_pods_names_and_the_node_stays_cordoned(
    world: Bench,
) -> None:
    world.start()
    await world.connected()
    await bound(world, "m-1", "m-1", "free")
    world.add_pods("m-1", "web-0", app="web")
    world.add_pods("m-1", "two-0", app="two")
    await world.running("m-1", "web-0", "two-0")
    world.add_budget("web", "web", 1)
    for name in ("one", "another"):
        world.add_budget(name, "two", 0)
        await world.budget_seen(name)
    await world.budget_seen("web")
    world.shard.send(reclaim("i1", "m-1", grace_s=5))
    await world.until("failed", lambda: world.phase("m-1") == "Failed")
    error = world.error("m-1")
    assert f"{world.namespace}/web-0" in error
    assert "disruption budget" in error
    assert f"{world.namespace}/two-0" in error
    assert "more than one PodDisruptionBudget" in error
    assert world.pods_on("m-1") == {"web-0", "two-0"}
    assert world.node("m-1")["spec"]["unschedulable"] is True
    await world.until("no deadline left", lambda: "reclaim-deadline" not in world.marks("m-1"))
    await world.until("an event", lambda: "DrainFailed" in world.cluster.kubectl("get", "events", "-A"))


@pytest.mark.rule("operator#drain-rounds")
async def test_daemonset_pods_stay_and_do_not_hold_up_success(world: Bench) -> None:
    world.start()
    await world.connected()
    labels = {"agents": world.namespace}
    await bound(world, "m-1", "m-1", "a", labels=labels)
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "nodeSelector": labels,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "registry.example/none"}],
        },
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
    world.cluster.admin.post(f"/apis/apps/v1/namespaces/{world.namespace}/daemonsets", body)
    await world.until("the agent", lambda: len(world.pods_on("m-1")) == 2)
    world.shard.send(reclaim("i1", "m-1"))
    await world.until("drained", lambda: world.phase("m-1") == "Drained")
    (left,) = world.pods_on("m-1")
    assert left.startswith("agent-")
    world.cluster.admin.delete(f"/apis/apps/v1/namespaces/{world.namespace}/daemonsets/agent")


@pytest.mark.rule("operator#serving-ends-reclaim", "operator#e22")
async def test_a_machine_that_comes_back_is_uncordoned_but_not_from_a_persons_cordon(
    world: Bench,
) -> None:
    world.start()
    await world.connected()
    await bound(world, "m-1", "m-1")
    world.add_node("m-2")
    world.cluster.admin.patch(f"{NODES}/m-2", {"spec": {"unschedulable": True}})
    world.shard.send(reclaim("i1", "m-1"))
    await world.until("drained", lambda: world.phase("m-1") == "Drained")
    world.shard.send(node_state("m-1", "Configuring"), node_state("m-2", "Configuring"))
    await world.until("both", lambda: world.phase("m-1") == world.phase("m-2") == "Registered")
    await world.until("lifted", lambda: not world.node("m-1")["spec"].get("unschedulable"))
    assert world.marks("m-1") == {}
    assert world.node("m-2")["spec"]["unschedulable"] is True


# What a drain of two pods writes, in this order: cordon, Draining, two evictions, Drained, the deadline taken off.
CUTS = ("cordoned", "draining", "one evicted", "both evicted", "drained", "deadline off")


@pytest.mark.rule("operator#drain-resumed", "operator#d8")
@pytest.mark.parametrize(
    "cuts", [CUTS[::2], pytest.param(CUTS[1::2], marks=pytest.mark.long)], ids=["some", "others"]
)
async def test_killed_right_after_any_write_of_a_drain_the_next_process_finishes_and_evicts_no_pod_twice(
    world: Bench, cuts: Sequence[str]
) -> None:
    async with front(world) as (server, config):
        world.start(kubeconfig=config)
        await world.connected()
        for cut in cuts:
            nth = CUTS.index(cut) + 1
            machine, pods = f"m-{nth}", (f"a-{nth}", f"b-{nth}")
            await bound(world, machine, machine, *pods)
            await world.until("its node is noted", lambda one=machine: world.node_noted(one))  # type: ignore[misc]
            kill = KillAt(world, nth)
            server.on_carried_out = kill
            world.shard.send(reclaim(f"i{nth}", machine, grace_s=60))
            await world.until_killed_or("killed", lambda: False)
            assert len(kill.writes) >= nth
            deadline = world.marks(machine).get("reclaim-deadline")
            assert bool(deadline) is (cut != "deadline off")
            world.shard.replay = [node_state(machine, "Draining", provider_id=f"host-{machine}")]
            sessions = len(world.shard.sessions)
            world.start(kubeconfig=config)
            await world.connected(sessions + 1)
            await world.until("drained", lambda one=machine: world.phase(one) == "Drained")  # type: ignore[misc]
            await world.until(
                "no deadline left",
                lambda one=machine: "reclaim-deadline" not in world.marks(one),  # type: ignore[misc]
            )
            assert world.pods_on(machine) == set()
            assert world.node(machine)["spec"]["unschedulable"] is True
            assert set(pods) <= set(accepted(world))
            world.shard.send(node_state(machine, "Idle"))
            await world.until("gone", lambda one=machine: world.phase(one) == "gone")  # type: ignore[misc]
            world.shard.replay = []
        asked = accepted(world)
        assert len(asked) == len(set(asked)) == 2 * len(cuts)


def accepted(world: Bench) -> list[str]:
    """Return the pods whose eviction the API server accepted, from the audit log."""
    return [
        event.name
        for event in world.cluster.audit_events("operator")
        if event.subresource == "eviction" and event.code == 201 and event.namespace == world.namespace
    ]


@pytest.mark.rule("operator#d6")
async def test_a_deadline_that_passed_while_no_operator_ran_fails_at_start(world: Bench) -> None:
    operator = world.start()
    await world.connected()
    await bound(world, "m-1", "m-1", "a")
    assert await asyncio.to_thread(operator.end) == 0
    past = {f"{PREFIX}/reclaim-id": "i1", f"{PREFIX}/reclaim-deadline": "2020-01-01T00:00:00Z"}
    world.cluster.admin.patch(f"{NODES}/m-1", {"metadata": {"annotations": past}})
    world.shard.replay = [node_state("m-1", "Draining", provider_id="host-m-1")]
    world.start()
    await world.until("failed", lambda: world.phase("m-1") == "Failed")
    assert world.pods_on("m-1") == {"a"}
