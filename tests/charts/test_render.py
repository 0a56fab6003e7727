"""Every chart lints strictly and renders, at the oldest Kubernetes and the newest, and renders what it rendered before."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.kube.crds.render import chart_version
from charts.generate.files import CHARTS as MADE
from tests.charts.rendering import (
    CHARTS,
    CONTROL_PLANE,
    CRDS,
    MATRIX,
    NEEDED,
    NEWEST,
    OLDEST,
    OPERATOR,
    POD_CONTROLLER,
    Rendered,
    helm,
    helm_binary,
    merged,
    render,
    template,
)

GOLDEN = Path(__file__).parent / "golden"
pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _helm() -> None:
    helm_binary()


def digest_free(rendered: Rendered) -> str:
    """Return the rendering without what changes with every release: the version, and checksums of long files."""
    text = rendered.text.replace(chart_version(), "VERSION")
    return re.sub(r"(?m)^  bigfleet-\w+\.json: \|-\n(?:    .*\n?|\n)*", "  (a board)\n", text)


@pytest.mark.rule("packaging#chart-tests")
@pytest.mark.parametrize("name", MATRIX)
def test_lints_strictly_and_renders_at_oldest_and_newest(name: str) -> None:
    chart, values = MATRIX[name]
    given = json.dumps(merged(NEEDED.get(chart, {}), values))
    linted = helm(
        "lint", "--strict", "--kube-version", OLDEST, "--values", "-", str(CHARTS / chart), stdin=given
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "[WARNING]" not in linted.stdout
    assert render(chart, values, version=NEWEST).objects == render(chart, values, version=OLDEST).objects


@pytest.mark.parametrize("name", [name for name, (chart, _) in MATRIX.items() if chart != CRDS])
def test_renders_what_it_rendered_before(name: str, pytestconfig: pytest.Config) -> None:
    """Accept a difference you can explain with `pytest tests/charts --rewrite`."""
    chart, values = MATRIX[name]
    golden = GOLDEN / f"{name.replace(', ', '-').replace(' ', '-')}.golden"
    found = digest_free(render(chart, values))
    if pytestconfig.getoption("--rewrite"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


@pytest.mark.rule("operator#operator-charts")
@pytest.mark.parametrize("chart", [*(chart.name for chart in MADE), CRDS])
def test_an_older_kubernetes_is_refused_by_name(chart: str) -> None:
    done = template(chart, version="1.30.9")
    assert done.returncode != 0
    assert "kubeVersion: >= 1.31.0-0" in done.stderr


@pytest.mark.rule("packaging#chart-version")
@pytest.mark.parametrize("chart", [CONTROL_PLANE, OPERATOR, POD_CONTROLLER])
def test_version_appversion_and_image_are_those_of_the_package(chart: str) -> None:
    about: dict[str, Any] = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert about["version"] == about["appVersion"] == chart_version()
    images = {pod["spec"]["containers"][0]["image"] for _, pod in render(chart).pods()}
    assert images == {f"bigfleet:v{chart_version()}"}
    digest = "sha256:" + "a" * 64
    chosen = render(chart, {"image": {"registry": "registry.example.org", "digest": digest, "tag": "x"}})
    assert {pod["spec"]["containers"][0]["image"] for _, pod in chosen.pods()} == {
        f"registry.example.org/bigfleet@{digest}"
    }


@pytest.mark.parametrize("name", [name for name, (chart, _) in MATRIX.items() if chart != CRDS])
def test_objects_carry_the_labels_that_selectors_and_people_rely_on(name: str) -> None:
    chart, values = MATRIX[name]
    rendered = render(chart, values)
    for thing in rendered.objects:
        labels = thing["metadata"]["labels"]
        assert {
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/managed-by",
        } <= labels.keys()
        assert {"app.kubernetes.io/version", "helm.sh/chart"} <= labels.keys()
    for thing in rendered.objects:
        if thing["kind"] in ("StatefulSet", "Deployment"):
            selector = thing["spec"]["selector"]["matchLabels"]
            assert selector.keys() == {
                f"app.kubernetes.io/{word}" for word in ("name", "instance", "component")
            }
            assert selector.items() <= thing["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.rule("packaging#chart-names")
def test_two_releases_share_no_object() -> None:
    everything = MATRIX["production"][1]
    here = render(CONTROL_PLANE, everything)
    elsewhere = render(CONTROL_PLANE, everything, namespace="other")
    beside = render(CONTROL_PLANE, merged(everything, {"nameOverride": "second"}), release="second")
    assert len(here.names()) == len(set(here.names()))
    assert not set(here.names()) & set(elsewhere.names())
    assert not set(here.names()) & set(beside.names())
    assert {namespace for _, namespace, _ in here.names()} == {"fleet"}
    for chart in (OPERATOR, POD_CONTROLLER):
        first = render(chart, {"crds": {"install": False}} if chart == OPERATOR else {})
        second = {"nameOverride": "second"} | ({"crds": {"install": False}} if chart == OPERATOR else {})
        assert not set(first.names()) & set(render(chart, second, release="second").names())


def test_the_namespace_of_the_original_still_wins() -> None:
    rendered = render(
        CONTROL_PLANE, {"namespace": "bigfleet-system", **MATRIX["control plane, no values"][1]}
    )
    assert {namespace for _, namespace, _ in rendered.names()} == {"bigfleet-system"}
    flags = rendered.flags("StatefulSet", "bigfleet-coordinator")
    assert flags["join-addr"] == "bigfleet-coordinator.bigfleet-system.svc:7790"


@pytest.mark.rule("packaging#pod-security")
@pytest.mark.parametrize("name", [name for name, (chart, _) in MATRIX.items() if chart != CRDS])
def test_every_pod_is_confined(name: str) -> None:
    chart, values = MATRIX[name]
    for pod_name, pod in render(chart, values).pods():
        spec = pod["spec"]
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }, pod_name
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            limits = container["resources"]["limits"]
            assert limits.keys() == {"memory"}, "a CPU limit stalls the event loop and the ticks of Raft"
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            nested = [(a, b) for a in paths for b in paths if a != b and b.startswith(f"{a}/")]
            assert nested == [], "a volume inside a read-only one cannot be mounted (packaging 22, P4)"
        if chart == CONTROL_PLANE and "-certs-" not in pod_name:
            assert spec["automountServiceAccountToken"] is False
        for volume in spec["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440
