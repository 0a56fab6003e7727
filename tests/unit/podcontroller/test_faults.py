"""The pod controller under faults (`operator#pod-failures`): nothing is lost, nothing is doubled, and the API server is
not overloaded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.kube.cache_set import CacheSyncError
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, ObjectKey
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.podcontroller.controller import PodControllerOptions
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import capacity_request

Play = Callable[[Any], None]  # the fixture of conftest.py
World = Any  # the world of conftest.py, which tests cannot import from there
OWNED = "bigfleet.lucy.sh/owned-by-pod"
BUSY = ApiResponse(429, {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slow down"})


@dataclass(slots=True)
class LosesAnswer(Fault):
    """Loses the answer to one call of a process, counted from its start."""

    at: int = 1
    seen: int = 0

    def hits_call(self, call: ApiCall, *, watch: bool) -> bool:
        self.seen += not watch
        return not watch and self.seen == self.at


def is_create(call: ApiCall) -> bool:
    return call.method == "POST" and "capacityrequests" in call.path


@pytest.mark.rule("operator#u1")
def test_a_pod_that_finished_while_no_controller_ran_loses_its_request_at_the_start(play: Play) -> None:
    async def scene(world: World) -> None:
        first = world.start()
        await world.pod("p")
        await world.pod("q")
        await world.eventually(world.one_each)
        await first.end()
        await world.change("p", {"status": {"phase": "Succeeded"}})
        world.start()
        await world.eventually(lambda: len(world.requests) == 1, 5)
        assert world.one_each()

    play(scene)


@pytest.mark.rule("operator#u2")
def test_a_pod_of_the_same_name_gets_a_request_of_its_own_and_the_old_one_is_deleted(play: Play) -> None:
    async def scene(world: World) -> None:
        world.start()
        first = await world.pod("web-0")
        await world.eventually(world.one_each)
        await world.remove("web-0")
        second = await world.pod("web-0")
        await world.eventually(world.one_each, 5)
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert world.request_of(second)

    play(scene)


@pytest.mark.rule("operator#u2")
def test_without_a_garbage_collector_the_old_request_of_a_replaced_pod_is_deleted_too(play: Play) -> None:
    async def scene(world: World) -> None:
        world.api.collects_garbage = False
        world.start()
        await world.pod("web-0")
        await world.eventually(world.one_each)
        await world.remove("web-0")
        await world.pod("web-0")
        await world.eventually(lambda: len(world.requests) == 2, 5)
        await world.eventually(world.one_each, 700)

    play(scene)


@pytest.mark.rule("operator#u3")
def test_a_storm_of_429_slows_down_and_loses_nothing(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        storm = replica.transport.add(Fault(BUSY, times=400, method="POST", path="capacityrequests"))
        for number in range(20):
            await world.pod(f"p{number}")
        await world.eventually(world.one_each, 900)
        assert storm.hits == 400
        creates = [when for when, call in replica.transport.calls if is_create(call)]
        busiest = max(sum(begin <= when < begin + 10 * NANOSECONDS for when in creates) for begin in creates)
        assert busiest <= 20 * 9  # 50 ms doubling: at most nine tries of a pod within any ten seconds
        assert replica.count("error") == 400
        assert replica.count("cr_created") == 20

    play(scene)


@pytest.mark.rule("operator#u4")
def test_a_namespace_that_ends_is_left_in_peace(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        await world.eventually(lambda: not replica.controller.caches.not_ready())
        world.api.terminating.add("shop")
        world.api.objects.put(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "shop", "uid": "u1"},
                "spec": {},
                "status": {"phase": "Pending"},
            },
        )
        await world.eventually(lambda: replica.transport.count(is_create) == 1)
        await world.clock.sleep(500)
        assert replica.transport.count(is_create) == 1
        assert replica.count("error") == 0
        assert not world.requests

    play(scene)


@pytest.mark.rule("operator#u5")
def test_without_a_garbage_collector_requests_of_gone_pods_are_removed(play: Play) -> None:
    async def scene(world: World) -> None:
        world.api.collects_garbage = False
        world.start()
        await world.pod("p")
        await world.pod("q")
        await world.eventually(world.one_each)
        await world.remove("p")
        await world.eventually(world.one_each, 700)
        assert len(world.requests) == 1

    play(scene)


@pytest.mark.rule("operator#u5")
def test_requests_of_pods_deleted_while_no_controller_ran_are_removed(play: Play) -> None:
    async def scene(world: World) -> None:
        orphan = capacity_request("cr-pod-gone-0")
        orphan["metadata"]["labels"] = {OWNED: "gone"}
        await world.add(CAPACITY_REQUESTS, orphan)
        world.start()
        await world.pod("p")
        await world.eventually(world.one_each, 700)

    play(scene)


def test_a_request_is_not_taken_for_an_orphan_while_the_watch_of_pods_is_silent(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        await world.eventually(lambda: not replica.controller.caches.not_ready())
        # Pods are heard of no more, and no new watch can be opened; another writer makes the pod's request meanwhile.
        replica.transport.add(Fault(Trouble.BREAK, times=10_000, path="/pods"))
        replica.transport.add(Fault(Trouble.BREAK, times=10_000, path="/pods", watch=True))
        other = world.start()
        await world.clock.sleep(1000)
        await world.pod("p")
        await world.eventually(world.one_each)
        await other.end()
        await world.clock.sleep(2000)
        assert world.one_each()
        replica.transport.heal()
        await world.clock.sleep(1000)
        assert world.one_each()
        assert replica.transport.count(lambda call: call.method == "DELETE") == 0

    play(scene)


def test_a_lost_answer_to_a_create_makes_no_second_request(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        replica.transport.add(Fault(Trouble.LOSE_ANSWER, times=3, method="POST", path="capacityrequests"))
        replica.transport.add(Fault(Trouble.SILENCE, times=1000, path="capacityrequests", watch=True))
        for number in range(5):
            await world.pod(f"p{number}")
        await world.eventually(world.one_each, 60)
        assert len(world.requests) == 5

    play(scene)


def test_every_call_of_a_pods_life_may_be_cut_and_everything_converges(play: Play) -> None:
    async def scene(world: World) -> None:
        for cut in range(1, 12):
            replica = world.start()
            replica.transport.add(LosesAnswer(Trouble.LOSE_ANSWER, at=cut))
            await world.pod(f"p{cut}")
            gone = await world.pod(f"q{cut}")
            await world.eventually(world.one_each, 120)
            await world.change(gone["metadata"]["name"], {"status": {"phase": "Failed"}})
            await world.eventually(world.one_each, 120)
            await replica.end()
        assert len(world.requests) == 11

    play(scene)


def test_a_refused_object_is_told_on_the_pod_and_does_not_stop_the_others(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        refusal = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "spec.x: no"}
        replica.transport.add(
            Fault(ApiResponse(422, refusal), times=3, method="POST", path="/namespaces/bad/capacityrequests")
        )
        await world.pod("odd", "bad")
        await world.pod("good")
        await world.eventually(lambda: world.requests)
        await world.eventually(world.one_each, 60)
        await world.eventually(lambda: replica.controller.is_idle)
        refused = [event for event in world.events() if event[2] == "CapacityRequestRefused"]
        assert refused == [
            ("odd", "Warning", "CapacityRequestRefused", "no capacity can be asked for: spec.x: no")
        ]

    play(scene)


def test_without_the_kind_it_waits_and_begins_when_it_is_installed(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        missing = replica.transport.add(
            Fault(ApiResponse(404, "404 page not found"), times=10**6, path="capacityrequests")
        )
        await world.pod("p")
        await world.clock.sleep(300)
        assert replica.controller.caches.not_ready() == ["capacityrequests: first list not complete"]
        assert missing.hits < 60
        replica.transport.heal()
        await world.eventually(world.one_each, 60)
        assert replica.controller.caches.not_ready() == []

    play(scene)


def test_patience_with_the_first_list_ends_after_ten_minutes(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start()
        replica.transport.add(Fault(Trouble.BREAK, times=10**6, path="/pods"))
        await world.clock.sleep(590)
        assert not replica.working.done()
        await world.clock.sleep(20)
        assert replica.working.done()
        failure = replica.working.exception()
        assert isinstance(failure, CacheSyncError)
        assert "pods" in failure.kinds

    play(scene)


@pytest.mark.rule("operator#e24")
def test_what_the_original_left_is_adopted_and_not_doubled(play: Play) -> None:
    async def scene(world: World) -> None:
        pod = await world.pod("p", nodeName="n1")
        for suffix in ("x7k2p", "b4d9q"):
            left = capacity_request(f"cr-pod-p-{suffix}", priority=0, resources={"cpu": "1000m"})
            left["spec"]["requirements"] = [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}]
            left["metadata"]["labels"] = {OWNED: pod["metadata"]["uid"]}
            await world.add(CAPACITY_REQUESTS, left)
        await world.acknowledge(world.requests["cr-pod-p-x7k2p"])
        before = world.requests["cr-pod-p-x7k2p"]
        world.start(PodControllerOptions(resync_s=60))
        await world.eventually(lambda: len(world.requests) == 1)
        await world.clock.sleep(200)
        assert world.requests == {"cr-pod-p-x7k2p": before}
        assert ObjectKey("shop", "p") in world.api.objects.of(PODS)

    play(scene)
