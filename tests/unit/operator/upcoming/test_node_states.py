"""Node states become UpcomingNodes, through all faults of the API server."""

from typing import Any

import pytest

from bigfleet.kube.resources import NODES, UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import ApiResponse, Document
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.scripted_shard import node_state
from tests.unit.operator.world import PREFIX, World, play

CONFLICT = ApiResponse(409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "moved on"})
BUSY = ApiResponse(500, "busy")


def writes(world: World) -> int:
    return sum(world.calls(method, "upcomingnodes") for method in ("POST", "PATCH", "DELETE"))


@pytest.mark.rule("operator#phases")
@pytest.mark.parametrize(
    ("state", "phase"),
    [("Configuring", "Registered"), ("Configured", "Ready"), ("Draining", "Draining"), ("Failed", "Failed")],
)
def test_a_state_gives_its_phase_under_the_machines_name(state: str, phase: str) -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m-1", state, last_error="boom", provider_id="p-1"))
        await world.eventually(lambda: world.phase("m-1") == phase)
        status = world.all(UPCOMING_NODES)["un-m-1"]["status"]
        assert status["providerID"] == "p-1"
        assert ("lastError" in status) is (phase == "Failed")
        assert world.value("node_state_update_duration_seconds_count", phase=phase) == 1

    play(scene)


@pytest.mark.rule("operator#un-noop")
def test_a_repeated_frame_causes_no_write_and_counts_noop() -> None:
    async def scene(world: World) -> None:
        frame = node_state("m", "Configured", resources={"cpu": "1.5"}, labels={"a": "b"})
        world.shard.send(frame)
        await world.eventually(lambda: world.phase("m") == "Ready")
        before = writes(world)
        world.shard.send(frame, node_state("m", "Configured", resources={"cpu": "1500m"}, labels={"a": "b"}))
        await world.clock.sleep(1)
        assert writes(world) == before
        assert world.value("upcoming_node_writes_total", op="status_update", outcome="noop") >= 1

    play(scene)


@pytest.mark.rule("operator#un-merge-patch")
def test_a_label_missing_in_a_later_frame_is_gone() -> None:
    async def scene(world: World) -> None:
        world.shard.send(
            node_state("m", "Configuring", labels={"a": "1", "b": "2"}, resources={"cpu": "1", "x": "1"})
        )
        await world.eventually(lambda: world.phase("m") == "Registered")
        world.shard.send(node_state("m", "Configured", labels={"b": "2"}, resources={"cpu": "1"}))
        await world.eventually(lambda: world.phase("m") == "Ready")
        assert world.all(UPCOMING_NODES)["un-m"]["spec"] == {"labels": {"b": "2"}, "resources": {"cpu": "1"}}

    play(scene)


@pytest.mark.rule("operator#leaving")
def test_ready_then_draining_and_idle_in_one_burst_deletes() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        world.shard.send(node_state("m", "Draining"), node_state("m", "Idle"))
        await world.eventually(lambda: world.phase("m") == "gone")

    play(scene)


@pytest.mark.rule("operator#leaving")
def test_a_rolled_back_bootstrap_deletes_and_idle_alone_creates_nothing() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configuring"))
        await world.eventually(lambda: world.phase("m") == "Registered")
        world.shard.send(node_state("m", "Idle"), node_state("n", "Idle"))
        await world.eventually(lambda: world.phase("m") == "gone")
        assert world.all(UPCOMING_NODES) == {}

    play(scene)


@pytest.mark.rule("operator#leaving")
def test_provisioning_then_idle_is_launched() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Creating"))
        await world.eventually(lambda: world.phase("m") == "Provisioning")
        world.shard.send(node_state("m", "Idle"))
        await world.eventually(lambda: world.phase("m") == "Launched")

    play(scene)


