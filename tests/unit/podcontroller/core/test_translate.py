"""A whole pod as a whole request (`operator#pod-requirements`)."""

from typing import Any

import pytest

from bigfleet.podcontroller.core.penalties import NO_DEFAULTS
from bigfleet.podcontroller.core.requirements import Inexact
from bigfleet.podcontroller.core.translate import translate


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": spec}


def test_every_part_has_its_place_and_nothing_else_is_carried() -> None:
    found = translate(
        pod(
            {"bigfleet.lucy.sh/interruption-penalty": "500m"},
            priority=1000,
            priorityClassName="gold",
            nodeSelector={"arch": "arm64"},
            containers=[
                {"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}, "ports": [{"hostPort": 80}]}
            ],
            tolerations=[{"operator": "Exists"}],
            volumes=[{"name": "v"}],
            topologySpreadConstraints=[
                {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            ],
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "rack",
                            "labelSelector": {"matchLabels": {"job": "t"}},
                            "namespaces": ["x"],
                        }
                    ]
                }
            },
        ),
        NO_DEFAULTS,
    )
    assert found.spec == {
        "priority": 1000,
        "requirements": [{"key": "arch", "operator": "In", "values": ["arm64"]}],
        "resources": {"cpu": "1", "memory": "2Gi"},
        "interruptionPenalty": "500m",
        "topologySpread": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "coLocation": {"topologyKey": "rack", "labelSelector": {"matchLabels": {"job": "t"}}},
        "maxPerMachine": 1,
    }
    assert (found.scope, found.inexact, found.warnings) == ("x;", (), ())


def test_a_bare_pod_asks_for_a_machine_of_any_kind_at_priority_zero() -> None:
    assert translate({"metadata": {"name": "p"}}, NO_DEFAULTS).spec == {
        "priority": 0,
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}],
        "resources": {},
    }


PORTS = [{"hostPort": 80}]
ONE = {"requests": {"cpu": "1"}}


@pytest.mark.rule("operator#pod-affinity")
@pytest.mark.parametrize(
    ("metadata", "container", "limit"),
    [
        pytest.param({}, {"resources": ONE, "ports": PORTS}, 1, id="a host port"),
        pytest.param({}, {"resources": ONE}, None, id="none"),
        pytest.param({}, {"ports": PORTS}, None, id="no requests, so no units to count"),
        pytest.param(
            {},
            {"resources": {"requests": {"cpu": "0"}}, "ports": PORTS},
            None,
            id="requests of nothing",
        ),
        pytest.param(
            {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]},
            {"resources": ONE, "ports": PORTS},
            None,
            id="a pod that came with its node",
        ),
        pytest.param(
            {"annotations": {"kubernetes.io/config.mirror": "x"}},
            {"resources": ONE, "ports": PORTS},
            None,
            id="a mirror pod",
        ),
    ],
)
def test_a_pod_that_shares_no_node_with_its_kind_asks_for_a_machine_of_its_own(
    metadata: dict[str, Any], container: dict[str, Any], limit: int | None
) -> None:
    given = {"metadata": {"name": "p", **metadata}, "spec": {"containers": [container]}}
    assert translate(given, NO_DEFAULTS).spec.get("maxPerMachine") == limit


def test_a_reason_of_inexactness_is_told_once_per_pod() -> None:
    term = {"matchExpressions": [{"key": key, "operator": "Gt", "values": ["1"]} for key in "ab"]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    assert translate(pod(affinity=affinity), NO_DEFAULTS).inexact == (Inexact.GT_LT,)


def test_more_resources_than_the_schema_takes_are_cut_but_never_cpu_and_memory() -> None:
    requests = {f"a.example/r{n:02d}": "1" for n in range(70)} | {"cpu": "1", "memory": "1Gi"}
    found = translate(pod(containers=[{"resources": {"requests": requests}}]), NO_DEFAULTS)
    assert len(found.spec["resources"]) == 64
    assert {"cpu", "memory"} <= found.spec["resources"].keys()
    assert found.warnings == ("72 resources requested, only 64 of them count",)
