"""Reclaim instructions: find the node, cordon it, acknowledge, and drain it within its grace."""

import itertools
from typing import Any

import pytest
from structlog.testing import capture_logs

from bigfleet.kube.resources import NODES, PODS, ObjectKey
from bigfleet.kube.transport import ApiResponse
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.objects import BUDGETS
from tests.support.kube_api.world import pod
from tests.support.scripted_shard import node_state, reclaim
from tests.unit.operator.world import PREFIX, World, play

FORBIDDEN = ApiResponse(
    403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "cannot patch nodes"}
)
BUSY = ApiResponse(500, "busy")


async def bound(world: World, named: str = "m", node: str = "m", *pods: str, **options: Any) -> None:
    """Create a Ready machine with its node and pods."""
    await world.add_node(node, **options)
    await world.add_pods(node, *pods)
    world.shard.send(node_state(named, "Configured", provider_id=options.get("shown_id", "")))
    await world.eventually(lambda: world.phase(named) == "Ready")


def acks(world: World) -> list[tuple[str, int]]:
    return [
        (ack.instruction_id, ack.nodes_started)
        for session in world.shard.sessions
        for ack in session.reclaim_acks
    ]


def marks(world: World, node: str) -> dict[str, str]:
    found = world.node(node)["metadata"].get("annotations") or {}
    return {name.removeprefix(f"{PREFIX}/"): value for name, value in found.items()}


def pods_on(world: World, node: str) -> set[str]:
    return {
        item["metadata"]["name"] for item in world.all(PODS).values() if item["spec"].get("nodeName") == node
    }


async def budget(world: World, name: str, app: str, allowed: int) -> None:
    document = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
    await world.add(BUDGETS, document)


@pytest.mark.rule("operator#reclaim-order", "operator#drain-rounds")
def test_cordon_then_ack_then_the_end_of_the_drain() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a", "b")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 1)], 5)
        assert world.node("m")["spec"]["unschedulable"] is True
        assert {"reclaim-id": "i1", "cordoned-by": "i1"}.items() <= marks(world, "m").items()
        assert pods_on(world, "m") == {"a", "b"}
        assert world.phase("m") == "Draining"
        await world.clock.sleep(8)
        assert world.phase("m") == "Draining"  # 63: evicted pods are still there
        world.api.finish_pod(ObjectKey("shop", "a"))
        world.api.finish_pod(ObjectKey("shop", "b"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        await world.eventually(lambda: "reclaim-deadline" not in marks(world, "m"), 10)
        assert world.node("m")["spec"]["unschedulable"] is True
        assert world.value("drains_total", outcome="drained") == 1
        assert world.calls("POST", "/eviction") == 2
        assert len(world.events("Drained")) == 2
        assert len(world.events("ReclaimStarted")) == 2

    play(scene)


@pytest.mark.rule("operator#reclaim-unresolved")
def test_an_unresolvable_entry_counts_none_and_makes_an_event() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 0)])
        assert world.value("reclaims_total", outcome="unresolved") == 1
        await world.eventually(lambda: len(world.events("ReclaimUnresolved")) == 1)

    play(scene)


@pytest.mark.rule("operator#reclaim-unresolved")
def test_an_unresolved_reclaim_is_one_warning_with_the_next_step_until_it_is_resolved() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        with capture_logs() as lines:
            for number in range(3):
                world.shard.send(reclaim(f"i{number}", "m"))
            await world.eventually(lambda: len(acks(world)) == 3)
        (line,) = [line for line in lines if line["event"] == "reclaim_unresolved"]
        assert (line["log_level"], line["machine"]) == ("warning", "m")
        assert "bigfleet.lucy.sh/machine-id=m" in line["next_step"]
        assert world.value("reclaims_total", outcome="unresolved") == 3
        await world.eventually(lambda: len(world.events("ReclaimUnresolved")) == 1)
        (event,) = world.events("ReclaimUnresolved")
        assert "bigfleet.lucy.sh/machine-id=m" in event["message"]
        await world.add_node("ip-1", machine="m")
        await world.clock.sleep(1)
        world.shard.send(reclaim("i3", "m"))
        await world.eventually(lambda: ("i3", 1) in acks(world))

    play(scene)


def test_a_machine_that_never_joined_is_no_alarm() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configuring"))
        await world.eventually(lambda: world.phase("m") == "Registered")
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 0)])
        assert world.value("reclaims_total", outcome="unresolved") == 0

    play(scene)


