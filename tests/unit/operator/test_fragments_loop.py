"""The loop for fragments in a whole operator: from the verdict of a scheduler to a row of the roll-up, and back."""

from typing import Any

import pytest

from bigfleet.kube.resources import CAPACITY_REQUESTS, NODES, PODS, UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import Document
from tests.unit.operator.world import PREFIX, World, play

SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
STUCK = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}


async def add_machine(world: World, name: str, phase: str = "Ready") -> None:
    """A machine of 8 CPU, with its node unless it is still on its way."""
    labels = {f"{PREFIX}/machine-id": name, "node.kubernetes.io/instance-type": "m8"}
    status: Document = {"phase": phase}
    if phase == "Ready":
        node: Document = {
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": SIZE, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        await world.add(NODES, node)
        status["nodeRef"] = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": "x"}
    spec = {"labels": {"node.kubernetes.io/instance-type": "m8"}, "resources": SIZE}
    await world.add(UPCOMING_NODES, {"metadata": {"name": f"un-{name}"}, "spec": spec, "status": status})


async def add_pod(world: World, name: str, node: str = "", cpu: str = "5") -> None:
    """A pod of a replica set with its request; without a node the scheduler has called it Unschedulable."""
    owner = {"kind": "ReplicaSet", "name": "web", "controller": True, "apiVersion": "apps/v1", "uid": "rs"}
    requests = {"resources": {"requests": {"cpu": cpu}}}
    document: Document = {
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner], "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", **requests}], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running"} if node else {"phase": "Pending", "conditions": [STUCK]},
    }
    made = await world.add(PODS, document)
    request: Document = {
        "metadata": {
            "name": f"cr-{name}",
            "namespace": "shop",
            "labels": {f"{PREFIX}/owned-by-pod": made["metadata"]["uid"]},
        },
        "spec": {
            "priority": 0,
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}],
            "resources": {"cpu": cpu},
        },
    }
    await world.add(CAPACITY_REQUESTS, request)


async def fill(world: World, machines: int, stuck: int, cpu: str = "5") -> None:
    """Machines with a pod of so many CPUs each, and further such pods without a node."""
    for place in range(machines):
        await add_machine(world, f"m{place}")
        await add_pod(world, f"p{place}", f"m{place}", cpu)
    for place in range(stuck):
        await add_pod(world, f"s{place}", cpu=cpu)


def fragments(world: World) -> list[tuple[str, str, int]]:
    """Total, unit and limit of the rows for fragments in the newest roll-up."""
    return [
        (need.aggregate_resources["cpu"], need.min_unit["cpu"], need.max_units_per_machine)
        for need in world.shard.current.rollups[-1].needs
        if need.for_fragments
    ]


async def bind(world: World, name: str, node: str) -> None:
    """Place a pod."""
    await world.delete(PODS, ObjectKey("shop", name))
    await world.delete(CAPACITY_REQUESTS, ObjectKey("shop", f"cr-{name}"))
    await add_pod(world, f"{name}-placed", node)


@pytest.mark.rule("operator#fragments")
def test_stuck_pods_become_a_row_for_fragments_that_stays_while_it_is_needed() -> None:
    async def scene(world: World) -> None:
        await fill(world, machines=12, stuck=3)
        await world.eventually(lambda: fragments(world), 40)
        assert fragments(world) == [("15", "5", 1)]
        assert world.value("fragments_machines") == 3
        for place in range(3):
            await add_machine(world, f"new{place}")
            await bind(world, f"s{place}", f"new{place}")
        await world.clock.sleep(1800)
        assert fragments(world) == [("15", "5", 1)]
        assert world.value("fragments_changes_total", kind="raised") == 1
        assert world.value("fragments_stuck_pods", reason="asked") == 0
        for place in range(9):
            await world.delete(PODS, ObjectKey("shop", f"p{place}"))
            await world.delete(CAPACITY_REQUESTS, ObjectKey("shop", f"cr-p{place}"))
        await world.eventually(lambda: not fragments(world), 600)

    play(scene)


@pytest.mark.rule("operator#fragments-stuck")
def test_machines_on_their_way_and_young_verdicts_are_waited_for() -> None:
    async def scene(world: World) -> None:
        await fill(world, machines=12, stuck=2)
        for place in range(2):
            await add_machine(world, f"coming{place}", "Provisioning")
        await world.clock.sleep(300)
        assert fragments(world) == []
        assert world.value("fragments_stuck_pods", reason="on_its_way") == 2

    play(scene)


@pytest.mark.rule("operator#fragments-start")
def test_a_new_process_asks_in_its_first_roll_up_for_what_is_there_beyond_the_sum() -> None:
    async def scene(world: World) -> None:
        await fill(world, machines=16, stuck=0)
        world.start_operator(fragments_share=1.0)
        await world.connected()
        # 80 CPUs of requests are covered by ten machines of 8; six more are there.
        first = [need for need in world.shard.current.rollups[0].needs if need.for_fragments]
        assert [(need.aggregate_resources["cpu"], need.max_units_per_machine) for need in first] == [
            ("30", 1)
        ]
        await world.clock.sleep(3600)
        assert fragments(world) == [("30", "5", 1)]

    play(scene, connect=False)


@pytest.mark.rule("operator#fragments-start")
def test_while_the_shard_is_away_nothing_changes_and_no_time_counts() -> None:
    async def scene(world: World) -> None:
        await fill(world, machines=30, stuck=2, cpu="7500m")  # a sum of 240, which is what there is
        await world.eventually(lambda: fragments(world), 40)
        await world.stop_shard()
        await world.clock.sleep(600)
        assert world.value("fragments_machines") == 2
        await world.start_shard()
        await world.eventually(lambda: world.shard.is_connected, 60)
        await world.clock.sleep(30)
        assert world.value("fragments_machines") == 2
        await world.clock.sleep(60)
        assert world.value("fragments_machines") == 0  # no machine came, so it is taken back

    play(scene)


@pytest.mark.rule("operator#fragments-start")
@pytest.mark.parametrize("options", [{"fragments": False}, {"watch_pods": False}, {"fragments_share": 0.0}])
def test_it_can_be_turned_off(options: dict[str, Any]) -> None:
    async def scene(world: World) -> None:
        await fill(world, machines=4, stuck=3)
        await world.clock.sleep(600)
        assert fragments(world) == []

    play(scene, **options)
