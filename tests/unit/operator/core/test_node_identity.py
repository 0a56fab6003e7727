"""Which Node a machine is: four steps, and never a choice between two."""

from typing import Any

import pytest

from bigfleet.operator.core.node_identity import MachineNames, NodeMatch, find_node, reference_to
from bigfleet.operator.core.views import NodeView, UpcomingNodeView, node_view


class Cluster:
    """Nodes that can be looked up."""

    def __init__(self, *nodes: NodeView) -> None:
        self._nodes = nodes

    def named(self, name: str) -> NodeView | None:
        return next((node for node in self._nodes if node.name == name), None)

    def labelled(self, machine_id: str) -> tuple[NodeView, ...]:
        return tuple(node for node in self._nodes if node.machine_id == machine_id)

    def provided(self, provider_id: str) -> tuple[NodeView, ...]:
        return tuple(node for node in self._nodes if provider_id in node.provider_ids())

    def hosted(self, host: str) -> tuple[NodeView, ...]:
        return tuple(node for node in self._nodes if host in node.host_names())


def upcoming(**status: Any) -> UpcomingNodeView:
    return UpcomingNodeView("un-m", "u", "m", {}, status)


BY_NAME = NodeView("m", "1")
BY_REF = NodeView("ip-2", "2")
BY_LABEL = NodeView("ip-3", "3", machine_id="m")
BY_PROVIDER = NodeView("ip-4", "4", provider_id="aws:///zone/i-4")
REF = {"nodeRef": {"name": "ip-2", "uid": "2"}, "providerID": "i-4"}
ALL = (BY_NAME, BY_REF, BY_LABEL, BY_PROVIDER)
ORDER = [BY_NAME, BY_REF, BY_LABEL, BY_PROVIDER]


@pytest.mark.rule("operator#node-identity")
@pytest.mark.parametrize("first", range(4), ids=["name", "nodeRef", "label", "provider id"])
def test_the_first_step_that_finds_a_node_decides(first: int) -> None:
    found = find_node(MachineNames(("m",), "m"), upcoming(**REF), Cluster(*ALL[first:]))
    assert found == NodeMatch(ORDER[first])


def test_a_whole_provider_id_fits_too_and_the_instruction_may_bring_it() -> None:
    cluster = Cluster(BY_PROVIDER)
    assert find_node(MachineNames(("m",), "m", "aws:///zone/i-4"), None, cluster).node == BY_PROVIDER
    assert find_node(MachineNames(("m",), "m", "i-4"), None, cluster).node == BY_PROVIDER
    assert find_node(MachineNames(("m",), "m", "i-5"), None, cluster) == NodeMatch()


def test_another_node_under_the_recorded_name_is_not_the_one() -> None:
    taken = NodeView("ip-2", "other")
    assert find_node(MachineNames(("m",), "m"), upcoming(**REF), Cluster(taken)) == NodeMatch()


@pytest.mark.rule("operator#node-identity")
@pytest.mark.parametrize(
    "twin", [NodeView("x", "9", machine_id="m"), NodeView("x", "9", provider_id="q/i-4")]
)
def test_two_matches_are_none(twin: NodeView) -> None:
    original = BY_LABEL if twin.machine_id else BY_PROVIDER
    found = find_node(MachineNames(("m",), "m"), upcoming(providerID="i-4"), Cluster(original, twin))
    assert found == NodeMatch(ambiguous=True)


@pytest.mark.rule("operator#node-identity")
@pytest.mark.parametrize(
    ("node", "provider_id"),
    [
        pytest.param(NodeView("i-4", "4"), "i-4", id="named as the host"),
        pytest.param(NodeView("i-4", "4"), "aws:///zone/i-4", id="named as the last part of the provider id"),
        pytest.param(NodeView("i-4.compute.internal", "4"), "aws:///zone/i-4", id="domain name of the host"),
        pytest.param(NodeView("m.rack-1.example", "4"), "", id="domain name of the machine"),
        pytest.param(NodeView("un-m", "4"), "", id="named as its UpcomingNode"),
        pytest.param(NodeView("x", "4", provider_id="kwok://m"), "", id="machine id as provider id"),
        pytest.param(NodeView("i-4", "4", provider_id="other://q"), "i-4", id="provider id of another form"),
    ],
)
def test_without_a_label_the_naming_of_the_cluster_decides(node: NodeView, provider_id: str) -> None:
    cluster = Cluster(NodeView("another", "5", provider_id="aws:///zone/i-5"), node)
    assert find_node(MachineNames(("m",), "m", provider_id), None, cluster) == NodeMatch(node)
    assert find_node(MachineNames(("m",), "m"), upcoming(providerID=provider_id), cluster) == NodeMatch(node)


@pytest.mark.rule("operator#node-identity")
@pytest.mark.parametrize(
    ("nodes", "ambiguous"),
    [
        pytest.param([NodeView("i-4", "1"), NodeView("un-m", "2")], True, id="two namings, two Nodes"),
        pytest.param([NodeView("i-4.a", "1"), NodeView("i-4.b", "2")], True, id="one host, two domains"),
        pytest.param([NodeView("i-4", "1", machine_id="n")], False, id="labelled as another machine"),
        pytest.param([NodeView("i-44", "1"), NodeView("i-4-b", "2")], False, id="only alike"),
        pytest.param([NodeView("x", "1", provider_id="gce://q/i-4")], False, id="another path"),
    ],
)
def test_naming_never_guesses(nodes: list[NodeView], ambiguous: bool) -> None:
    found = find_node(MachineNames(("m",), "m", "gce://p/i-4"), None, Cluster(*nodes))
    assert found == NodeMatch(ambiguous=ambiguous)


@pytest.mark.rule("operator#e20")
def test_nothing_is_found_where_nothing_fits() -> None:
    assert find_node(MachineNames(("m",), "m"), None, Cluster(NodeView("n", "1"))) == NodeMatch()


def test_the_reference_names_the_very_node() -> None:
    assert reference_to(BY_REF) == {"apiVersion": "v1", "kind": "Node", "name": "ip-2", "uid": "2"}


def test_a_node_as_the_api_server_gives_it() -> None:
    prefix = "bigfleet.lucy.sh"
    view = node_view(
        {
            "metadata": {
                "name": "n",
                "uid": "u",
                "labels": {f"{prefix}/machine-id": "m"},
                "annotations": {
                    f"{prefix}/reclaim-id": "r",
                    f"{prefix}/reclaim-deadline": "d",
                    f"{prefix}/cordoned-by": "c",
                },
            },
            "spec": {"providerID": "p", "unschedulable": True},
        }
    )
    assert view == NodeView("n", "u", "m", "p", True, "r", "d", "c")
