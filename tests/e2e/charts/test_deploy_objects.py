"""Plain objects of deploy/, and the installation for those without Helm, are ones that a real API server takes.

Rules: `packaging#deploy`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.aio.identity import Identity
from deploy.release.manifests import FOLDER, MANIFESTS, NAMESPACE
from tests.charts.rendering import ROOT
from tests.e2e.charts.api_paths import path
from tests.support.control_plane.client import APPLY_PATCH
from tests.support.control_plane.cluster import Cluster

QUERY = "?dryRun=All&fieldValidation=Strict&fieldManager=dry-run&force=true"
DEPLOY = ROOT / "deploy"
FILES = [
    *sorted((DEPLOY / "examples" / "objects").glob("*.yaml")),
    *sorted((DEPLOY / "cert-manager").glob("*.yaml")),
    DEPLOY / "kind" / "workload.yaml",
]
UNKNOWN = {"Issuer"}
"""Kinds of cert-manager whose definition the tests do not have."""


def documents(file: Path) -> list[dict[str, Any]]:
    return [thing for thing in yaml.safe_load_all(file.read_text(encoding="utf-8")) if thing]


def refused(cluster: Cluster, namespace: str, things: list[dict[str, Any]]) -> list[str]:
    """Return what the API server has against objects, which are tried in a namespace of this test."""
    found = []
    for given in things:
        if given["kind"] in UNKNOWN:
            continue
        thing = json.loads(json.dumps(given))
        if thing["kind"] == "PriorityClass":
            where = f"/apis/scheduling.k8s.io/v1/priorityclasses/{thing['metadata']['name']}"
        else:
            if "namespace" in thing["metadata"]:
                thing["metadata"]["namespace"] = namespace
            where = path(thing, namespace)
        answer = cluster.admin.call("PATCH", where + QUERY, thing, content_type=APPLY_PATCH)
        if not answer.ok:
            found.append(f"{thing['kind']} {thing['metadata']['name']}: {json.dumps(answer.body)[:400]}")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_example_is_taken(charted: Cluster, new_name: Callable[[], str], file: Path) -> None:
    namespace = new_name()
    charted.make_namespace(namespace)
    assert refused(charted, namespace, documents(file)) == []
    spoilt = documents(file)
    spoilt[0]["specc"] = {}
    if spoilt[0]["kind"] not in UNKNOWN:
        assert len(refused(charted, namespace, spoilt)) == 1


def test_every_role_has_a_certificate_with_one_identity() -> None:
    found = documents(DEPLOY / "cert-manager" / "certificates.yaml")
    identities = [Identity.parse(uri) for each in found for uri in each["spec"]["uris"]]
    assert len(identities) == len(found)
    assert {identity.role.value for identity in identities} == {"admin", "shard", "cluster", "readonly"}
    for each in found:
        assert {"server auth", "client auth"} <= set(each["spec"]["usages"])


@pytest.mark.parametrize("name", [manifest.name for manifest in MANIFESTS])
def test_the_installation_without_helm_is_taken_and_holds_no_secret(
    charted: Cluster, new_name: Callable[[], str], name: str
) -> None:
    first, *things = documents(ROOT / FOLDER / name)
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", NAMESPACE)
    assert not [thing for thing in things if thing["kind"] == "Secret"]
    assert {thing["metadata"].get("namespace", NAMESPACE) for thing in things} == {NAMESPACE}
    namespace = new_name()
    charted.make_namespace(namespace)
    assert refused(charted, namespace, things) == []
