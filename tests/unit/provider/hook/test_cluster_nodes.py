"""Built-in readiness: the node of a machine, looked for in a cluster (`providers#hook-protocol`, ADR-0056)."""

from typing import Any

import pytest

from bigfleet.app.hook_provider.nodes import LIST_EVERY_S, ClusterNodes
from bigfleet.kube.errors import KubeError
from bigfleet.kube.resources import NODES
from bigfleet.kube.transport import ApiTransport
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import KubeWorld

PATH = "/api/v1/nodes"


def node(name: str, *, provider_id: str = "", label: str = "", ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"bigfleet.lucy.sh/machine-id": label} if label else {}},
        "spec": {"providerID": provider_id} if provider_id else {},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


class World(KubeWorld):
    def __init__(self) -> None:
        super().__init__()
        self.dialled: list[str] = []
        self.nodes = ClusterNodes(self.clock, self._dial)

    def _dial(self, kubeconfig: str) -> ApiTransport:
        self.dialled.append(kubeconfig)
        return self.transport

    async def ready(self, machine_id: str = "m-1", ref: str = "10.0.0.7") -> bool:
        return await self.nodes.node_ready("/etc/bf/prod", machine_id, ref)

    def whole_lists(self) -> int:
        return self.transport.count(lambda call: call.path == PATH and "labelSelector" not in call.query)


@pytest.mark.parametrize(
    "found",
    [
        node("m-1"),
        node("10.0.0.7"),
        node("worker-9", label="m-1"),
        node("worker-9", provider_id="metal:///hall-7/10.0.0.7"),
    ],
    ids=["by the machine's name", "by the host's name", "by label", "by providerID"],
)
def test_a_node_is_found_in_each_of_the_ways(found: dict[str, Any]) -> None:
    async def scenario() -> None:
        world = World()
        await world.add(NODES, node("worker-1", provider_id="metal:///hall-7/10.0.0.1"))
        assert not await world.ready()
        await world.clock.sleep(LIST_EVERY_S)
        await world.add(NODES, found)
        assert await world.ready()

    run_virtual(scenario())


def test_a_node_that_is_there_and_not_ready_does_not_count() -> None:
    async def scenario() -> None:
        world = World()
        await world.add(NODES, node("m-1", ready=False))
        assert not await world.ready()

    run_virtual(scenario())


def test_many_machines_that_wait_share_one_list_and_one_connection() -> None:
    async def scenario() -> None:
        world = World()
        for number in range(50):
            assert not await world.ready(f"m-{number}", f"10.0.0.{number}")
        assert world.whole_lists() == 1
        assert world.dialled == ["/etc/bf/prod"]
        await world.clock.sleep(LIST_EVERY_S)
        await world.ready()
        assert world.whole_lists() == 2
        await world.nodes.close()

    run_virtual(scenario())


def test_an_id_that_can_be_neither_a_name_nor_a_label_is_not_asked_for_by_them() -> None:
    async def scenario() -> None:
        world = World()
        await world.add(NODES, node("worker-1", provider_id="metal:///spot/eu-1/0042"))
        assert await world.ready("spot/eu-1/0042", "")
        assert (world.whole_lists(), world.transport.count(lambda _call: True)) == (1, 1)

    run_virtual(scenario())


def test_a_cluster_that_does_not_answer_is_an_error_and_no_answer() -> None:
    async def scenario() -> None:
        world = World()
        world.transport.add(Fault(Trouble.BREAK))
        with pytest.raises(KubeError):
            await world.ready()

    run_virtual(scenario())