@pytest.mark.rule("operator#node-identity", "operator#e20")
@pytest.mark.parametrize("is_first", [True, False], ids=["node first", "UpcomingNode first"])
@pytest.mark.parametrize("node", ["i-1", "i-1.compute.internal", "un-m", "m.rack.example"])
def test_a_node_without_our_label_is_referenced_and_drained_by_the_naming_of_the_cluster(
    node: str, is_first: bool
) -> None:
    async def scene(world: World) -> None:
        if is_first:
            await world.add_node(node)
        world.shard.send(node_state("m", "Configured", provider_id="aws:///z/i-1"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        if not is_first:
            await world.add_node(node)
        await world.add_pods(node, "a")

        def reference() -> Any:
            return (world.upcoming("m") or {})["status"].get("nodeRef", {}).get("name")

        await world.eventually(lambda: reference() == node, 5)
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 1)])
        await world.eventually(lambda: world.phase("m") == "Drained", 20)
        assert pods_on(world, node) == set()

    play(scene)


@pytest.mark.rule("operator#reclaim-unresolved")
def test_two_nodes_that_fit_are_ambiguous_and_no_pod_is_evicted() -> None:
    async def scene(world: World) -> None:
        await world.add_node("ip-1", machine="m")
        await world.add_node("ip-2", machine="m")
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 0)])
        assert world.value("reclaims_total", outcome="ambiguous") == 1
        assert world.calls("PATCH", "/nodes/") == 0

    play(scene)


@pytest.mark.rule("operator#node-identity", "operator#e20")
@pytest.mark.parametrize("how", ["label", "provider id", "target", "node name"])
def test_a_node_named_differently_is_drained(how: str) -> None:
    async def scene(world: World) -> None:
        options: dict[str, Any] = {"machine": "m"} if how == "label" else {"provider_id": "aws:///z/i-1"}
        shown = {"shown_id": "i-1"} if how in ("provider id", "node name") else {}
        await bound(world, "m", "ip-1", "a", **options, **shown)
        await world.clock.sleep(1)
        match how:
            case "target":
                world.shard.send(reclaim("i1", "m", machines=["m"], provider_ids=["i-1"]))
            case "node name":
                world.shard.send(reclaim("i1", "ip-1"))
            case _:
                world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 1)])
        await world.eventually(lambda: world.phase("m") == "Drained", 20)
        assert pods_on(world, "ip-1") == set()

    play(scene)


@pytest.mark.rule("operator#drain-rounds")
def test_pods_leave_by_eviction_only() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a", "b", "c")
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: world.phase("m") == "Drained", 20)
        assert world.calls("POST", "/eviction") == 3
        assert world.calls("DELETE", "/pods/") == 0

    play(scene)


@pytest.mark.rule("operator#evict-budget", "operator#drain-end")
def test_a_budget_gives_rounds_two_seconds_apart_and_freed_it_drains() -> None:
    async def scene(world: World) -> None:
        await bound(world)
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "web", "web", 0)
        world.shard.send(reclaim("i1", "m", grace_s=60))
        await world.clock.sleep(20.5)
        tries = [when / 1e9 for when, call in world.transport.calls if "/eviction" in call.path]
        assert len(tries) == 11
        gaps = [later - sooner for sooner, later in itertools.pairwise(tries)]
        assert all(gap == pytest.approx(2.0, abs=0.01) for gap in gaps)
        await world.patch(BUDGETS, ObjectKey("shop", "web"), {"status": {"disruptionsAllowed": 1}})
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        assert world.value("evictions_total", answer="429-budget") == 11
        assert world.value("evictions_total", answer="201-accepted") == 1

    play(scene)


@pytest.mark.rule("operator#evict-budget", "operator#drain-end")
def test_a_budget_that_never_frees_ends_failed_with_the_pods_name_and_the_cordon() -> None:
    async def scene(world: World) -> None:
        await bound(world)
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "web", "web", 0)
        world.shard.send(reclaim("i1", "m", grace_s=30))
        began_s = world.now_s
        await world.eventually(lambda: world.phase("m") == "Failed", 60)
        assert 30 <= world.now_s - began_s <= 33
        error = (world.upcoming("m") or {})["status"]["lastError"]
        assert "shop/web-0" in error
        assert "disruption budget" in error
        assert world.node("m")["spec"]["unschedulable"] is True
        await world.eventually(lambda: "reclaim-deadline" not in marks(world, "m"))
        assert "reclaim-id" in marks(world, "m")
        assert world.value("drains_total", outcome="deadline") == 1
        world.shard.send(node_state("m", "Draining"))
        await world.clock.sleep(3)
        assert world.phase("m") == "Failed"  # `operator#un-order`

    play(scene)


