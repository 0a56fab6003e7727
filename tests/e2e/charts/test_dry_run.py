"""Every object of every rendering is one that a real API server takes, to the last field (`packaging#chart-tests`).

The newest minor that the test control plane has, and the oldest that it can emulate, are asked. Pods are also judged by the
level `restricted` of Pod Security (`packaging#pod-security`).
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.charts.rendering import MATRIX, Rendered, helm_binary, render
from tests.e2e.charts.api_paths import path
from tests.support.control_plane.client import APPLY_PATCH
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.options import OLDEST_MINOR, ClusterOptions

QUERY = "?dryRun=All&fieldValidation=Strict&fieldManager=dry-run&force=true"


def refused(cluster: Cluster, namespace: str, rendered: Rendered) -> list[str]:
    """Return what the API server has against the objects."""
    found = []
    for thing in rendered.objects:
        if thing["kind"] in ("Pod", "Issuer"):
            continue  # pods are tried below, under an account that is there; the definition of Issuer is not
        answer = cluster.admin.call("PATCH", path(thing, namespace) + QUERY, thing, content_type=APPLY_PATCH)
        if not answer.ok:
            found.append(f"{thing['kind']} {thing['metadata']['name']}: {json.dumps(answer.body)[:500]}")
    for name, pod in rendered.pods():
        pods = f"/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict"
        answer = cluster.admin.call("POST", pods, trial(name, pod["spec"]))
        if not answer.ok:
            found.append(f"pod of {name}: {json.dumps(answer.body)[:500]}")
    return found


def trial(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the pod that a controller would make: with the volume of its claim, here under the account that is there."""
    spec = {key: value for key, value in spec.items() if key != "serviceAccountName"}
    known = {volume["name"] for volume in spec["volumes"]}
    mounted = {mount["name"] for each in spec["containers"] for mount in each["volumeMounts"]}
    claims = [{"name": claim, "emptyDir": {}} for claim in sorted(mounted - known)]
    spec["volumes"] = [*spec["volumes"], *claims]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"try-{name}"}, "spec": spec}


def confined(cluster: Cluster, name: str) -> str:
    """Make a namespace in which only pods of the level restricted are let in."""
    cluster.make_namespace(name)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.admin.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    return name


def every_rendering(cluster: Cluster, namespace: str) -> list[str]:
    helm_binary()
    return [
        f"{name}: {problem}"
        for name, (chart, values) in MATRIX.items()
        for problem in refused(cluster, namespace, render(chart, values, namespace=namespace))
    ]


@pytest.mark.rule("packaging#chart-tests", "packaging#pod-security")
def test_a_real_api_server_takes_every_rendering(charted: Cluster, new_name: Callable[[], str]) -> None:
    namespace = confined(charted, new_name())
    assert every_rendering(charted, namespace) == []
    charted.admin.delete(f"/api/v1/namespaces/{namespace}")


def test_a_misspelt_field_and_a_loose_pod_would_be_seen(
    charted: Cluster, new_name: Callable[[], str]
) -> None:
    namespace = confined(charted, new_name())
    good = render("bigfleet-unschedulable-pod-controller", namespace=namespace)
    objects: list[dict[str, Any]] = json.loads(json.dumps(good.objects))
    (deployment,) = (thing for thing in objects if thing["kind"] == "Deployment")
    deployment["spec"]["strategi"] = {}
    del deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    problems = refused(charted, namespace, Rendered(tuple(objects), ""))
    assert len(problems) == 2, problems
    assert "strategi" in problems[0]
    assert "restricted" in problems[1]
    charted.admin.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.rule("packaging#chart-tests")
@pytest.mark.long
def test_the_oldest_minor_takes_every_rendering_too(
    make_cluster: Callable[[ClusterOptions], Cluster],
    foreign_kinds: list[dict[str, Any]],
    new_name: Callable[[], str],
) -> None:
    cluster = make_cluster(ClusterOptions(minor=OLDEST_MINOR))
    cluster.install_crds(foreign_kinds)
    assert every_rendering(cluster, confined(cluster, new_name())) == []
