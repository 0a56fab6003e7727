"""Every Kubernetes object written down in this repository is one that a real API server takes, to the last field.

Charts with control flow are rendered by Helm elsewhere; templates that only fill in values are read here as they are.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import KubectlError
from tests.support.control_plane.objects import pod

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"node_modules", "site", "build", "dist"}
FENCE = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"\{\{ *[.$][\w.]* *\}\}")
# Files for other programs, which only look like objects; and kinds of operators that this API server does not know. Those that
# charts or deploy/ make are judged in tests/e2e/charts by one that does.
ELSEWHERE = re.compile(
    r"(v1/Config|(kind\.x-k8s\.io|kustomize\.config\.k8s\.io|kwok\.x-k8s\.io|monitoring\.coreos\.com|cert-manager\.io)/.*)"
)


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every text that may hold objects, with where it stands."""
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.suffix not in {".yaml", ".yml", ".json", ".md"} or not path.is_file():
            continue
        if any(part.startswith(".") or part in SKIPPED for part in inside.parts[:-1]):
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            yield inside.as_posix(), text
            continue
        for number, block in enumerate(FENCE.findall(text), 1):
            yield f"{inside.as_posix()}, block {number}", block


def is_object(thing: object) -> bool:
    if not isinstance(thing, dict) or not {"apiVersion", "kind"} <= thing.keys():
        return False
    return ELSEWHERE.fullmatch(f"{thing['apiVersion']}/{thing['kind']}") is None


def objects(root: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return every object below a directory, with where it stands."""
    found: list[tuple[str, dict[str, Any]]] = []
    for where, text in texts(root):
        filled = VALUE.sub("testbed", text)
        if "{{" in filled or not re.search(r"^\s*\"?kind\"?:", filled, re.MULTILINE):
            continue
        documents = [json.loads(filled)] if where.endswith(".json") else yaml.safe_load_all(filled)
        found += [(where, thing) for thing in documents if is_object(thing)]
    return found


def dry_run(cluster: Cluster, found: list[tuple[str, dict[str, Any]]], folder: Path) -> None:
    """Ask the API server about all of them; it names every field it does not know."""
    for namespace in sorted({str(thing["metadata"].get("namespace", "default")) for _, thing in found}):
        if cluster.admin.find(f"/api/v1/namespaces/{namespace}") is None:
            cluster.make_namespace(namespace)
    for number, (where, thing) in enumerate(found):
        name = re.sub(r"[^\w.-]+", "_", f"{number}_{where}")
        (folder / f"{name}.json").write_text(json.dumps(thing), encoding="utf-8")
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(folder))


@pytest.mark.rule("packaging#docs-objects")
def test_every_object_of_the_repository_passes_a_strict_dry_run(cluster: Cluster, tmp_path: Path) -> None:
    found = objects(ROOT)
    charted = {where for where, _ in found if where.startswith("charts/bigfleet-crds/")}
    assert len(charted) == 3
    dry_run(cluster, found, tmp_path)


def test_a_misspelt_field_is_refused_by_name(cluster: Cluster, tmp_path: Path) -> None:
    good = pod("good")
    bad = pod("bad", nodeSelectr={"a": "b"})
    with pytest.raises(
        KubectlError, match=r'1_bad\.yaml\.json": .*unknown field "spec\.nodeSelectr"'
    ) as refused:
        dry_run(cluster, [("good.yaml", good), ("bad.yaml", bad)], tmp_path)
    assert "good.yaml" not in refused.value.stderr


def test_objects_are_found_in_files_in_pages_and_in_plain_templates(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
    (tmp_path / "two.yaml").write_text(text % "a" + "---\n" + text % "b")
    (tmp_path / "page.md").write_text(f"# A page\n\n```yaml\n{text % 'c'}```\n\n```sh\nkind: no\n```\n")
    (tmp_path / "plain.yaml").write_text(text % "'{{ .Chart.Name }}-d'")
    (tmp_path / "flow.yaml").write_text("{{- if .Values.on }}\n" + text % "e" + "{{- end }}\n")
    (tmp_path / "values.yaml").write_text("kind: nothing\n")
    (tmp_path / "kind.yaml").write_text("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "f.yaml").write_text(text % "f")
    assert [(where, thing["metadata"]["name"]) for where, thing in objects(tmp_path)] == [
        ("page.md, block 1", "c"),
        ("plain.yaml", "testbed-d"),
        ("two.yaml", "a"),
        ("two.yaml", "b"),
    ]