@pytest.mark.rule("operator#drain-rounds")
def test_pods_that_stay_by_nature_do_not_hold_up_success() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        agent, mirror = pod("agent", node="m"), pod("static", node="m")
        agent["metadata"]["ownerReferences"] = [
            {"kind": "DaemonSet", "controller": True, "name": "d", "uid": "x"}
        ]
        mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        await world.add(PODS, agent)
        await world.add(PODS, mirror)
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        assert pods_on(world, "m") == {"agent", "static"}

    play(scene)


@pytest.mark.rule("operator#grace")
@pytest.mark.parametrize(("grace_s", "seconds"), [(0, 30), (-5, 30), (10, 10)])
def test_the_grace_is_the_limit_and_none_is_half_a_minute(grace_s: int, seconds: int) -> None:
    async def scene(world: World) -> None:
        await bound(world)
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "web", "web", 0)
        world.shard.send(reclaim("i1", "m", grace_s=grace_s))
        began_s = world.now_s
        await world.eventually(lambda: world.phase("m") == "Failed", 60)
        assert seconds <= world.now_s - began_s <= seconds + 3

    play(scene)


@pytest.mark.rule("operator#drain-rounds")
def test_two_nodes_of_one_instruction_drain_side_by_side() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m1", "m1", "a")
        await bound(world, "m2", "m2", "b")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m1", "m2"))
        await world.eventually(lambda: acks(world) == [("i1", 2)])
        await world.eventually(lambda: world.calls("POST", "/eviction") == 2, 3)

    play(scene)


@pytest.mark.rule("operator#drain-outlives-session")
def test_ending_the_session_does_not_end_the_drain() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m", grace_s=120))
        await world.eventually(lambda: bool(acks(world)))
        await world.stop_shard()
        world.api.finish_pod(ObjectKey("shop", "a"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)

    play(scene)


@pytest.mark.rule("operator#second-instruction")
def test_a_second_instruction_starts_no_second_drain_and_only_tightens() -> None:
    async def scene(world: World) -> None:
        await bound(world)
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "web", "web", 0)
        world.shard.send(reclaim("i1", "m", grace_s=60))
        await world.eventually(lambda: len(acks(world)) == 1)
        first, began_s = marks(world, "m")["reclaim-deadline"], world.now_s
        world.shard.send(reclaim("i2", "m", grace_s=600))
        await world.eventually(lambda: acks(world) == [("i1", 1), ("i2", 1)])
        assert marks(world, "m")["reclaim-deadline"] == first
        world.shard.send(reclaim("i3", "m", grace_s=10))
        await world.eventually(lambda: len(acks(world)) == 3)
        assert marks(world, "m")["reclaim-deadline"] < first
        await world.eventually(lambda: world.phase("m") == "Failed", 60)
        assert world.now_s - began_s <= 14
        assert world.value("drains_total", outcome="deadline") == 1

    play(scene)


@pytest.mark.rule("operator#evict-several-budgets")
def test_two_budgets_on_one_pod_let_the_others_go_and_name_the_cause() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "free")
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "one", "web", 1)
        await budget(world, "two", "web", 1)
        world.shard.send(reclaim("i1", "m", grace_s=30))
        await world.eventually(lambda: world.phase("m") == "Failed", 60)
        assert "more than one PodDisruptionBudget" in (world.upcoming("m") or {})["status"]["lastError"]
        assert pods_on(world, "m") == {"web-0"}
        assert world.calls("POST", "web-0/eviction") <= 4

    play(scene)


@pytest.mark.rule("operator#d1")
def test_a_node_that_is_gone_is_not_counted_and_others_go_on() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m1", "m1", "a")
        world.shard.send(reclaim("i1", "gone", "m1"))
        await world.eventually(lambda: acks(world) == [("i1", 1)])
        await world.eventually(lambda: world.phase("m1") == "Drained", 10)

    play(scene)


