"""What the cache keeps of a pod, and where a pod fits (`operator#pod-cache`)."""

import gc
from typing import Any

import pytest

from bigfleet.kube.one_per_host import HostPort
from bigfleet.model.resources import Resources
from bigfleet.operator.core.pod_fit import added_up, fits, free_on, suits
from bigfleet.operator.core.pods import MAX_TEXT, ClusterPod, ClusterPods
from bigfleet.operator.core.views import NodeShape, node_view

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
STUCK = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2026-11-19T12:00:00Z",
}


def pod(
    name: str = "p", *, labels: Any = None, status: Any = None, meta: Any = None, **spec: Any
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"u-{name}",
            "labels": labels or {},
            **(meta or {}),
        },
        "spec": {"containers": [container], **spec},
        "status": status or {"phase": "Pending"},
    }


def view(**given: Any) -> ClusterPod:
    made = ClusterPods().of(pod(**given))
    assert made is not None
    return made


def node(cpu: str = "4", *, labels: Any = None, **spec: Any) -> NodeShape:
    document = {
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110", "broken": "x"}},
    }
    return node_view(document).shape


def test_a_pod_counts_as_one_pod_beside_what_it_requests() -> None:
    assert view().shape.requests == Resources.parse({"cpu": "0.5", "memory": "1Gi", "pods": "1"})


def test_finished_pods_are_not_kept() -> None:
    views = ClusterPods()
    for phase, kept in (("Succeeded", False), ("Failed", False), ("Running", True), ("", True)):
        assert (views.of(pod(status={"phase": phase})) is not None) is kept


def test_what_the_scheduler_says() -> None:
    found = view(status={"phase": "Pending", "conditions": [STUCK]})
    assert (found.unscheduled, found.unscheduled_since_s, found.is_stuck) == (
        "Unschedulable",
        1795089600,
        True,
    )
    placed = {**STUCK, "status": "True", "reason": ""}
    assert not view(status={"conditions": [placed]}).unscheduled
    gated = {**STUCK, "reason": "SchedulingGated"}
    assert not view(status={"conditions": [gated]}).is_stuck
    assert not view(status={"conditions": [STUCK]}, nodeName="n").is_stuck
    leaving = {"deletionTimestamp": "2026-11-19T12:00:00Z"}
    assert not view(status={"conditions": [STUCK]}, meta=leaving).is_stuck
    assert view(status={"conditions": [{**STUCK, "lastTransitionTime": "soon"}]}).unscheduled_since_s == 0


def test_the_owner_is_the_controller() -> None:
    owners = [{"kind": "Thing", "name": "x"}, {"kind": "DaemonSet", "name": "agent", "controller": True}]
    found = view(meta={"ownerReferences": owners})
    assert (found.owner_kind, found.owner_name, found.is_daemon) == ("DaemonSet", "agent", True)
    assert not view().is_daemon


def test_equal_pods_share_what_is_large_and_nothing_outlives_them() -> None:
    views = ClusterPods()
    ones = [
        views.of(pod(f"p-{number}", labels={"app": "web"}, nodeSelector={"a": "b"})) for number in range(3)
    ]
    assert len({id(one.shape) for one in ones if one}) == len({id(one.labels) for one in ones if one}) == 1
    ones.clear()
    gc.collect()
    assert not len(views._shapes)
    assert not len(views._labels)


@pytest.mark.parametrize(
    ("spec", "simple"),
    [
        ({}, True),
        ({"volumes": [{"name": "a", "configMap": {}}, {"name": "b", "emptyDir": {}}]}, True),
        ({"volumes": [{"name": "a", "persistentVolumeClaim": {}}]}, False),
        ({"resourceClaims": [{"name": "gpu"}]}, False),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, True),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, False),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}, False),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}, False),
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
                    }
                }
            },
            True,
        ),
    ],
)
def test_whether_there_is_more_to_know(spec: dict[str, Any], simple: bool) -> None:
    assert view(**spec).shape.is_simple is simple


