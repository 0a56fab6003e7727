"""The cache of pods: complete before the first roll-up, absent without the flag, and no condition for the start."""

import pytest

from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, ObjectKey
from bigfleet.kube.transport import ApiResponse
from tests.support.kube_api.faults import Fault
from tests.support.kube_api.world import capacity_request, pod
from tests.unit.operator.world import World, play

FORBIDDEN = ApiResponse(
    403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"}
)
STUCK = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.rule("operator#pod-cache")
def test_pods_are_found_by_node_by_verdict_and_by_their_requests() -> None:
    async def scene(world: World) -> None:
        await world.add_pods("n1", "a", "b")
        waiting = pod("c")
        waiting["status"] = {"phase": "Pending", "conditions": [STUCK]}
        made = await world.add(PODS, waiting)
        request = capacity_request("r")
        request["metadata"]["labels"] = {"bigfleet.lucy.sh/owned-by-pod": made["metadata"]["uid"]}
        await world.add(CAPACITY_REQUESTS, request)
        operator = world.start_operator()
        await world.connected()
        caches = operator.caches
        assert [one.key.name for one in caches.pods_on("n1")] == ["a", "b"]
        (stuck,) = caches.stuck_pods()
        assert stuck.key == ObjectKey("shop", "c")
        assert [one.uid for one in caches.requests_of(stuck)] == [world.request("r")["metadata"]["uid"]]
        await world.delete(PODS, ObjectKey("shop", "a"))
        await world.eventually(lambda: len(caches.pods_on("n1")) == 1)
        assert world.value("cache_age_seconds", kind="pods") < 120

    play(scene, connect=False)


@pytest.mark.rule("operator#pod-cache")
def test_without_the_flag_no_pod_is_read() -> None:
    async def scene(world: World) -> None:
        await world.add_pods("n1", "a")
        await world.clock.sleep(60)
        assert world.operator is not None
        assert not world.operator.caches.pods_on("n1")
        assert not world.calls("GET", "/pods")

    play(scene, watch_pods=False)


@pytest.mark.rule("operator#pod-cache")
def test_without_the_right_to_list_pods_the_start_waits_a_minute_and_no_more() -> None:
    async def scene(world: World) -> None:
        await world.add_request("r")
        began_s = world.now_s
        operator = world.start_operator()
        world.transport.add(Fault(FORBIDDEN, times=10**6, path="/pods"))
        await world.connected()
        assert 60 <= world.now_s - began_s < 75
        assert operator.caches.known_pods is None
        assert not operator.not_ready()

    play(scene, connect=False)


@pytest.mark.rule("operator#pod-cache")
def test_pods_that_are_listed_and_never_watched_are_not_believed_for_long() -> None:
    async def scene(world: World) -> None:
        await world.add_pods("n1", "a")
        operator = world.start_operator()
        world.transport.add(Fault(FORBIDDEN, times=10**6, path="/pods", watch=True))
        await world.connected()
        believed = [operator.caches.known_pods is not None]
        await world.clock.sleep(200)
        believed.append(operator.caches.known_pods is not None)
        assert believed == [True, False]
        world.transport.heal()
        await world.eventually(lambda: operator.caches.known_pods)

    play(scene, connect=False)
