"""Events on pods: capacity requested, node on its way, demand not exact (`operator#operator-metrics`; the user's view)."""

from collections.abc import Callable
from typing import Any

from bigfleet.kube.resources import ObjectKey
from bigfleet.podcontroller.controller import PodControllerOptions
from bigfleet.podcontroller.core.views import PodState, PodView, UpcomingNodeShape, text_of
from bigfleet.podcontroller.pod_events import PODS_PER_NODE, pods_served

Play = Callable[[Any], None]  # the fixture of conftest.py
World = Any  # the world of conftest.py, which tests cannot import from there


async def settled(world: World) -> None:
    await world.clock.sleep(5)
    await world.eventually(lambda: all(replica.controller.is_idle for replica in world.replicas))


def test_a_waiting_pod_hears_that_its_request_was_passed_on(play: Play) -> None:
    async def scene(world: World) -> None:
        world.start()
        waiting, running = await world.pod("waiting"), await world.pod("running", nodeName="n1")
        await world.eventually(world.one_each)
        for pod in (waiting, running):
            await world.acknowledge(world.request_of(pod))
        await settled(world)
        name = world.request_of(waiting)["metadata"]["name"]
        assert world.events() == [
            (
                "waiting",
                "Normal",
                "CapacityRequested",
                f"BigFleet knows what this pod needs (CapacityRequest {name})",
            )
        ]

    play(scene)


def test_a_registered_node_is_told_to_waiting_pods_it_suits(play: Play) -> None:
    async def scene(world: World) -> None:
        world.start()
        await world.pod("fits", nodeSelector={"zone": "a"})
        await world.pod("elsewhere", nodeSelector={"zone": "b"})
        await world.pod("running", nodeName="n1", nodeSelector={"zone": "a"})
        await world.eventually(world.one_each)
        labels = {"node.kubernetes.io/instance-type": "g5", "topology.kubernetes.io/zone": "a", "zone": "a"}
        await world.upcoming("un-m1", "Provisioning", **labels)
        await settled(world)
        assert world.events() == []
        await world.upcoming("un-m1", "Registered")
        await settled(world)
        message = "BigFleet is bringing a node: un-m1 (g5, a); it may serve this pod"
        assert world.events() == [("fits", "Normal", "BringingNode", message)]
        await world.upcoming("un-m1", "Ready")
        await settled(world)
        assert len(world.events()) == 1

    play(scene)


def test_a_restart_repeats_no_event(play: Play) -> None:
    async def scene(world: World) -> None:
        pod = await world.pod("p", nodeSelector={"zone": "a"})
        first = world.start()
        await world.eventually(world.one_each)
        await first.end()
        await world.acknowledge(world.request_of(pod))
        await world.upcoming("un-m1", "Registered", zone="a")
        world.start()
        await settled(world)
        assert world.events() == []

    play(scene)


def test_without_pod_events_nothing_is_watched_and_only_warnings_are_told(play: Play) -> None:
    async def scene(world: World) -> None:
        replica = world.start(PodControllerOptions(pod_events=False))
        note = {"bigfleet.lucy.sh/interruption-penalty": "much"}
        pod = await world.pod("p", annotations=note)
        await world.eventually(world.one_each)
        await world.acknowledge(world.request_of(pod))
        await settled(world)
        assert replica.transport.count(lambda call: "upcomingnodes" in call.path) == 0
        ((name, kind, reason, message),) = world.events()
        assert (name, kind, reason) == ("p", "Warning", "DemandNotExact")
        assert "interruption-penalty" in message

    play(scene)


def waiting_pod(number: int, **selector: str) -> PodView:
    items = [{"key": key, "operator": "In", "values": [value]} for key, value in selector.items()]
    wanted = text_of({"priority": 0, "requirements": items, "resources": {}})
    return PodView(ObjectKey("shop", f"p{number:03d}"), f"u{number}", PodState.LIVE, False, "", wanted, "")


def test_at_most_twenty_pods_hear_of_a_node_the_first_in_order() -> None:
    node = UpcomingNodeShape(ObjectKey("", "un-1"), "Registered", (("zone", "a"),))
    pods = [waiting_pod(number, zone="ab"[number % 2]) for number in range(100)]
    served = pods_served(node, pods)
    assert len(served) == PODS_PER_NODE
    assert [pod.key.name for pod in served] == [f"p{number:03d}" for number in range(0, 40, 2)]


def test_a_pod_that_is_too_large_for_a_node_does_not_hear_of_it() -> None:  # ADR-0167
    node = UpcomingNodeShape(ObjectKey("", "un-1"), "Registered", (("zone", "a"),), (("cpu", "8"),))
    for cpu, served in (("8", True), ("8001m", False)):
        wanted = text_of({"priority": 0, "requirements": [], "resources": {"cpu": cpu}})
        pod = PodView(ObjectKey("shop", "p"), "u", PodState.LIVE, False, "", wanted, "")
        assert bool(pods_served(node, [pod])) is served
