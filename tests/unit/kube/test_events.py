"""Events are counted instead of repeated, few per second, and never in the way."""

import asyncio
from typing import Any

from bigfleet.kube.events import WAITING_LIMIT, EventRecorder, ObjectReference
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, NODES, ObjectKey
from bigfleet.kube.transport import ApiResponse
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import KubeWorld

REQUEST = ObjectReference(CAPACITY_REQUESTS, ObjectKey("shop", "cr-1"), "uid-1")
NODE = ObjectReference(NODES, ObjectKey("", "n1"), "uid-2")


class RecorderWorld(KubeWorld):
    """A world with a recorder at work."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder = EventRecorder(self.client, "bigfleet-operator", clock=self.clock, host="pod-0")
        self.task = asyncio.ensure_future(self.recorder.run())

    def events(self) -> list[dict[str, Any]]:
        return [item for _, item in sorted(self.api.objects.of(EVENTS).items())]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


def test_an_event_says_what_kubectl_shows() -> None:
    async def main() -> None:
        world = RecorderWorld()
        world.recorder.record(REQUEST, "Warning", "NotReported", "spec.resources: no quantity")
        world.recorder.record(NODE, "Normal", "ReclaimStarted", "leaves within 30 s")
        await world.eventually(lambda: len(world.events()) == 2, 5)
        about_node, about_request = world.events()
        assert about_request["metadata"]["namespace"] == "shop"
        assert about_request["involvedObject"] == {
            "apiVersion": "bigfleet.lucy.sh/v1alpha1",
            "kind": "CapacityRequest",
            "name": "cr-1",
            "namespace": "shop",
            "uid": "uid-1",
        }
        assert about_request["type"] == "Warning"
        assert about_request["source"] == {"component": "bigfleet-operator", "host": "pod-0"}
        assert about_node["metadata"]["namespace"] == "default"
        assert about_node["involvedObject"]["kind"] == "Node"
        await world.end()

    run_virtual(main())


def test_the_same_again_is_counted_on_the_first() -> None:
    async def main() -> None:
        world = RecorderWorld()
        for _ in range(3):
            world.recorder.record(NODE, "Warning", "Unresolved", "no node")
            await world.clock.sleep(30)
        for _ in range(4):
            world.recorder.record(NODE, "Warning", "Unresolved", "no node")
        await world.clock.sleep(30)
        (event,) = world.events()
        assert event["count"] == 7
        assert event["firstTimestamp"] < event["lastTimestamp"]
        world.recorder.record(NODE, "Warning", "Unresolved", "another text")
        await world.clock.sleep(5)
        assert len(world.events()) == 2
        await world.end()

    run_virtual(main())


def test_after_a_long_pause_it_is_a_new_event() -> None:
    async def main() -> None:
        world = RecorderWorld()
        for _ in range(2):
            world.recorder.record(NODE, "Warning", "Unresolved", "no node")
            await world.clock.sleep(601)
        assert [event["count"] for event in world.events()] == [1, 1]
        await world.end()

    run_virtual(main())


def test_an_event_that_the_server_has_forgotten_is_made_anew() -> None:
    async def main() -> None:
        world = RecorderWorld()
        world.recorder.record(NODE, "Warning", "Unresolved", "no node")
        await world.clock.sleep(5)
        (key,) = world.api.objects.of(EVENTS)
        await world.client.delete(EVENTS, key)
        world.recorder.record(NODE, "Warning", "Unresolved", "no node")
        await world.clock.sleep(5)
        (event,) = world.events()
        assert event["count"] == 1
        await world.end()

    run_virtual(main())


def test_a_flood_is_written_slowly_and_what_is_too_much_is_dropped() -> None:
    async def main() -> None:
        world = RecorderWorld()
        for number in range(WAITING_LIMIT + 50):
            world.recorder.record(NODE, "Normal", "Flood", f"number {number}")
        assert world.recorder.dropped == 50
        await world.clock.sleep(10)
        assert 50 <= len(world.events()) <= 56
        await world.end()

    run_virtual(main())


def test_a_server_in_trouble_costs_the_event_and_nothing_else() -> None:
    async def main() -> None:
        world = RecorderWorld()
        world.transport.add(Fault(ApiResponse(500, "no")))
        world.transport.add(Fault(Trouble.BREAK))
        for number in range(3):
            world.recorder.record(NODE, "Normal", "Drained", f"number {number}")
        await world.clock.sleep(5)
        assert world.recorder.dropped == 2
        assert len(world.events()) == 1
        assert not world.task.done()
        await world.end()

    run_virtual(main())


def test_a_long_message_is_cut_to_what_the_server_takes() -> None:
    async def main() -> None:
        world = RecorderWorld()
        world.recorder.record(
            ObjectReference(NODES, ObjectKey("", "n" * 253)), "Normal", "Drained", "x" * 5000
        )
        await world.clock.sleep(5)
        (event,) = world.events()
        assert len(event["message"]) == 1024
        assert len(event["metadata"]["name"]) <= 253
        await world.end()

    run_virtual(main())
