"""Rendered objects fit the schemas of the oldest and the newest Kubernetes, offline (`packaging#chart-tests`)."""

import copy
import os
from functools import cache
from typing import Any

import pytest

from tests.charts.kube_schema import KubeSchema
from tests.charts.rendering import MATRIX, NEWEST, OLDEST, POD_CONTROLLER, ROOT, render
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.tools import find_schemas

OF_OTHERS = {"Certificate", "Issuer", "PodMonitor", "PrometheusRule"}
"""Kinds of other projects; a real API server that has their definitions judges them, but for Issuer, in tests/e2e/charts."""


@cache
def schemas() -> dict[str, KubeSchema]:
    try:
        files = find_schemas(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    assert [file.stem for file in files] == [f"kubernetes-v{OLDEST}", f"kubernetes-v{NEWEST}"]
    return {version: KubeSchema(file) for version, file in zip((OLDEST, NEWEST), files, strict=True)}


@pytest.mark.rule("packaging#chart-tests")
@pytest.mark.integration
@pytest.mark.parametrize("name", MATRIX)
def test_every_object_fits_the_oldest_and_the_newest_schema(name: str) -> None:
    chart, values = MATRIX[name]
    for version, schema in schemas().items():
        for thing in render(chart, values, version=version).objects:
            assert schema.knows(thing) or thing["kind"] in OF_OTHERS, thing["kind"]
            if schema.knows(thing):
                assert schema.problems(thing) == []


@pytest.mark.rule("packaging#chart-tests")
@pytest.mark.integration
@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("spec", "strategi"), {}, "Deployment.spec.strategi: no such field"),
        (("spec", "replicas"), "one", "Deployment.spec.replicas: found 'one', allowed is integer"),
        (("spec", "selector"), None, "Deployment.spec.selector: missing"),
        (("spec", "template", "spec", "tolerations"), [{"key": 7}], "tolerations[0].key: found 7"),
        (("metadata", "labels"), {"a": 1}, "Deployment.metadata.labels.a: found 1, allowed is string"),
        (("spec", "template", "spec", "hostnameOverride"), "a", "hostnameOverride: no such field"),
    ],
)
def test_a_wrong_field_would_be_seen(path: tuple[str, ...], value: Any, told: str) -> None:
    thing = copy.deepcopy(render(POD_CONTROLLER).all("Deployment")[0])
    *way, last = path
    at = thing
    for word in way:
        at = at[word]
    if value is None:
        del at[last]
    else:
        at[last] = value
    (problem,) = schemas()[OLDEST].problems(thing)
    assert told in problem
    if last == "hostnameOverride":  # the newest has it: the two are not one and the same
        assert schemas()[NEWEST].problems(thing) == []