@pytest.mark.rule("operator#d2")
def test_a_refused_cordon_fails_the_object_and_is_not_counted() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        world.transport.add(Fault(FORBIDDEN, times=10**6, method="PATCH", path="/nodes/"))
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: acks(world) == [("i1", 0)], 7)
        await world.eventually(lambda: world.phase("m") == "Failed")
        assert "cannot patch nodes" in (world.upcoming("m") or {})["status"]["lastError"]
        assert world.value("reclaims_total", outcome="cordon_failed") == 1
        assert pods_on(world, "m") == {"a"}

    play(scene)


@pytest.mark.rule("operator#d2")
def test_a_cordon_that_fails_for_three_seconds_lands_and_is_counted() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        fault = world.transport.add(Fault(BUSY, times=10**6, method="PATCH", path="/nodes/"))
        world.shard.send(reclaim("i1", "m"))
        await world.clock.sleep(3)
        fault.times = 0
        await world.eventually(lambda: acks(world) == [("i1", 1)], 3)
        await world.eventually(lambda: world.phase("m") == "Drained", 10)

    play(scene)


def test_a_cordon_that_takes_longer_is_acked_without_and_drained_all_the_same() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        fault = world.transport.add(Fault(BUSY, times=10**6, method="PATCH", path="/nodes/"))
        world.shard.send(reclaim("i1", "m", grace_s=60))
        await world.eventually(lambda: acks(world) == [("i1", 0)], 7)
        assert pods_on(world, "m") == {"a"}
        await world.clock.sleep(5)
        fault.times = 0
        await world.eventually(lambda: world.phase("m") == "Drained", 30)

    play(scene)


@pytest.mark.rule("operator#d3")
def test_a_new_pod_of_the_same_name_is_not_evicted_by_the_old_request() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "web-0")
        await world.add_node("other")
        old = world.all(PODS)["shop/web-0"]["metadata"]["uid"]
        inner = world.transport.send

        async def replaced_first(call: Any) -> Any:
            # Between the list and the eviction the StatefulSet creates its pod again, on another node.
            if "/eviction" in call.path and world.all(PODS)["shop/web-0"]["metadata"]["uid"] == old:
                world.api.finish_pod(ObjectKey("shop", "web-0"))
                await world.add_pods("other", "web-0")
            return await inner(call)

        world.transport.send = replaced_first  # type: ignore[method-assign]
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        assert pods_on(world, "other") == {"web-0"}
        assert world.value("evictions_total", answer="409-replaced") == 1

    play(scene)


@pytest.mark.rule("operator#d4")
def test_the_api_server_away_in_mid_drain_and_at_the_last_write_loses_nothing() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m", grace_s=300))
        await world.eventually(lambda: bool(acks(world)))
        world.transport.add(Fault(Trouble.BREAK, times=10**6))
        await world.clock.sleep(20)
        world.api.finish_pod(ObjectKey("shop", "a"))
        await world.clock.sleep(20)
        assert world.phase("m") == "Draining"
        world.transport.heal()
        world.transport.add(Fault(BUSY, times=5, method="PATCH", path="upcomingnodes"))
        await world.eventually(lambda: world.phase("m") == "Drained", 60)

    play(scene)


@pytest.mark.rule("operator#serving-ends-reclaim")
@pytest.mark.parametrize("state", ["Configuring", "Configured"])
def test_a_machine_that_serves_after_all_is_uncordoned_and_its_pods_stay(state: str) -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "free")
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "web", "web", 0)
        world.shard.send(reclaim("i1", "m", grace_s=600), node_state("m", "Draining"))
        await world.eventually(lambda: pods_on(world, "m") == {"web-0"}, 10)
        # The provider could not be called, so the shard takes it back (ADR-0165).
        world.shard.send(node_state("m", state))
        await world.eventually(lambda: not world.node("m")["spec"].get("unschedulable"), 10)
        asked = world.calls("POST", "/eviction")
        await world.clock.sleep(700)
        assert world.calls("POST", "/eviction") == asked
        assert marks(world, "m") == {}
        assert world.phase("m") == ("Ready" if state == "Configured" else "Registered")

    play(scene)


