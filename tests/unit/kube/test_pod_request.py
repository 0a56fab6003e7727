"""The resources of a pod, computed as kube-scheduler does (`operator#pod-requirements`, `operator#pod-amounts`)."""

from typing import Any

import pytest

from bigfleet.kube.pod_request import pod_request


def container(restart: str = "", **requests: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "c", "resources": {"requests": requests, "limits": {"cpu": "64"}}}
    return {**made, "restartPolicy": restart} if restart else made


def sidecar(**requests: str) -> dict[str, Any]:
    return container("Always", **requests)


@pytest.mark.rule("operator#pod-amounts")
@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [sidecar(cpu="2"), container(cpu="2500m")],
            },
            {"cpu": "4500m"},
            id="78 a sidecar counts beside the init container after it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi")],
                "initContainers": [container(cpu="4")],
            },
            {"cpu": "4", "memory": "1Gi"},
            id="78 an init container's peak counts where it is larger",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1"), container(cpu="1")],
                "initContainers": [sidecar(cpu="500m"), container(cpu="3")],
                "overhead": {"cpu": "250m"},
            },
            {"cpu": "3750m"},
            id="78 overhead comes on top of the peak",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi", **{"example.com/gpu": "2"})],
                "initContainers": [container(cpu="8")],
                "resources": {"requests": {"cpu": "2", "hugepages-2Mi": "4Mi", "example.com/gpu": "9"}},
                "overhead": {"cpu": "100m", "memory": "64Mi"},
            },
            {"cpu": "2100m", "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "memory": "1088Mi"},
            id="78 pod-level requests replace cpu, memory and huge pages before overhead",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="2"), sidecar(cpu="3"), sidecar(cpu="1")],
            },
            {"cpu": "5"},
            id="sidecars run on beside the containers",
        ),
        pytest.param(
            {"containers": [container(memory="1Gi"), container(memory="1G")]},
            {"memory": "2073741824"},
            id="binary and decimal add up exactly, as decimal",
        ),
        pytest.param(
            {"containers": [container(memory="1Gi"), container(memory="512Mi"), container(memory="0")]},
            {"memory": "1536Mi"},
            id="binary stays binary, nothing added changes nothing",
        ),
        pytest.param({"containers": [{"name": "c"}]}, {}, id="limits and nothing else request nothing"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}, {}, id="limits only"
        ),
        pytest.param({}, {}, id="no containers at all"),
        pytest.param({"containers": [container(cpu="0")]}, {"cpu": "0"}, id="zero is a request of zero"),
        pytest.param({"containers": [container(cpu="1", x="much")]}, {"cpu": "1"}, id="no number, no amount"),
    ],
)
def test_a_pod_requests(spec: dict[str, Any], amounts: dict[str, str]) -> None:
    assert pod_request(spec) == amounts
    assert [*pod_request(spec)] == sorted(amounts)