@pytest.mark.rule("operator#writes-land")
def test_a_patch_failing_for_a_minute_lands_and_a_newer_frame_replaces_it() -> None:
    async def scene(world: World) -> None:
        fault = world.transport.add(Fault(BUSY, times=10**6, method="POST", path="upcomingnodes"))
        world.shard.send(node_state("m", "Configuring"))
        await world.clock.sleep(30)
        world.shard.send(node_state("m", "Configured"))
        await world.clock.sleep(30)
        assert world.phase("m") == "gone"
        fault.times = 0
        await world.eventually(lambda: world.phase("m") == "Ready", 15)
        assert world.value("upcoming_node_writes_total", op="create", outcome="error") > 3

    play(scene)


@pytest.mark.rule("operator#n1", "operator#c4")
def test_conflicts_three_times_in_a_row_do_not_lose_the_state() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configuring"))
        await world.eventually(lambda: world.phase("m") == "Registered")
        world.transport.add(Fault(CONFLICT, times=3, method="PATCH", path="upcomingnodes"))
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        assert world.value("upcoming_node_writes_total", op="status_update", outcome="conflict") == 3

    play(scene)


def test_a_frame_that_asks_for_what_the_cache_still_shows_lands_after_a_lost_answer() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        world.transport.add(Fault(Trouble.SILENCE, times=10**6, path="upcomingnodes", watch=True))
        await world.clock.sleep(500)  # every watch is opened again: the cache learns from answers only
        world.transport.add(Fault(Trouble.LOSE_ANSWER, times=1, method="PATCH", path="upcomingnodes"))
        world.shard.send(node_state("m", "Draining"))
        await world.eventually(lambda: world.phase("m") == "Draining")
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready", 5)

    play(scene)


@pytest.mark.rule("operator#n2")
def test_already_exists_goes_on_as_an_update() -> None:
    async def scene(world: World) -> None:
        world.transport.add(Fault(Trouble.CUT, times=10**6, path="upcomingnodes", watch=True))
        await world.clock.sleep(1)
        await world.add(UPCOMING_NODES, {"metadata": {"name": "un-m"}, "spec": {"resources": {}}})
        world.shard.send(node_state("m", "Configured", resources={"cpu": "2"}))
        await world.eventually(lambda: world.phase("m") == "Ready")
        assert world.all(UPCOMING_NODES)["un-m"]["spec"]["resources"] == {"cpu": "2"}

    play(scene)


@pytest.mark.rule("operator#n3")
def test_an_object_deleted_by_hand_comes_back_at_the_next_frame() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("m", "Configuring"))
        await world.eventually(lambda: world.phase("m") == "Registered")
        world.transport.add(Fault(Trouble.SILENCE, times=10**6, path="upcomingnodes", watch=True))
        await world.delete(UPCOMING_NODES, ObjectKey("", "un-m"))
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")

    play(scene)


@pytest.mark.rule("operator#n4")
def test_an_id_unfit_for_a_name_is_found_again_after_a_restart() -> None:
    async def scene(world: World) -> None:
        world.shard.send(node_state("Machine/7", "Configuring"))
        await world.eventually(lambda: len(world.all(UPCOMING_NODES)) == 1)
        (name,) = world.all(UPCOMING_NODES)
        await world.stop_operator()
        world.start_operator()
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        world.shard.send(node_state("Machine/7", "Configured"))
        await world.eventually(lambda: world.all(UPCOMING_NODES)[name]["status"]["phase"] == "Ready")
        assert len(world.all(UPCOMING_NODES)) == 1
        assert world.all(UPCOMING_NODES)[name]["metadata"]["annotations"] == {
            f"{PREFIX}/machine-id": "Machine/7"
        }

    play(scene, orphan_sweep=False)


@pytest.mark.rule("operator#n5")
def test_a_crash_between_create_and_status_is_repaired_by_the_replay() -> None:
    async def scene(world: World) -> None:
        world.transport.add(Fault(Trouble.SILENCE, times=10**6, method="PATCH", path="upcomingnodes"))
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.upcoming("m") is not None)
        await world.stop_operator()
        assert "status" not in (world.upcoming("m") or {})
        world.shard.replay = [node_state("m", "Configured")]
        world.start_operator()
        await world.eventually(lambda: world.phase("m") == "Ready")

    play(scene)


