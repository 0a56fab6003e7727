"""83: the operator uses every verb of its role, and nothing that the role does not have."""

import pytest

from bigfleet.kube.resources import AVAILABLE_CAPACITIES, CAPACITY_REQUESTS, UPCOMING_NODES, Resource
from bigfleet.kube.roles import OPERATOR, RbacRole
from bigfleet.operator.core.names import hint_name
from tests.support.kube_api import api as kube_api
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.refusals import check_right
from tests.support.scripted_shard import hint, node_state, reclaim
from tests.unit.operator.world import World, play

GRANTED = {
    (rule.group, resource, verb)
    for rule in OPERATOR.cluster
    for resource in rule.resources
    for verb in rule.verbs
}
SPEC = {"availability": "High", "availableCount": 1, "cost": "0", "resources": {}}


async def everything(world: World) -> None:
    """Make the operator do everything it can do."""
    await world.add_request("good")
    await world.add_request("bad", requirements=[{"key": "a", "operator": "Same"}])
    await world.add_node("m")
    await world.add_pods("m", "a")
    world.shard.send(node_state("m", "Configuring"), node_state("lost", "Configured"), hint("p=1", 1))
    await world.clock.sleep(15)
    world.shard.send(node_state("m", "Configured", labels={"a": "b"}), hint("p=1", 2))
    await world.clock.sleep(15)
    world.shard.send(reclaim("i1", "m"), reclaim("i2", "lost"))
    await world.clock.sleep(15)
    world.shard.send(reclaim("i3", "lost"), node_state("m", "Idle"))
    await world.clock.sleep(15)
    # Behind the back of the caches: what exists already is read before it is written.
    blind = [
        Fault(Trouble.SILENCE, times=10**6, path=kind.plural, watch=True)
        for kind in (UPCOMING_NODES, AVAILABLE_CAPACITIES)
    ]
    world.transport.faults += blind
    await world.clock.sleep(500)  # every watch is opened again
    await world.add(UPCOMING_NODES, {"metadata": {"name": "un-n"}, "spec": {"resources": {}}})
    await world.add(AVAILABLE_CAPACITIES, {"metadata": {"name": hint_name("available:p=2")}, "spec": SPEC})
    world.shard.send(node_state("n", "Configured"), hint("p=2", 5))
    await world.clock.sleep(20)
    world.transport.heal()
    await world.clock.sleep(1500)  # long enough to delete hints that no request asks for


@pytest.mark.rule("operator#roles")
def test_each_verb_of_the_role_is_used_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[tuple[str, str, str]] = set()

    def noted(role: RbacRole | None, resource: Resource, subresource: str, verb: str) -> None:
        if role is not None:
            name = f"{resource.plural}/{subresource}" if subresource else resource.plural
            used.add((resource.group, name, verb))
        check_right(role, resource, subresource, verb)

    monkeypatch.setattr(kube_api, "check_right", noted)
    play(everything)
    assert used == GRANTED


@pytest.mark.rule("operator#roles")
def test_the_role_has_nothing_that_could_hurt() -> None:
    assert not [entry for entry in GRANTED if entry[1] in ("secrets", "configmaps")]
    assert not [entry for entry in GRANTED if entry[1] in ("pods", "nodes") and entry[2] == "delete"]
    assert (CAPACITY_REQUESTS.group, "capacityrequests", "delete") not in GRANTED
