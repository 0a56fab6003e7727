"""51, 52 and 54 to 56: orphans are deleted, not too early and not too late."""

import pytest

from bigfleet.kube.resources import AVAILABLE_CAPACITIES, UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import ApiResponse
from bigfleet.operator.core.names import hint_name
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.scripted_shard import hint, node_state, reclaim
from tests.unit.operator.world import World, play

CONFLICT = ApiResponse(409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "moved on"})


async def left_behind(world: World, count: int, phase: str = "Ready") -> None:
    for number in range(count):
        name = f"un-old-{number:02d}"
        await world.add(UPCOMING_NODES, {"metadata": {"name": name}, "spec": {"resources": {}}})
        await world.patch(UPCOMING_NODES, ObjectKey("", name), {"status": {"phase": phase}}, "status")


@pytest.mark.rule("operator#sweep-with-marker")
def test_with_the_marker_what_was_not_named_is_deleted() -> None:
    async def scene(world: World) -> None:
        await left_behind(world, 10)
        world.shard.replay = [node_state("old-03", "Configured"), node_state("old-04", "Failed")]
        world.start_operator()
        await world.connected()
        await world.eventually(lambda: len(world.all(UPCOMING_NODES)) == 2, 10)
        assert sorted(world.all(UPCOMING_NODES)) == ["un-old-03", "un-old-04"]
        assert world.value("orphans_deleted_total", kind="UpcomingNode") == 8

    play(scene, connect=False)


@pytest.mark.rule("operator#sweep-with-marker")
def test_many_at_once_only_after_ten_minutes_and_only_if_still_unnamed() -> None:
    async def scene(world: World) -> None:
        await left_behind(world, 20)
        world.start_operator()
        await world.connected()
        await world.clock.sleep(590)
        assert len(world.all(UPCOMING_NODES)) == 20
        world.shard.send(node_state("old-00", "Configured"))
        await world.clock.sleep(30)
        assert list(world.all(UPCOMING_NODES)) == ["un-old-00"]

    play(scene, connect=False)


@pytest.mark.rule("operator#sweep-without-marker")
def test_without_the_marker_only_those_on_their_way_after_ten_minutes() -> None:
    async def scene(world: World) -> None:
        world.shard.marks_resync = False
        for phase in ("Provisioning", "Ready", "Failed", "Registered", "Drained"):
            name = f"un-{phase.lower()}"
            await world.add(UPCOMING_NODES, {"metadata": {"name": name}, "spec": {"resources": {}}})
            await world.patch(UPCOMING_NODES, ObjectKey("", name), {"status": {"phase": phase}}, "status")
        world.start_operator()
        await world.connected()
        await world.clock.sleep(590)
        assert len(world.all(UPCOMING_NODES)) == 5
        await world.clock.sleep(20)
        assert sorted(world.all(UPCOMING_NODES)) == ["un-failed", "un-ready", "un-registered"]

    play(scene, connect=False)


@pytest.mark.parametrize("marks", [True, False])
def test_the_sweep_can_be_turned_off(marks: bool) -> None:
    async def scene(world: World) -> None:
        world.shard.marks_resync = marks
        await left_behind(world, 3, "Drained")
        world.start_operator()
        await world.connected()
        await world.clock.sleep(1300)
        assert len(world.all(UPCOMING_NODES)) == 3

    play(scene, connect=False, orphan_sweep=False)


@pytest.mark.rule("operator#sweep-with-marker")
def test_a_running_drain_is_not_swept() -> None:
    async def scene(world: World) -> None:
        await world.add_node("m")
        await world.add_pods("m", "a")
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m", grace_s=600))
        await world.eventually(lambda: bool(world.shard.current.reclaim_acks))
        world.shard.current.close()
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        await world.clock.sleep(20)
        assert world.phase("m") == "Draining"

    play(scene)


@pytest.mark.rule("operator#sweep-with-marker")
def test_work_of_an_ended_session_leaves_no_object_of_a_machine_that_left() -> None:
    async def scene(world: World) -> None:
        slow = world.transport.add(Fault(Trouble.SILENCE, times=10**6, method="POST", path="upcomingnodes"))
        world.shard.send(node_state("m", "Configuring"))
        await world.clock.sleep(1)
        world.shard.current.close()  # and before the next hello the machine is taken back
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        await world.clock.sleep(120)
        slow.times = 0
        await world.clock.sleep(120)
        assert world.all(UPCOMING_NODES) == {}
        assert len(world.operator.dispatch.queues) == 0  # type: ignore[union-attr]

    play(scene)


