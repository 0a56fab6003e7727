"""Reclaims before the real API server: cordon, eviction with real budgets, the end, and every crash in between."""

import asyncio

import pytest

from bigfleet.testing.scripted_shard import node_state, reclaim
from tests.e2e.operator.harness import NODES, PREFIX, Bench

pytestmark = pytest.mark.asyncio


async def bound(world: Bench, machine: str, node: str, *pods: str, **options: object) -> None:
    """Have a Ready machine with its node and running pods."""
    world.add_node(node, **options)
    world.shard.send(node_state(machine, "Configured", provider_id=f"host-{machine}"))
    await world.until("Ready", lambda: world.phase(machine) == "Ready")
    if pods:
        world.add_pods(node, *pods)
        await world.running(node, *pods)


async def test_57_60_63_cordon_ack_and_then_the_drain_by_eviction_alone(world: Bench) -> None:
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


@pytest.mark.parametrize("how", ["label", "provider id"])
async def test_59_and_e20_a_node_named_differently_is_drained(world: Bench, how: str) -> None:
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


async def test_61_a_budget_answers_429_until_it_is_relaxed(world: Bench) -> None:
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


async def test_61_64_70_time_up_is_failed_with_the_pods_names_and_the_node_stays_cordoned(
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
    world.shard.send(reclaim("i1", "m-1", grace_s=10))
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


async def test_62_daemonset_pods_stay_and_do_not_hold_up_success(world: Bench) -> None:
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


async def test_69_and_e22_a_machine_that_comes_back_is_uncordoned_but_not_from_a_persons_cordon(
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


STEPS = ("cordoned", "evicted")
MORE_STEPS = ("acked", "evicting", "empty", "drained")


@pytest.mark.parametrize(
    "step", [*STEPS, *(pytest.param(step, marks=pytest.mark.long) for step in MORE_STEPS)]
)
async def test_67_killed_at_each_step_of_a_drain_the_next_process_finishes_and_evicts_nobody_twice(
    world: Bench, step: str
) -> None:
    operator = world.start()
    await world.connected()
    await bound(world, "m-1", "m-1", "a", "b")
    before = len(world.calls("create", "pods", "eviction"))
    if step in ("cordoned", "acked", "evicting"):
        # Held up by a budget, so that the moment does not slip away.
        world.cluster.admin.patch(f"{world.pods}/b", {"metadata": {"labels": {"app": "held"}}})
        world.add_budget("held", "held", 1)
        await world.budget_seen("held")
    world.shard.send(reclaim("i1", "m-1", grace_s=60))
    conditions = {
        "cordoned": lambda: bool(world.node("m-1")["spec"].get("unschedulable")),
        "acked": lambda: bool(world.acks()),
        "evicting": lambda: "a" not in world.pods_on("m-1"),
        "evicted": lambda: len(world.calls("create", "pods", "eviction")) >= before + 2,
        "empty": lambda: not world.pods_on("m-1"),
        "drained": lambda: world.phase("m-1") == "Drained",
    }
    await world.until(step, conditions[step])
    operator.kill()
    deadline = world.marks("m-1").get("reclaim-deadline")
    world.shard.replay = [node_state("m-1", "Draining", provider_id="host-m-1")]
    world.start()
    await world.connected(2)
    if step in ("cordoned", "acked", "evicting"):
        assert world.marks("m-1").get("reclaim-deadline") == deadline
        world.cluster.admin.delete(f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/held")
    await world.until("drained", lambda: world.phase("m-1") == "Drained")
    await world.until("no deadline left", lambda: "reclaim-deadline" not in world.marks("m-1"))
    assert world.pods_on("m-1") == set()
    accepted = [
        event.name
        for event in world.cluster.audit_events("operator")
        if event.subresource == "eviction" and event.code == 201 and event.namespace == world.namespace
    ]
    assert sorted(accepted) == ["a", "b"]
    world.shard.send(node_state("m-1", "Idle"))
    await world.until("gone", lambda: world.phase("m-1") == "gone")


async def test_d6_a_deadline_that_passed_while_nobody_ran_fails_at_start(world: Bench) -> None:
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
