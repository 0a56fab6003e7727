"""Bodies of nodes and pods."""

from tests.support.control_plane.objects import condition, node, pod


def test_a_node_has_room_for_pods_and_every_amount_twice() -> None:
    made = node("n", cpu="8", labels={"zone": "a"}, extended={"example/gpu": "2"}, provider_id="fake:///n")
    expected = {"cpu": "8", "memory": "16Gi", "pods": "110", "example/gpu": "2"}
    assert made["status"] == {"capacity": expected, "allocatable": expected}
    assert made["metadata"]["labels"] == {"kubernetes.io/hostname": "n", "zone": "a"}
    assert made["spec"] == {"providerID": "fake:///n"}


def test_a_pod_limits_extended_resources_to_what_it_requests() -> None:
    made = pod("p", extended={"example/gpu": "1"}, priorityClassName="high")
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"example/gpu": "1"}
    assert resources["requests"] == {"cpu": "1", "memory": "1Gi", "example/gpu": "1"}
    assert made["spec"]["priorityClassName"] == "high"
    assert "limits" not in pod("q")["spec"]["containers"][0]["resources"]


def test_a_condition_is_read_by_its_type() -> None:
    thing = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    assert condition(thing, "Ready") == "False"
    assert condition(thing, "Other") == ""
    assert condition({}, "Ready") == ""