@pytest.mark.rule("operator#sweep-with-marker")
def test_an_object_whose_drain_held_up_the_sweep_goes_ten_minutes_later() -> None:
    async def scene(world: World) -> None:
        await world.add_node("m")
        await world.add_pods("m", "a")
        world.shard.send(node_state("m", "Configured"))
        await world.eventually(lambda: world.phase("m") == "Ready")
        world.api.pods_linger = True
        world.shard.send(reclaim("i1", "m", grace_s=60))
        await world.eventually(lambda: bool(world.shard.current.reclaim_acks))
        world.shard.current.close()
        await world.eventually(lambda: world.phase("m") == "Failed", 120)
        await world.eventually(lambda: world.phase("m") == "gone", 620)

    play(scene)


def test_a_machine_that_came_after_the_session_began_is_not_swept() -> None:
    async def scene(world: World) -> None:
        world.shard.marks_resync = False
        world.start_operator()
        await world.connected()
        await left_behind(world, 1, "Provisioning")
        await world.clock.sleep(700)
        assert len(world.all(UPCOMING_NODES)) == 1

    play(scene, connect=False)


FINGERPRINT = "p=100|ipb=0|rpb=0|reqs=|spr="


@pytest.mark.rule("operator#available-capacity")
def test_a_hint_becomes_an_object_with_its_price() -> None:
    async def scene(world: World) -> None:
        world.shard.send(hint(FINGERPRINT, 7, cost=0.096))
        name = hint_name(f"available:{FINGERPRINT}")
        await world.eventually(lambda: name in world.all(AVAILABLE_CAPACITIES))
        spec = world.all(AVAILABLE_CAPACITIES)[name]["spec"]
        assert spec == {"availability": "High", "availableCount": 7, "cost": "0.096", "resources": {}}

    play(scene)


@pytest.mark.rule("operator#hint-writes")
def test_an_unchanged_hint_writes_nothing_and_a_conflict_loses_none() -> None:
    async def scene(world: World) -> None:
        name = hint_name(f"available:{FINGERPRINT}")
        world.shard.send(hint(FINGERPRINT, 7))
        await world.eventually(lambda: name in world.all(AVAILABLE_CAPACITIES))
        world.shard.send(hint(FINGERPRINT, 7))
        await world.clock.sleep(1)
        assert world.calls("PATCH", "availablecapacities") == 0
        world.transport.add(Fault(CONFLICT, times=3, method="PATCH", path="availablecapacities"))
        world.shard.send(hint(FINGERPRINT, 8))
        await world.eventually(lambda: world.all(AVAILABLE_CAPACITIES)[name]["spec"]["availableCount"] == 8)

    play(scene)


def test_a_hint_deleted_by_hand_comes_back_with_the_next() -> None:
    async def scene(world: World) -> None:
        name = hint_name(f"available:{FINGERPRINT}")
        world.shard.send(hint(FINGERPRINT, 7))
        await world.eventually(lambda: name in world.all(AVAILABLE_CAPACITIES))
        await world.delete(AVAILABLE_CAPACITIES, ObjectKey("", name))
        world.shard.send(hint(FINGERPRINT, 8))
        await world.eventually(lambda: name in world.all(AVAILABLE_CAPACITIES))

    play(scene)


@pytest.mark.rule("operator#hint-writes")
def test_a_hint_is_deleted_ten_minutes_after_its_last_frame_once_no_request_asks_for_it() -> None:
    async def scene(world: World) -> None:
        await world.add_request("r")
        await world.clock.sleep(15)
        world.shard.send(hint(FINGERPRINT, 1), hint("p=5|nobody", 1))
        asked, unasked = hint_name(f"available:{FINGERPRINT}"), hint_name("available:p=5|nobody")
        await world.clock.sleep(590)
        assert set(world.all(AVAILABLE_CAPACITIES)) == {asked, unasked}
        await world.clock.sleep(80)
        assert set(world.all(AVAILABLE_CAPACITIES)) == {asked}
        await world.clock.sleep(1200)
        assert set(world.all(AVAILABLE_CAPACITIES)) == {asked}
        assert world.value("orphans_deleted_total", kind="AvailableCapacity") == 1

    play(scene)