@pytest.mark.rule("operator#serving-ends-reclaim")
def test_a_new_life_of_which_the_beginning_was_missed_is_not_cordoned() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        world.shard.send(reclaim("i1", "m", grace_s=600), node_state("m", "Draining"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        await world.stop_operator()
        world.shard.replay = [node_state("m", "Configured")]
        world.start_operator()
        await world.eventually(lambda: not world.node("m")["spec"].get("unschedulable"), 10)
        await world.eventually(lambda: world.phase("m") == "Ready", 10)
        assert marks(world, "m") == {}

    play(scene)


def test_a_shard_that_is_gone_for_minutes_in_mid_drain_finds_no_pod_evicted_twice_and_nothing_left() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a", "b")
        await bound(world, "n", "n", "c")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m", grace_s=120), node_state("m", "Draining"))
        await world.eventually(lambda: world.calls("POST", "/eviction") == 2, 5)
        await world.stop_shard()
        await world.clock.sleep(60)
        for name in ("a", "b"):
            world.api.finish_pod(ObjectKey("shop", name))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        before = (world.upcoming("n"), world.node("n"))
        await world.clock.sleep(600)
        assert (world.upcoming("n"), world.node("n")) == before
        world.shard.replay = [node_state("n", "Configured", provider_id="p-n")]  # m has left meanwhile
        await world.start_shard()
        await world.eventually(lambda: world.phase("m") == "gone", 60)
        assert world.shard.current.rollups
        assert (world.upcoming("n") or {})["status"]["phase"] == "Ready"
        assert world.calls("POST", "/eviction") == 2
        assert pods_on(world, "n") == {"c"}

    play(scene)


@pytest.mark.rule("operator#d2")
def test_a_cordon_that_comes_too_late_leaves_no_deadline_behind() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        world.transport.add(Fault(Trouble.LOSE_ANSWER, times=10**6, method="PATCH", path="/nodes/"))
        world.shard.send(reclaim("i1", "m", grace_s=20))
        await world.eventually(lambda: world.phase("m") == "Failed", 40)
        assert acks(world) == [("i1", 0)]
        await world.eventually(lambda: "reclaim-deadline" not in marks(world, "m"), 20)
        assert pods_on(world, "m") == {"a"}

    play(scene)


@pytest.mark.rule("operator#d5")
@pytest.mark.parametrize("reclaim_first", [True, False])
def test_reclaim_and_configuring_in_both_orders_end_in_stream_order(reclaim_first: bool) -> None:
    async def scene(world: World) -> None:
        await bound(world)
        await world.add_pods("m", "web-0", app="web")
        await budget(world, "web", "web", 0)
        frames = [reclaim("i1", "m", grace_s=600), node_state("m", "Configuring")]
        world.shard.send(*(frames if reclaim_first else frames[::-1]))
        await world.clock.sleep(10)
        assert bool(world.node("m")["spec"].get("unschedulable")) is not reclaim_first
        assert world.phase("m") == ("Registered" if reclaim_first else "Draining")
        assert world.operator is not None
        assert (world.operator.drains.on("m") is None) is reclaim_first

    play(scene)


@pytest.mark.rule("operator#d7")
def test_a_terminating_namespace_is_waited_for() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        cause = {"reason": "NamespaceTerminating"}
        ending = {
            "kind": "Status",
            "code": 403,
            "reason": "Forbidden",
            "message": "x",
            "details": {"causes": [cause]},
        }
        world.transport.add(Fault(ApiResponse(403, ending), times=10**6, path="/eviction"))
        world.shard.send(reclaim("i1", "m", grace_s=60))
        await world.clock.sleep(10)
        assert world.phase("m") == "Draining"
        world.api.finish_pod(ObjectKey("shop", "a"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)

    play(scene)


def test_a_missing_right_ends_the_drain_once_it_is_believed() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        world.transport.add(Fault(FORBIDDEN, times=10**6, path="/eviction"))
        world.shard.send(reclaim("i1", "m", grace_s=600))
        await world.eventually(lambda: world.phase("m") == "Failed", 15)
        assert world.value("drains_total", outcome="refused") == 1

    play(scene)


def test_refusals_of_an_api_server_that_has_just_started_are_waited_out() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        fault = world.transport.add(Fault(FORBIDDEN, times=10**6, watch=False))
        world.shard.send(reclaim("i1", "m", grace_s=60), node_state("n", "Configured"))
        await world.clock.sleep(2.5)
        fault.times = 0
        await world.eventually(lambda: acks(world) == [("i1", 1)], 5)
        again = world.transport.add(Fault(FORBIDDEN, times=2, path="/eviction"))
        await world.eventually(lambda: world.phase("m") == "Drained", 30)
        assert again.hits <= 2
        await world.eventually(lambda: world.phase("n") == "Ready", 15)

    play(scene)


def test_a_cordon_of_another_actor_is_not_claimed() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a", cordoned=True)
        world.shard.send(reclaim("i1", "m"))
        await world.eventually(lambda: world.phase("m") == "Drained", 10)
        assert "cordoned-by" not in marks(world, "m")

    play(scene)


def test_a_node_without_an_object_is_drained_all_the_same() -> None:
    async def scene(world: World) -> None:
        await world.add_node("n")
        await world.add_pods("n", "a")
        await world.clock.sleep(1)
        world.shard.send(reclaim("i1", "n"))
        await world.eventually(lambda: acks(world) == [("i1", 1)])
        await world.eventually(lambda: pods_on(world, "n") == set(), 10)
        await world.eventually(lambda: "reclaim-deadline" not in marks(world, "n"), 10)

    play(scene)


@pytest.mark.rule("operator#d6")
def test_a_deadline_that_passed_while_no_operator_ran_fails_at_start() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a")
        await world.stop_operator()
        past = {f"{PREFIX}/reclaim-id": "i", f"{PREFIX}/reclaim-deadline": "2029-01-01T00:00:00Z"}
        await world.patch(NODES, ObjectKey("", "m"), {"metadata": {"annotations": past}})
        world.shard.replay = [node_state("m", "Draining")]
        world.start_operator()
        await world.eventually(lambda: world.phase("m") == "Failed", 10)
        assert world.calls("POST", "/eviction") == 0
        assert "reclaim-deadline" not in marks(world, "m")

    play(scene)


def test_a_cordon_alone_never_starts_a_drain() -> None:
    async def scene(world: World) -> None:
        await world.add_node("n", cordoned=True)
        await world.add_pods("n", "a")
        await world.clock.sleep(30)
        assert pods_on(world, "n") == {"a"}

    play(scene)


CUTS = range(14)


@pytest.mark.rule("operator#drain-resumed")
@pytest.mark.parametrize("cut", CUTS)
def test_killed_after_any_call_of_a_drain_the_next_process_finishes_and_evicts_no_pod_twice(
    cut: int,
) -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", "a", "b")
        world.api.pods_linger = True
        evicted: list[str] = []
        inner = world.api._evict

        def noted(key: ObjectKey, body: dict[str, Any]) -> dict[str, Any]:
            evicted.append(key.name)
            return inner(key, body)

        world.api._evict = noted  # type: ignore[method-assign]
        done = len(world.transport.calls)
        world.shard.send(reclaim("i1", "m", grace_s=40))
        for _ in range(4000):
            writes = [call for _, call in world.transport.calls[done:] if call.method != "GET"]
            if len(writes) >= cut // 2:
                break
            await world.clock.sleep(0.001)
        # Odd cuts kill before the answer of the last call was heard, even ones after.
        if cut % 2:
            await world.clock.sleep(0)
        world.transport.add(Fault(Trouble.BREAK, times=10**9))
        await world.stop_operator()
        world.shard.replay = [node_state("m", "Draining")]
        if not world.node("m")["spec"].get("unschedulable"):
            return  # it never came to the cordon; the shard takes the machine anyway
        world.start_operator()
        await world.eventually(lambda: set(evicted) == {"a", "b"}, 45)
        await world.clock.sleep(3)
        for name in ("a", "b"):
            if name in pods_on(world, "m"):
                world.api.finish_pod(ObjectKey("shop", name))
        await world.eventually(lambda: world.phase("m") in ("Drained", "gone"), 60)
        await world.eventually(lambda: "reclaim-deadline" not in marks(world, "m"), 10)
        assert sorted(evicted) == ["a", "b"]

    play(scene)


def test_a_stop_lets_an_eviction_under_way_finish_and_begins_no_other() -> None:
    async def scene(world: World) -> None:
        await bound(world, "m", "m", *(f"p{number:02d}" for number in range(40)))
        finished: list[str] = []
        inner = world.transport.send

        async def slow(call: Any) -> Any:
            if "/eviction" not in call.path:
                return await inner(call)
            await world.clock.sleep(3)
            answer = await inner(call)
            finished.append(call.path)
            return answer

        world.transport.send = slow  # type: ignore[method-assign]
        world.shard.send(reclaim("i1", "m", grace_s=600))
        await world.eventually(lambda: bool(acks(world)))
        await world.clock.sleep(1)
        began_s = world.now_s
        await world.stop_operator()
        assert world.now_s - began_s <= 10
        assert len(finished) == 16  # all that were under way, and none of the others
        assert len(pods_on(world, "m")) == 24

    play(scene)