def test_hostile_pods_stay_small() -> None:
    huge = {f"key-{number}": "v" * 63 for number in range(20_000)}
    requests = {f"example.com/r{number}": "1" for number in range(5_000)}
    hostile = view(
        labels=huge,
        nodeSelector=huge,
        tolerations=[{"key": f"k{number}"} for number in range(9_000)],
        containers=[
            {
                "resources": {"requests": {**requests, "cpu": "-4"}},
                "ports": [{"hostPort": number} for number in range(1, 9_000)],
            }
        ],
    )
    shape = hostile.shape
    assert not hostile.labels
    assert len(shape.requests) + len(shape.tolerations) + len(shape.host_ports) < 600
    assert not shape.is_simple
    assert not suits(shape, node(labels=huge)), "a selector that is not kept must not count as none"
    assert sum(map(len, huge)) > MAX_TEXT


# ---- where it fits


def test_the_requests_must_fit_the_whole_node_and_what_is_free() -> None:
    shape = view().shape
    assert suits(shape, node())
    assert not suits(shape, node("400m"))
    free = Resources.parse({"cpu": "0.4", "memory": "8Gi", "pods": "3"})
    assert not fits(shape, node(), free)
    assert fits(shape, node(), free + Resources.parse({"cpu": "0.1"}))
    assert not fits(shape, node(), Resources.parse({"cpu": "4", "memory": "8Gi"})), "no room for one more pod"


def test_what_pods_leave_of_a_node() -> None:
    ones = [view(name=name) for name in "ab"]
    assert free_on(node(), ones) == Resources.parse({"cpu": "3", "memory": "14Gi", "pods": "108"})
    assert free_on(node("400m"), ones).amount("cpu") == 0, "an overfilled node has nothing free"
    assert added_up(one.shape for one in ones) == Resources.parse({"cpu": "1", "memory": "2Gi", "pods": "2"})


def affinity(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity({"matchExpressions": [expression("zone", "In", "a", "b")]}), True),
        (affinity({"matchExpressions": [expression("zone", "NotIn", "a")]}), False),
        (
            affinity(
                {"matchExpressions": [expression("zone", "In", "b")]},
                {"matchExpressions": [expression("gen", "Gt", "5")]},
            ),
            True,
        ),
        (affinity({"matchExpressions": [expression("gen", "Lt", "5")]}), False),
        (affinity({"matchExpressions": [expression("gen", "Gt", "x")]}), False),
        (affinity({"matchExpressions": [expression("zone", "Gt", "5")]}), False),
        (affinity({"matchExpressions": [expression("zone", "Near", "a")]}), False),
        (affinity({}), False),
        (affinity({"matchFields": [expression("metadata.name", "In", "n")]}), True),
        (affinity({"matchFields": [expression("metadata.name", "In", "m")]}), False),
    ],
)
def test_labels_of_the_node(spec: dict[str, Any], taken: bool) -> None:
    assert suits(view(**spec).shape, node(labels={"zone": "a", "gen": "6"})) is taken


TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "taken"),
    [
        ([], False),
        ([{"key": "team", "value": "ml"}], True),
        ([{"key": "team", "value": "web"}], False),
        ([{"key": "team", "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": "team", "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"operator": "Exists"}], True),
        ([{"value": "ml"}], False),
    ],
)
def test_taints_of_the_node(tolerations: list[dict[str, str]], taken: bool) -> None:
    assert suits(view(tolerations=tolerations).shape, node(taints=[TAINT])) is taken
    assert suits(view(tolerations=tolerations).shape, node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]))


def test_a_cordoned_node_takes_only_what_tolerates_that() -> None:
    assert not suits(view().shape, node(unschedulable=True))
    daemon = view(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert suits(daemon.shape, node(unschedulable=True))


def test_ports_that_are_taken() -> None:
    shape = view(containers=[{"ports": [{"hostPort": 80}]}]).shape
    free = node().allocatable
    assert shape.is_one_per_host
    assert fits(shape, node(), free, [HostPort("", "TCP", 81)])
    assert not fits(shape, node(), free, [HostPort("10.0.0.1", "TCP", 80)])
