"""Which pods keep others of their kind off their node (`operator#pod-affinity`)."""

from typing import Any

import pytest

from bigfleet.kube.one_per_host import HostPort, host_ports, keeps_apart

HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def pod(*terms: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "metadata": {"name": "p", "namespace": "shop", "labels": labels or {"app": "web"}},
        "spec": {"affinity": {"podAntiAffinity": {rule: list(terms)}}},
    }


def term(selector: dict[str, Any] | None = WEB, key: str = HOST, **more: Any) -> dict[str, Any]:
    made = {"topologyKey": key, **more}
    return made if selector is None else {**made, "labelSelector": selector}


@pytest.mark.parametrize(
    ("given", "apart"),
    [
        pytest.param(pod(term()), True, id="its own label"),
        pytest.param(pod(term({})), True, id="an empty selector selects every pod"),
        pytest.param(pod(term(None)), False, id="a missing selector selects none"),
        pytest.param(pod(term({"matchLabels": {"app": "db"}})), False, id="another kind"),
        pytest.param(pod(term(key="topology.kubernetes.io/zone")), False, id="another topology"),
        pytest.param(pod(term({"matchLabels": {"app": "db"}}), term()), True, id="the second term"),
        pytest.param(pod(term(namespaces=["bank"])), False, id="pods of another namespace"),
        pytest.param(pod(term(namespaces=["bank", "shop"])), True, id="pods of its own namespace, named"),
        pytest.param(pod(term(namespaceSelector={})), True, id="pods of every namespace"),
        pytest.param(
            pod(term(namespaceSelector={"matchLabels": {"team": "a"}})), False, id="namespaces of some label"
        ),
        pytest.param(
            pod(term({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]})),
            True,
            id="an expression",
        ),
        pytest.param(
            pod(term({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]})),
            False,
            id="an expression that it fails",
        ),
        pytest.param(
            pod(term({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]})),
            False,
            id="an operator that does not exist",
        ),
        pytest.param({"metadata": {"name": "p"}, "spec": {}}, False, id="no affinity at all"),
    ],
)
def test_anti_affinity_to_its_own_kind(given: dict[str, Any], apart: bool) -> None:
    assert keeps_apart(given) is apart


def test_ports_of_the_node_that_a_pod_holds_while_it_runs() -> None:
    ports = [
        {"containerPort": 80},
        {"hostPort": 80},
        {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    spec = {
        "containers": [{"ports": ports}],
        "initContainers": [
            {"restartPolicy": "Always", "ports": [{"hostPort": 9, "hostIP": "0.0.0.0"}]},  # noqa: S104
            {"ports": [{"hostPort": 7}]},
        ],
    }
    assert host_ports(spec) == (
        HostPort("", "TCP", 9),
        HostPort("", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 53),
    )


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        (HostPort("", "TCP", 80), HostPort("", "TCP", 80), True),
        (HostPort("", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.2", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("", "TCP", 80), HostPort("", "UDP", 80), False),
        (HostPort("", "TCP", 80), HostPort("", "TCP", 81), False),
    ],
)
def test_ports_collide(one: HostPort, other: HostPort, collide: bool) -> None:
    assert one.collides(other) is collide
    assert other.collides(one) is collide
