"""One request per pod, for the pod's whole life, in virtual time under exactly the role.

Rules: `operator#pod-controller`, `operator#one-request-per-pod`, `operator#life-finished`, `operator#life-deleted`,
`operator#life-update`, `operator#life-gated`, `operator#life-by-hand`, `operator#life-stamp`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from bigfleet.aio.clock import monotonic_s
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, ObjectKey
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.podcontroller.controller import PodControllerOptions
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import capacity_request

Play = Callable[[Any], None]  # the fixture of conftest.py
World = Any  # the world of conftest.py, which tests cannot import from there


@pytest.mark.rule("operator#one-request-per-pod")
def test_every_pod_scheduled_or_not_has_exactly_one_request_with_a_phase(play: Play) -> None:
    async def scene(world: World) -> None:
        pods = [await world.pod("a"), await world.pod("b", "bank", nodeName="n1", priority=7)]
        await world.pod("done", phase="Succeeded")
        await world.pod("broken", phase="Failed")
        replica = world.start()
        await world.eventually(world.one_each)
        pods.append(await world.pod("late"))
        await world.eventually(world.one_each)
        for pod in pods:
            request = world.request_of(pod)
            assert request["metadata"]["namespace"] == pod["metadata"]["namespace"]
            assert request["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod["metadata"]["name"],
                    "uid": pod["metadata"]["uid"],
                    "controller": True,
                }
            ]
            assert request["status"] == {"phase": "Pending"}
        assert world.request_of(pods[1])["spec"]["priority"] == 7
        assert replica.count("cr_created") == 3
        assert replica.count("pod_terminal") == 2
        assert replica.count("error") == 0

    play(scene)


@pytest.mark.rule("operator#one-request-per-pod")
def test_twenty_restarts_never_make_a_second_request(play: Play) -> None:
    async def scene(world: World) -> None:
        for number in range(5):
            await world.pod(f"p{number}")
        for turn in range(20):
            replica = world.start()
            await world.pod(f"late-{turn}")
            # Cut off after so many turns of the loop: between create and stamp, between list and watch.
            for _ in range(turn * 2):
                await world.clock.sleep(0)
            await replica.end()
            assert all(count == 1 for count in world.per_pod().values())
        world.start()
        await world.eventually(world.one_each)
        assert len(world.requests) == 25

    play(scene)


@pytest.mark.rule("operator#one-request-per-pod")
def test_two_replicas_and_a_delayed_watch_never_make_a_second_request(play: Play) -> None:
    async def scene(world: World) -> None:
        first, second = world.start(), world.start()
        # The second hears nothing of requests once it has listed them.
        second.transport.add(Fault(Trouble.SILENCE, times=1000, path="capacityrequests", watch=True))
        await world.eventually(
            lambda: not first.controller.caches.not_ready() and not second.controller.caches.not_ready()
        )
        for number in range(30):
            await world.pod(f"p{number}")
        await world.eventually(world.one_each)
        await world.clock.sleep(300)
        assert world.one_each()
        assert first.count("cr_created") + second.count("cr_created") == 30
        assert first.count("error") == second.count("error") == 0

    play(scene)


@pytest.mark.rule("operator#life-finished", "operator#life-deleted", "operator#e13")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_loses_its_request_while_it_exists(play: Play, phase: str) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        await world.pod("p")
        await world.eventually(world.one_each)
        assert world.requests
        await world.change("p", {"status": {"phase": phase}})
        await world.eventually(lambda: not world.requests, 5)
        assert ObjectKey("shop", "p") in world.api.objects.of(PODS)
        deletes = replica.transport.count(lambda call: call.method == "DELETE")
        await world.change("p", {"metadata": {"labels": {"a": "b"}}})
        await world.clock.sleep(700)  # over a whole comparison
        assert replica.transport.count(lambda call: call.method == "DELETE") == deletes == 1
        assert replica.count("cr_created") == 1

    play(scene)


@pytest.mark.rule("operator#life-finished", "operator#life-deleted")
def test_a_deleted_pod_loses_its_request_by_garbage_collection(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        await world.pod("p")
        await world.eventually(world.one_each)
        await world.remove("p")
        await world.eventually(lambda: not world.requests)
        await world.clock.sleep(120)
        assert replica.transport.count(lambda call: call.method == "DELETE") == 0
        assert replica.count("pod_gone") >= 1

    play(scene)


@pytest.mark.rule("operator#life-update", "operator#e25")
def test_a_resized_pod_is_followed_and_stays_acknowledged(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        pod = await world.pod("p", nodeName="n1")
        await world.eventually(world.one_each)
        await world.acknowledge(world.request_of(pod))
        bigger = [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]
        await world.change("p", {"spec": {"containers": bigger}})
        await world.eventually(
            lambda: world.request_of(pod)["spec"]["resources"] == {"cpu": "2", "memory": "1Gi"}, 5
        )
        assert world.request_of(pod)["status"]["phase"] == "Acknowledged"
        assert replica.count("cr_updated") == 1

    play(scene)


def test_an_annotation_added_later_reaches_the_request(play: Play) -> None:
    async def scene(world: World) -> None:
        world.start()
        pod = await world.pod("p")
        await world.eventually(world.one_each)
        note = {"bigfleet.lucy.sh/interruption-penalty": "4096"}
        await world.change("p", {"metadata": {"annotations": note}})
        await world.eventually(lambda: world.request_of(pod)["spec"].get("interruptionPenalty") == "4096", 5)
        await world.change(
            "p", {"metadata": {"annotations": {"bigfleet.lucy.sh/interruption-penalty": None}}}
        )
        await world.eventually(lambda: "interruptionPenalty" not in world.request_of(pod)["spec"], 5)

    play(scene)


@pytest.mark.rule("operator#life-gated", "operator#e25")
def test_a_gated_pod_gets_its_request_when_the_last_gate_is_removed(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        await world.pod("p", schedulingGates=[{"name": "a"}, {"name": "b"}])
        await world.clock.sleep(10)
        await world.change("p", {"spec": {"schedulingGates": [{"name": "b"}]}})
        await world.clock.sleep(10)
        assert not world.requests
        assert replica.count("pod_gated") >= 2
        await world.change("p", {"spec": {"schedulingGates": None}})
        await world.eventually(lambda: len(world.requests) == 1, 5)

    play(scene)


@pytest.mark.rule("operator#life-by-hand")
def test_a_request_deleted_by_hand_comes_back_within_five_seconds(play: Play) -> None:
    async def scene(world: World) -> None:
        world.start()
        pod = await world.pod("p")
        await world.eventually(world.one_each)
        name = world.request_of(pod)["metadata"]["name"]
        await world.direct.delete(CAPACITY_REQUESTS, ObjectKey("shop", name))
        await world.eventually(world.one_each, 5)

    play(scene)


@pytest.mark.rule("operator#life-by-hand")
def test_a_request_without_our_label_is_never_touched(play: Play) -> None:
    async def scene(world: World) -> None:
        mine = await world.add(CAPACITY_REQUESTS, capacity_request("by-hand"))
        replica = world.start()
        pod = await world.pod("p")
        await world.eventually(lambda: len(world.requests) == 2)
        await world.clock.sleep(1500)
        assert world.requests["by-hand"] == mine
        assert world.request_of(pod)
        assert replica.transport.count(lambda call: "by-hand" in call.path) == 0

    play(scene)


def test_a_label_in_another_namespace_neither_hides_a_pods_request_nor_survives(play: Play) -> None:
    async def scene(world: World) -> None:
        pod = await world.pod("p")
        forged = capacity_request("forged", "attacker")
        forged["metadata"]["labels"] = {"bigfleet.lucy.sh/owned-by-pod": pod["metadata"]["uid"]}
        await world.acknowledge(await world.add(CAPACITY_REQUESTS, forged))
        world.start()
        await world.eventually(lambda: len(world.requests) == 2, 5)
        await world.eventually(world.one_each, 700)
        assert world.request_of(pod)["metadata"]["namespace"] == "shop"

    play(scene)


def test_a_request_of_another_author_under_our_name_is_left_alone_and_the_whole_uid_used(play: Play) -> None:
    async def scene(world: World) -> None:
        pod = await world.pod("p")
        uid = pod["metadata"]["uid"]
        taken = capacity_request(f"cr-pod-p-{uid[:13]}")
        taken["metadata"]["labels"] = {"bigfleet.lucy.sh/owned-by-pod": "somebody-else"}
        await world.add(CAPACITY_REQUESTS, taken)
        world.start(PodControllerOptions(resync_s=1e9))
        await world.eventually(lambda: f"cr-pod-p-{uid}" in world.requests)
        assert world.per_pod()["somebody-else"] == 1

    play(scene)


@pytest.mark.rule("operator#life-stamp")
def test_a_late_stamp_never_undoes_acknowledged(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        # The answer to the create is lost: the operator acknowledges before the stamp is written.
        replica.transport.add(Fault(Trouble.LOSE_ANSWER, method="POST", path="capacityrequests"))
        replica.transport.add(Fault(Trouble.BREAK, times=1, method="PATCH", path="/status"))
        pod = await world.pod("p")
        await world.eventually(lambda: len(world.requests) == 1)
        await world.acknowledge(world.request_of(pod))
        await world.clock.sleep(700)
        assert world.request_of(pod)["status"]["phase"] == "Acknowledged"

    play(scene)


@pytest.mark.rule("operator#life-stamp")
def test_a_stamp_that_comes_after_the_operator_is_refused_and_that_is_fine(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()

        async def faster() -> None:
            await world.eventually(lambda: len(world.requests) == 1)
            await world.acknowledge(next(iter(world.requests.values())))

        conflict = ApiResponse(
            409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "moved on"}
        )
        replica.transport.add(Fault(conflict, method="PATCH", path="/status"))
        pod = await world.pod("p")
        await faster()
        await world.clock.sleep(700)
        assert world.request_of(pod)["status"]["phase"] == "Acknowledged"
        assert replica.count("error") == 0

    play(scene)


@pytest.mark.rule("operator#life-stamp")
def test_a_request_that_the_operator_acknowledges_soon_costs_one_write_of_ours(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        pod = await world.pod("p")
        await world.eventually(lambda: len(world.requests) == 1)
        await world.acknowledge(world.request_of(pod))
        await world.clock.sleep(60)
        assert replica.transport.count(lambda call: call.method == "PATCH") == 0

    play(scene)


@pytest.mark.rule("operator#life-stamp")
def test_a_request_that_nothing_acknowledges_is_stamped_after_five_seconds(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        pod = await world.pod("p")
        await world.clock.sleep(4.9)
        assert "status" not in world.request_of(pod)
        await world.change("p", {"metadata": {"labels": {"a": "b"}}})  # another look does not postpone it
        await world.clock.sleep(0.3)
        assert world.request_of(pod)["status"] == {"phase": "Pending"}
        assert replica.transport.count(lambda call: call.method == "PATCH") == 1

    play(scene)


@pytest.mark.rule("operator#pod-burst")
def test_a_thousand_pods_at_once_have_their_requests_within_four_seconds_where_the_budget_allows_it(
    play: Play,
) -> None:
    async def scene(world: World) -> None:
        limiter = RateLimiter(world.clock, qps=200, burst=1000)
        replica = world.start(limiter=limiter)
        inner = replica.transport.send

        async def slowly(call: ApiCall) -> ApiResponse:
            await world.clock.sleep(0.04)  # a busy API server
            answer: ApiResponse = await inner(call)
            return answer

        replica.transport.send = slowly
        await world.clock.sleep(10)
        for number in range(1000):
            await world.pod(f"p{number}")
        began_s = monotonic_s(world.clock)
        await world.eventually(lambda: len(world.requests) == 1000, 60)
        assert monotonic_s(world.clock) - began_s <= 4.0
        name = "bigfleet_unschedulable_pod_controller_request_delay_seconds"
        assert replica.registry.get_sample_value(f"{name}_count") == pytest.approx(1000, abs=16)
        assert (replica.registry.get_sample_value(f"{name}_sum") or 0.0) / 1000 < 4.0

    play(scene)


def test_a_request_left_without_a_phase_is_stamped_by_the_next_process(play: Play) -> None:
    async def scene(world: World) -> None:
        first = world.start()
        first.transport.add(Fault(Trouble.BREAK, times=1000, method="PATCH", path="/status"))
        await world.pod("p")
        await world.eventually(lambda: len(world.requests) == 1)
        await first.end()
        assert "status" not in next(iter(world.requests.values()))
        world.start()
        await world.eventually(world.one_each)

    play(scene)


def test_a_terminating_pod_keeps_its_request_and_gets_none_anew(play: Play) -> None:
    async def scene(world: World) -> None:
        world.api.pods_linger = True
        world.start()
        await world.pod("p", nodeName="n1")
        await world.eventually(world.one_each)
        await world.remove("p")
        await world.clock.sleep(700)
        (request,) = world.requests.values()
        key = ObjectKey("shop", request["metadata"]["name"])
        await world.direct.delete(CAPACITY_REQUESTS, key)
        await world.clock.sleep(700)
        assert not world.requests
        world.api.finish_pod(ObjectKey("shop", "p"))

    play(scene)


def test_daemonset_pods_count_and_can_be_excluded(play: Play) -> None:
    async def scene(world: World) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        await world.pod("p")
        await world.pod("agent")
        await world.change("agent", {"metadata": {"ownerReferences": [owner]}})
        first = world.start()
        await world.eventually(lambda: len(world.requests) == 2)
        await first.end()
        second = world.start(PodControllerOptions(exclude_daemonset_pods=True))
        await world.eventually(lambda: len(world.requests) == 1)  # the demand of before goes
        assert second.count("error") == 0
        await world.clock.sleep(700)
        assert [item["metadata"]["ownerReferences"][0]["name"] for item in world.requests.values()] == ["p"]

    play(scene)
