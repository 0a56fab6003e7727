"""The requirements of a pod on node labels, and what is weakened (`operator#pod-requirements`)."""

from typing import Any

import pytest

from bigfleet.kube.crds.capacity_request import MAX_REQUIREMENTS, MAX_VALUES
from bigfleet.podcontroller.core.requirements import Inexact, requirements_of

FILLER = {"key": "node.kubernetes.io/instance-type", "operator": "Exists"}
FIELDS = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def affinity(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": {**required, **more}}}


def term(*expressions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), **more}


ZONE = expression("zone", "In", "b", "a")
ARCH = {"key": "arch", "operator": "In", "values": ["arm64"]}
DISK = {"key": "disk", "operator": "In", "values": ["ssd"]}


@pytest.mark.rule("operator#pod-requirements")
@pytest.mark.parametrize(
    ("spec", "items", "inexact"),
    [
        pytest.param({}, [FILLER], [], id="77 neither affinity nor selector: the filler"),
        pytest.param(
            {**affinity(term(ZONE)), "nodeSelector": {"disk": "ssd", "arch": "arm64"}},
            [ZONE, ARCH, DISK],
            [],
            id="77 first term, then the selector sorted",
        ),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}}, [DISK], [], id="77 a selector alone needs no filler (E17)"
        ),
        pytest.param(
            affinity({"matchFields": FIELDS}), [], [Inexact.MATCH_FIELDS], id="77 fields alone: an empty list"
        ),
        pytest.param(
            affinity(term(expression("cores", "Gt", "8"), expression("gen", "Lt", "4"), ZONE)),
            [expression("cores", "Exists"), expression("gen", "Exists"), ZONE],
            [Inexact.GT_LT, Inexact.GT_LT],
            id="77 Gt and Lt become Exists and are counted",
        ),
        pytest.param(
            affinity(term(ZONE), term(expression("other", "Exists"))),
            [ZONE],
            [Inexact.FURTHER_TERMS],
            id="further terms are not read, and counted",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
                }
            },
            [FILLER],
            [],
            id="preferred affinity is not read",
        ),
        pytest.param(
            {**affinity(term(ARCH, ARCH)), "nodeSelector": {"arch": "arm64"}},
            [ARCH],
            [],
            id="exact duplicates are kept once",
        ),
        pytest.param(affinity(), [], [], id="a required affinity without terms"),
        pytest.param(
            affinity(term(expression("a", "DoesNotExist"), expression("b", "NotIn", "x"))),
            [expression("a", "DoesNotExist"), expression("b", "NotIn", "x")],
            [],
            id="the other two operators",
        ),
    ],
)
def test_a_pod_asks_for(spec: dict[str, Any], items: list[dict[str, Any]], inexact: list[Inexact]) -> None:
    found = requirements_of(spec)
    assert (found.items, found.inexact, found.warnings) == (items, inexact, [])


def test_what_the_schema_would_refuse_is_loosened_and_told() -> None:
    many = [f"v{n}" for n in range(MAX_VALUES + 1)]
    wild = affinity(
        term(
            expression("in", "In", *many),
            expression("not-in", "NotIn", *many),
            expression("long", "In", "v" * 64),
            expression("k" * 318, "Exists"),
            *[expression(f"k{n}", "Exists") for n in range(100)],
        )
    )
    found = requirements_of(wild)
    assert found.items[:3] == [
        expression("in", "Exists"),
        expression("long", "Exists"),
        expression("k0", "Exists"),
    ]
    assert len(found.items) == MAX_REQUIREMENTS
    assert len(found.warnings) == 5
