"""The views of pods, requests and nodes (`operator#request-life`, `operator#one-request-per-pod`)."""

from typing import Any

import pytest

from bigfleet.kube.one_per_host import MIRROR
from bigfleet.kube.resources import ObjectKey
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS
from bigfleet.podcontroller.core.views import (
    PodState,
    PodView,
    owned_request,
    pod_view,
    upcoming_node_shape,
)

GATE = [{"name": "example.com/wait"}]
DAEMON = [{"kind": "DaemonSet", "name": "d", "controller": True}]


def pod(phase: str = "Pending", *, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "shop", "uid": "u", **metadata},
        "spec": spec or {},
        "status": {"phase": phase},
    }


def seen(document: dict[str, Any], *, exclude: bool = False) -> PodView | None:
    return pod_view(NO_DEFAULTS, exclude_daemonsets=exclude)(document)


@pytest.mark.parametrize(
    ("document", "state"),
    [
        (pod(), PodState.LIVE),
        (pod("Running"), PodState.LIVE),
        (pod("Unknown"), PodState.LIVE),
        (pod(""), PodState.LIVE),
        (pod("Succeeded"), PodState.FINISHED),
        (pod("Failed"), PodState.FINISHED),
        (pod("Failed", deletionTimestamp="2026-11-17T12:00:00Z"), PodState.FINISHED),
        (pod("Running", deletionTimestamp="2026-11-17T12:00:00Z"), PodState.TERMINATING),
        (pod(spec={"schedulingGates": GATE}), PodState.GATED),
        (pod(spec={"schedulingGates": []}), PodState.LIVE),
        (pod(spec={"schedulingGates": GATE}, deletionTimestamp="2026-11-17T12:00:00Z"), PodState.TERMINATING),
    ],
)
def test_the_state_of_a_pod(document: dict[str, Any], state: PodState) -> None:
    view = seen(document)
    assert view is not None
    assert view.state is state


@pytest.mark.parametrize("metadata", [{"ownerReferences": DAEMON}, {"annotations": {MIRROR: "x"}}])
def test_daemonset_and_mirror_pods_count_unless_excluded(metadata: dict[str, Any]) -> None:
    assert seen(pod(**metadata)) is not None
    assert seen(pod(**metadata), exclude=True) is None
    assert seen(pod(ownerReferences=[{"kind": "ReplicaSet", "controller": True}]), exclude=True) is not None


def test_pods_of_one_workload_share_one_text() -> None:
    first, second = seen(pod(spec={"priority": 7})), seen(pod(spec={"priority": 7}))
    assert first is not None
    assert second is not None
    assert first.wanted is second.wanted


def test_a_pod_on_a_node_is_scheduled() -> None:
    on_node, without = seen(pod(spec={"nodeName": "n"})), seen(pod())
    assert on_node is not None
    assert without is not None
    assert (on_node.scheduled, without.scheduled) == (True, False)


def test_a_request_without_our_label_is_left_out() -> None:
    assert owned_request({"metadata": {"name": "r", "namespace": "shop"}, "spec": {}}) is None


def test_nodes_keep_phase_labels_and_size() -> None:
    spec = {"labels": {"b": "2", "a": "1"}, "resources": {"cpu": 8}}
    view = upcoming_node_shape({"metadata": {"name": "un-1"}, "spec": spec, "status": {"phase": "Ready"}})
    assert (view.key, view.phase, view.labels) == (ObjectKey("", "un-1"), "Ready", (("a", "1"), ("b", "2")))
    assert view.resources == (("cpu", "8"),)
    assert upcoming_node_shape({"metadata": {"name": "un-2"}}).phase == ""
