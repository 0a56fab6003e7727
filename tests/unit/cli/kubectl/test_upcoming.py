"""`kubectl bigfleet upcoming`: what comes and goes, in the order of its life."""

from datetime import UTC, datetime
from typing import Any

from bigfleet.cli.kubectl.upcoming import upcoming

NOW = datetime(2026, 11, 17, 12, 0, 9, tzinfo=UTC)


def node(name: str, phase: str, **status: Any) -> dict[str, Any]:
    labels = {"node.kubernetes.io/instance-type": "g5", "topology.kubernetes.io/zone": "a"}
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-17T12:00:00Z"},
        "spec": {"labels": labels, "resources": {"cpu": "8"}},
        "status": {"phase": phase, **status} if phase else {},
    }


def test_machines_are_shown_in_the_order_of_their_life() -> None:
    nodes = [
        node("un-c", "Failed", lastError="no host"),
        node("un-b", "Ready", nodeRef={"name": "n1"}),
        node("un-a", "Registered"),
        node("un-d", ""),
    ]
    rows = upcoming(nodes, NOW, every=True)
    assert [(row["name"], row["phase"]) for row in rows] == [
        ("un-d", "Provisioning"),
        ("un-a", "Registered"),
        ("un-b", "Ready"),
        ("un-c", "Failed"),
    ]
    assert rows[1]["age"] == "9s"
    assert rows[2]["node"] == "n1"
    assert rows[3]["error"] == "no host"
    assert (rows[0]["instance_type"], rows[0]["zone"], rows[0]["resources"]) == ("g5", "a", "cpu 8")


def test_nodes_that_are_ready_are_left_out_unless_asked_for() -> None:
    nodes = [node("un-a", "Ready"), node("un-b", "Draining")]
    assert [row["name"] for row in upcoming(nodes, NOW, every=False)] == ["un-b"]
