"""When a machine may be called Configured: ready hook, kubeconfig, or neither (`providers#hook-protocol`, ADR-0056)."""

from typing import Any

import pytest

from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.core.nodes import is_node_of, is_ready, ready_node
from bigfleet.testing.loop import run_virtual
from tests.support.scripted_hooks import HookReply
from tests.unit.provider.hook.harness import FREE_POOL, World, inventory

WITH_READY = inventory(["m-1"], (*FREE_POOL, "ready"))
WITH_CLUSTER = inventory(["m-1"], more="clusters: {prod: {kubeconfig: prod.kubeconfig}}\n")


class Nodes:
    """A cluster that says what the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.answers: list[bool | BigFleetError] = []

    async def node_ready(self, kubeconfig: str, machine_id: str, ref: str) -> bool:
        self.asked.append((kubeconfig, machine_id, ref))
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, BigFleetError):
            raise answer
        return answer


def test_the_ready_hook_is_asked_every_five_seconds_until_it_says_yes() -> None:
    async def scenario() -> None:
        async with World(WITH_READY) as world:
            times: list[float] = []
            world.hooks.on_call = lambda call: (
                times.append(world.seconds()) if call.kind is HookKind.READY else None
            )
            world.hooks.next(
                HookKind.READY,
                HookReply(100),
                HookReply(100),
                HookReply(75, errors=("no route",)),
                HookReply(0),
            )
            await world.client.configure("m-1", "prod")
            await world.clock.sleep(14)
            assert world.machine("m-1").state is S.CONFIGURING
            assert (await world.settled("m-1")).state is S.CONFIGURED
            assert [round(time) for time in times] == [0, 5, 10, 15]
            (call, *_) = (call for call in world.hooks.calls if call.kind is HookKind.READY)
            assert call.document["cluster"] == "prod"

    run_virtual(scenario())


def test_a_ready_hook_that_never_says_yes_ends_in_failed_at_the_configure_timeout() -> None:
    async def scenario() -> None:
        async with World(WITH_READY) as world:
            world.hooks.always(HookKind.READY, HookReply(100))
            machine = await world.configured("m-1")
            assert (machine.state, machine.cluster) == (S.FAILED, "prod")
            assert machine.last_error == "configure timed out after 60 s"

    run_virtual(scenario())


def test_a_ready_hook_that_breaks_fails_the_machine() -> None:
    async def scenario() -> None:
        async with World(WITH_READY) as world:
            world.hooks.always(HookKind.READY, HookReply(3, errors=("kubectl: not found",)))
            assert (await world.configured("m-1")).last_error == "configure failed: kubectl: not found"

    run_virtual(scenario())


def test_a_ready_hook_that_hangs_is_ended_and_asked_again() -> None:
    async def scenario() -> None:
        async with World(WITH_READY) as world:
            world.hooks.next(HookKind.READY, HookReply(takes_s=1000), HookReply(0))
            assert (await world.configured("m-1")).state is S.CONFIGURED
            assert len(world.hooks.ended) == 1

    run_virtual(scenario())


def test_with_a_kubeconfig_of_the_cluster_the_node_itself_is_looked_for() -> None:
    async def scenario() -> None:
        nodes = Nodes()
        nodes.answers = [False, BigFleetError("the API server is away"), True]
        async with World(WITH_CLUSTER, readiness=nodes) as world:
            assert (await world.configured("m-1")).state is S.CONFIGURED
            assert nodes.asked == [("/etc/bf/prod.kubeconfig", "m-1", "host-m-1")] * 3
            assert "the API server is away" in world.log_text

    run_virtual(scenario())


def test_a_ready_hook_wins_over_a_kubeconfig() -> None:
    async def scenario() -> None:
        nodes = Nodes()
        text = inventory(["m-1"], (*FREE_POOL, "ready"), "clusters: {prod: {kubeconfig: k}}\n")
        async with World(text, readiness=nodes) as world:
            await world.configured("m-1")
            assert (nodes.asked, world.hooks.count(HookKind.READY)) == ([], 1)

    run_virtual(scenario())


def test_with_neither_the_end_of_configure_counts_and_the_start_says_so() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world:
            assert (await world.configured("m-1")).state is S.CONFIGURED
            assert "exit code 0 of configure counts as Ready" in world.log_text

    run_virtual(scenario())


def test_a_cluster_without_a_kubeconfig_among_others_that_have_one_counts_by_exit_code() -> None:
    async def scenario() -> None:
        nodes = Nodes()
        async with World(WITH_CLUSTER, readiness=nodes) as world:
            assert (await world.configured("m-1", cluster="dev")).state is S.CONFIGURED
            assert nodes.asked == []

    run_virtual(scenario())


def node(
    name: str = "n", *, provider_id: str = "", machine_id: str = "", ready: str = "True"
) -> dict[str, Any]:
    labels = {"bigfleet.lucy.sh/machine-id": machine_id} if machine_id else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider_id} if provider_id else {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("found", "matches"),
    [
        (node("m-1"), True),
        (node("10.0.0.7"), True),
        (node(machine_id="m-1"), True),
        (node(provider_id="metal:///hall-7/10.0.0.7"), True),
        (node(provider_id="metal://hall-7/m-1"), True),
        (node(provider_id="10.0.0.7"), True),
        (node(provider_id="metal:///hall-7/110.0.0.7"), False),
        (node("m-11"), False),
        (node(machine_id="m-11"), False),
        ({"metadata": {"name": "x"}}, False),
        ({}, False),
    ],
)
def test_a_node_is_a_machines_by_name_label_or_the_end_of_its_provider_id(
    found: dict[str, Any], matches: bool
) -> None:
    assert is_node_of(found, "m-1", "10.0.0.7") is matches


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, False),
        ({"conditions": [{"type": "DiskPressure", "status": "True"}]}, False),
        ({}, False),
    ],
)
def test_only_a_true_ready_condition_is_ready(status: dict[str, Any], ready: bool) -> None:
    assert is_ready({"status": status}) is ready


def test_a_ready_node_of_another_machine_does_not_count() -> None:
    assert not ready_node([node("other"), node("m-1", ready="False")], "m-1", "")
    assert ready_node([node("other"), node("m-1")], "m-1", "")