@pytest.mark.rule("operator#e7")
def test_a_replay_of_what_is_known_writes_nothing() -> None:
    async def scene(world: World) -> None:
        frames = [node_state(f"m-{number}", "Configured", resources={"cpu": "8"}) for number in range(20)]
        world.shard.send(*frames)
        await world.eventually(lambda: len(world.all(UPCOMING_NODES)) == 20)
        await world.eventually(lambda: all(world.phase(f"m-{n}") == "Ready" for n in range(20)))
        before = writes(world)
        world.shard.replay = frames
        world.shard.current.close()
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        await world.clock.sleep(5)
        assert writes(world) == before

    play(scene)


@pytest.mark.rule("operator#node-identity")
@pytest.mark.parametrize("how", ["name", "label", "provider id", "last part of the provider id"])
@pytest.mark.parametrize("node_first", [True, False], ids=["node first", "frame first"])
def test_the_node_is_noted_whichever_comes_first(how: str, node_first: bool) -> None:
    async def scene(world: World) -> None:
        async def join() -> None:
            match how:
                case "name":
                    await world.add_node("m")
                case "label":
                    await world.add_node("ip-1", machine="m")
                case "provider id":
                    await world.add_node("ip-1", provider_id="i-1")
                case _:
                    await world.add_node("ip-1", provider_id="aws:///z/i-1")

        if node_first:
            await join()
            await world.clock.sleep(1)
        world.shard.send(node_state("m", "Configured", provider_id="i-1"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        if not node_first:
            await join()
        name = "m" if how == "name" else "ip-1"
        uid = world.node(name)["metadata"]["uid"]
        wanted = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        await world.eventually(lambda: (world.upcoming("m") or {})["status"].get("nodeRef") == wanted, 10)

    play(scene)


@pytest.mark.rule("operator#node-identity")
def test_two_nodes_that_fit_are_none() -> None:
    async def scene(world: World) -> None:
        await world.add_node("ip-1", machine="m")
        await world.add_node("ip-2", machine="m")
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        await world.clock.sleep(5)
        assert "nodeRef" not in (world.upcoming("m") or {})["status"]

    play(scene)


def annotations(world: World, node: str) -> Document:
    return dict(world.node(node)["metadata"].get("annotations") or {})


@pytest.mark.rule("operator#serving-ends-reclaim")
@pytest.mark.parametrize("ours", [True, False])
def test_a_machine_that_comes_back_is_uncordoned_if_the_cordon_is_ours(ours: bool) -> None:
    async def scene(world: World) -> None:
        await world.add_node("m", cordoned=True)
        marks: dict[str, Any] = {
            f"{PREFIX}/reclaim-id": "i",
            f"{PREFIX}/reclaim-deadline": "2020-01-01T00:00:00Z",
        }
        if ours:
            marks[f"{PREFIX}/cordoned-by"] = "i"
        await world.patch(NODES, ObjectKey("", "m"), {"metadata": {"annotations": marks}})
        await world.clock.sleep(5)
        world.shard.send(node_state("m", "Configuring"))
        await world.eventually(lambda: world.phase("m") == "Registered")
        await world.eventually(lambda: annotations(world, "m") == {})
        assert bool(world.node("m")["spec"].get("unschedulable")) is not ours
        assert world.value("uncordons_total") == (1 if ours else 0)

    play(scene)


@pytest.mark.rule("operator#serving-ends-reclaim")
def test_a_persons_cordon_without_any_mark_stays() -> None:
    async def scene(world: World) -> None:
        await world.add_node("m", cordoned=True)
        world.shard.send(node_state("m", "Configuring"))
        await world.eventually(lambda: world.phase("m") == "Registered")
        await world.clock.sleep(2)
        assert world.node("m")["spec"]["unschedulable"] is True
        assert world.calls("PATCH", "/nodes/") == 0

    play(scene)
