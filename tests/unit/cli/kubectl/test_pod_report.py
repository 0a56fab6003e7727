"""`kubectl bigfleet why`: the conclusion from a pod's objects (`operator#plugin-why`, `operator#kubectl-plugin`)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bigfleet.cli.kubectl.pod_report import PodFacts, conclusion, describe_pod, suitable_nodes

NOW = datetime(2026, 11, 17, 12, 10, tzinfo=UTC)
EARLY, LATELY = "2026-11-17T12:00:00Z", "2026-11-17T12:09:55Z"
NO_ROOM = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available",
}


def pod(phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "cart-0", "namespace": "shop", "creationTimestamp": EARLY},
        "spec": spec,
        "status": {"phase": phase, "conditions": [NO_ROOM] if not spec.get("nodeName") else []},
    }


def request(phase: str = "Acknowledged", created: str = EARLY, **condition: str) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase} if phase else {}
    if condition:
        status["conditions"] = [{"type": "Reported", **condition}]
    spec = {
        "priority": 1000,
        "resources": {"cpu": "1"},
        "requirements": [{"key": "zone", "operator": "In", "values": ["a"]}],
        "coLocation": {"topologyKey": "rack"},
        "interruptionPenalty": "4096",
    }
    metadata = {"name": "cr-pod-cart-0-5f0c", "namespace": "shop", "creationTimestamp": created}
    return {"metadata": metadata, "spec": spec, "status": status}


def node(name: str, phase: str, zone: str = "a", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"labels": {"zone": zone}},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(PodFacts(pod("Succeeded")), "requests nothing", id="finished"),
        pytest.param(PodFacts(pod(schedulingGates=[{"name": "g"}])), "scheduling gates (g)", id="gated"),
        pytest.param(PodFacts(pod(nodeName="n1"), request()), "has a node, n1", id="scheduled"),
        pytest.param(PodFacts(pod()), "bigfleet-unschedulable-pod-controller running", id="no request"),
        pytest.param(
            PodFacts(pod(), request("Pending", status="False", reason="InvalidSpread", message="spec.x")),
            "InvalidSpread: spec.x",
            id="left out",
        ),
        pytest.param(PodFacts(pod(), request("", LATELY)), "with its next roll-up", id="not yet reported"),
        pytest.param(
            PodFacts(pod(), request("Pending")), "see its /readyz", id="the operator does not report"
        ),
        pytest.param(
            PodFacts(pod(), request(), [node("un-2", "Registered"), node("un-1", "Registered", "b")]),
            "on its way: un-2",
            id="a node is on its way",
        ),
        pytest.param(
            PodFacts(pod(), request(), [node("un-1", "Ready")]),
            "0/3 nodes are available",
            id="the scheduler's turn",
        ),
        pytest.param(
            PodFacts(pod(), request(), [node("un-1", "Failed")]), "--shard asks it why", id="nothing comes"
        ),
        pytest.param(PodFacts(pod(), request(), (), (), ("short",)), "its verdict is above", id="verdict"),
        pytest.param(PodFacts(None, request()), "--shard asks it why", id="a request without a pod"),
    ],
)
def test_the_conclusion_is(facts: PodFacts, words: str) -> None:
    assert words in conclusion(facts, NOW)
    assert describe_pod(facts, NOW)["so"] == conclusion(facts, NOW)


def test_the_report_names_everything_that_was_found() -> None:
    event = {"reason": "BringingNode", "message": "a node", "lastTimestamp": LATELY, "metadata": {}}
    facts = PodFacts(
        pod(),
        request(),
        [node("un-1", "Ready", nodeRef={"name": "n1"}), node("un-2", "Failed", lastError="no host")],
        [event],
        ("covered",),
    )
    report = describe_pod(facts, NOW)
    assert report["pod"] == "shop/cart-0, Pending for 10m: 0/3 nodes are available"
    assert report["request"] == "shop/cr-pod-cart-0-5f0c, Acknowledged for 10m"
    assert report["asks for"] == [
        "cpu 1",
        "priority 1000",
        "nodes with zone In a",
        "together in one rack",
        "an interruption costs 4096 dollars",
    ]
    assert report["nodes for it"] == ["un-1 Ready as n1", "un-2 Failed: no host"]
    assert report["events"] == ["5s ago BringingNode: a node"]
    assert report["shard says"] == ["covered"]


def test_a_node_too_small_for_the_pod_is_not_on_its_way_for_it() -> None:  # ADR-0167
    small = node("un-1", "Registered")
    small["spec"]["resources"] = {"cpu": "500m"}
    assert suitable_nodes(request(), [small]) == []
    assert "no machine is on its way" in conclusion(PodFacts(pod(), request(), [small]), NOW)


def test_a_request_without_requirements_asks_for_any_node() -> None:
    plain = request()
    plain["spec"]["requirements"] = []
    assert "any node" in str(describe_pod(PodFacts(pod(), plain), NOW)["asks for"])


def test_a_limit_per_machine_is_told() -> None:
    limited = request()
    limited["spec"]["maxPerMachine"] = 1
    assert "at most 1 on a machine" in str(describe_pod(PodFacts(pod(), limited), NOW)["asks for"])


def test_an_unknown_operator_matches_no_node() -> None:
    odd = request()
    odd["spec"]["requirements"] = [{"key": "zone", "operator": "Gt", "values": ["1"]}]
    assert suitable_nodes(odd, [node("un-1", "Ready")]) == []
