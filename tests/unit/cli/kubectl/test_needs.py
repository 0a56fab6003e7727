"""`kubectl bigfleet needs`: equal demand in one row."""

from datetime import UTC, datetime
from typing import Any

from bigfleet.cli.kubectl.needs import needs

NOW = datetime(2026, 11, 17, 12, 10, tzinfo=UTC)


def request(
    name: str, namespace: str = "shop", *, phase: str = "Pending", annotations: Any = None, **spec: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": "2026-11-17T12:00:00Z",
        "annotations": annotations or {},
    }
    whole = {"priority": 100, "requirements": [], "resources": {"cpu": "500m", "memory": "1Gi"}, **spec}
    return {"metadata": metadata, "spec": whole, "status": {"phase": phase}}


def test_requests_that_differ_in_amount_alone_are_one_need_with_the_sum() -> None:
    (row,) = needs(
        [request("a", phase="Acknowledged"), request("b", "bank", resources={"cpu": "1", "memory": "512Mi"})],
        NOW,
    )
    assert row["requests"] == 2
    assert row["acknowledged"] == 1
    assert row["resources"] == "cpu 1500m, memory 1536Mi"
    assert row["namespaces"] == ["bank", "shop"]
    assert row["oldest"] == "10m"
    assert row["requirements"] == "any node"


def test_the_highest_priority_comes_first_then_the_largest_number() -> None:
    rows = needs(
        [
            request("a", priority=1),
            request("b", priority=5),
            request("c", priority=5, requirements=[{"key": "zone", "operator": "In", "values": ["a", "b"]}]),
            request("d", priority=5, requirements=[{"key": "zone", "operator": "In", "values": ["a", "b"]}]),
        ],
        NOW,
    )
    assert [(row["priority"], row["requests"], row["requirements"]) for row in rows] == [
        (5, 2, "zone In a,b"),
        (5, 1, "any node"),
        (1, 1, "any node"),
    ]


def test_a_limit_per_machine_is_shown_and_is_another_need() -> None:
    rows = needs([request("a", maxPerMachine=1), request("b", maxPerMachine=1), request("c")], NOW)
    assert [(row["requests"], row["max_per_machine"]) for row in rows] == [(2, 1), (1, None)]


def test_gangs_of_two_namespaces_are_two_needs_unless_they_share_a_scope() -> None:
    together = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"job": "t"}}}
    apart = [request("a", coLocation=together), request("b", "bank", coLocation=together)]
    assert len(needs(apart, NOW)) == 2
    scope = {"bigfleet.lucy.sh/co-location-scope": "bank,shop;"}
    joint = [
        request("a", annotations=scope, coLocation=together),
        request("b", "bank", annotations=scope, coLocation=together),
    ]
    (row,) = needs(joint, NOW)
    assert row["together"] == "rack"


def test_requests_that_are_left_out_are_counted() -> None:
    bad = request("a")
    bad["status"]["conditions"] = [{"type": "Reported", "status": "False", "reason": "InvalidQuantity"}]
    bad["spec"]["resources"] = {"cpu": "much"}
    (row,) = needs([bad], NOW)
    assert row["not_reported"] == 1
    assert row["resources"] == "cpu ?"
