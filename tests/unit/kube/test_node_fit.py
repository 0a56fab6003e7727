"""Which node on its way may serve a request: by labels and by size, as if it were empty (ADR-0167)."""

from typing import Any

import pytest

from bigfleet.kube.node_fit import may_serve

NODE = {"labels": {"zone": "a"}, "resources": {"cpu": "8", "memory": "32Gi"}}


@pytest.mark.parametrize(
    ("item", "fits"),
    [
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "disk", "operator": "Exists"}, False),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "disk", "operator": "DoesNotExist"}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "disk", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "Same"}, False),  # stored before our schema refused it
    ],
)
def test_every_operator_is_judged_by_the_labels_of_the_node(item: dict[str, Any], fits: bool) -> None:
    assert may_serve(NODE, {"requirements": [item], "resources": {}}) is fits


@pytest.mark.parametrize(
    ("resources", "fits"),
    [
        ({}, True),
        ({"cpu": "8", "memory": "32Gi"}, True),
        ({"cpu": "8001m"}, False),
        ({"memory": "33Gi"}, False),
        ({"cpu": 8}, True),
        ({"nvidia.com/gpu": "1"}, False),
        ({"nvidia.com/gpu": "0"}, True),
        ({"cpu": "1e90"}, False),
    ],
)
def test_a_pod_must_have_room_on_the_empty_node(resources: dict[str, Any], fits: bool) -> None:
    assert may_serve(NODE, {"resources": resources}) is fits


def test_a_node_that_does_not_say_its_size_may_have_any() -> None:
    assert may_serve({"resources": {}}, {"resources": {"cpu": "60"}})
    assert may_serve({}, {})
