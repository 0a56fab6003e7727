"""Charts rendered by the real Helm, and ways to look at what came out."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.tools import find_helm

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "charts"
EXAMPLES = ROOT / "deploy" / "examples"
OLDEST, NEWEST = "1.31.0", "1.36.3"
CONTROL_PLANE, OPERATOR, POD_CONTROLLER = (
    "bigfleet",
    "bigfleet-operator",
    "bigfleet-unschedulable-pod-controller",
)
CRDS = "bigfleet-crds"
NEEDED: dict[str, dict[str, Any]] = {
    OPERATOR: {
        "clusterID": "prod-1",
        "shardAddress": "shard-0.example.org:7780",
        "tls": {"secretName": "bigfleet-operator-tls"},
    }
}
SECRET: dict[str, Any] = {  # so that two renderings are equal
    "coordinator": {"raftSecret": {"existingSecret": "raft"}},
    "dashboard": {"tokenSecret": "token"},
}
CERT_MANAGER = "cert-manager.io/v1/Certificate,cert-manager.io/v1/Issuer"

Document = dict[str, Any]


def helm_binary() -> Path:
    """Return Helm; without it the test is skipped, or fails where CI asks for it."""
    try:
        return find_helm(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def helm(
    *arguments: str, stdin: str = "", kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Helm with a home of its own, so that nobody's plugins and repositories take part."""
    with tempfile.TemporaryDirectory(prefix="bigfleet-helm-") as home:
        environ = {"PATH": os.environ["PATH"], "HOME": home, "NO_PROXY": "127.0.0.1"}
        if kubeconfig is not None:
            environ["KUBECONFIG"] = str(kubeconfig)
        return subprocess.run(
            [helm_binary(), *arguments],
            env=environ,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )


@dataclass(frozen=True)
class Rendered:
    """The objects of one rendering."""

    objects: tuple[Document, ...]
    text: str

    def kinds(self) -> set[str]:
        return {thing["kind"] for thing in self.objects}

    def all(self, kind: str) -> list[Document]:
        return [thing for thing in self.objects if thing["kind"] == kind]

    def one(self, kind: str, name: str) -> Document:
        found = [thing for thing in self.all(kind) if thing["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} of {kind} {name} in {sorted(self.names())}"
        return found[0]

    def names(self) -> list[tuple[str, str, str]]:
        return [
            (thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"])
            for thing in self.objects
        ]

    def pods(self) -> Iterator[tuple[str, Document]]:
        """Yield the pod template of every workload, and bare pods, with a name."""
        for thing in self.objects:
            if thing["kind"] in ("StatefulSet", "Deployment", "Job"):
                yield thing["metadata"]["name"], thing["spec"]["template"]
            elif thing["kind"] == "CronJob":
                yield thing["metadata"]["name"], thing["spec"]["jobTemplate"]["spec"]["template"]
            elif thing["kind"] == "Pod":
                yield thing["metadata"]["name"], thing

    def container(self, kind: str, name: str) -> Document:
        containers: list[Document] = self.one(kind, name)["spec"]["template"]["spec"]["containers"]
        assert len(containers) == 1
        return containers[0]

    def flags(self, kind: str, name: str) -> dict[str, str]:
        """Return the arguments of a workload's container, by flag."""
        return dict(
            argument.removeprefix("--").partition("=")[::2] for argument in self.container(kind, name)["args"]
        )


def template(
    chart: str,
    values: Mapping[str, Any] | None = None,
    *,
    version: str = OLDEST,
    namespace: str = "fleet",
    release: str = "demo",
    kinds: str = "",
) -> subprocess.CompletedProcess[str]:
    """Render a chart, whatever comes of it; values that a chart cannot do without are added.

    `kinds` are those that the cluster has besides Kubernetes' own, with commas between.
    """
    given = merged(NEEDED.get(chart, {}), values or {})
    known = ("--api-versions", kinds) if kinds else ()
    return helm(
        "template", release, str(CHARTS / chart), "--namespace", namespace, "--kube-version", version, "--values", "-", *known,
        stdin=json.dumps(given),
    )  # fmt: skip


def render(chart: str, values: Mapping[str, Any] | None = None, **more: str) -> Rendered:
    """Render a chart that must be good; the same rendering is made once."""
    return _render(chart, json.dumps(values or {}, sort_keys=True), tuple(sorted(more.items())))


@cache
def _render(chart: str, values: str, more: tuple[tuple[str, str], ...]) -> Rendered:
    done = template(chart, json.loads(values), **dict(more))
    assert done.returncode == 0, done.stderr
    return Rendered(tuple(filter(None, yaml.safe_load_all(done.stdout))), done.stdout)


def refusal(chart: str, values: Mapping[str, Any]) -> str:
    """Return what Helm says when it refuses values."""
    done = template(chart, values)
    assert done.returncode != 0, f"rendered, though {values} cannot work"
    return done.stderr


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, the second winning, maps taken apart."""
    both = dict(low)
    for key, value in high.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the values that set one dotted path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def example(name: str) -> dict[str, Any]:
    """Return one of the example values files."""
    found = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


MATRIX: dict[str, tuple[str, dict[str, Any]]] = {
    "control plane, no values": (CONTROL_PLANE, SECRET),
    "small": (CONTROL_PLANE, merged(SECRET, example("values-small.yaml"))),
    "production": (CONTROL_PLANE, example("values-production.yaml")),
    "kind": (CONTROL_PLANE, merged(SECRET, example("values-kind.yaml"))),
    "shards only": (
        CONTROL_PLANE,
        {
            "coordinator": {"enabled": False},
            "shard": {"coordinatorAddress": "coordinator.elsewhere:7790"},
            "certificates": {"authoritySecret": "fleet-ca"},
        },
    ),
    "a shard alone": (
        CONTROL_PLANE,
        merged(
            SECRET,
            {"coordinator": {"enabled": False}, "shard": {"auditLog": "/a"}, "dashboard": {"enabled": True}},
        ),
    ),
    "job": (
        CONTROL_PLANE,
        merged(
            SECRET,
            {
                "shard": {
                    "replicas": 2,
                    "external": {"enabled": True, "hostnamePattern": "s-%d.example.org"},
                },
                "dashboard": {"enabled": True},
                "certificates": {
                    "clusters": ["prod-1"],
                    "further": [
                        {
                            "secret": "provider-tls",
                            "uri": "bigfleet://shard/provider",
                            "dnsNames": ["provider.providers.svc"],
                        }
                    ],
                },
            },
        ),
    ),
    "cert-manager": (
        CONTROL_PLANE,
        merged(SECRET, {"certManager": {"enabled": True}, "certificates": {"clusters": ["prod-1"]}}),
    ),
    "insecure": (CONTROL_PLANE, merged(SECRET, {"insecure": True, "dashboard": {"enabled": True}})),
    "csi": (
        CONTROL_PLANE,
        merged(
            SECRET,
            {
                "coordinator": {
                    "tls": {"secretName": "c"},
                    "spread": {"hostname": "preferred", "zone": "required"},
                },
                "shard": {"replicas": 2, "tls": {"csi": {"enabled": True, "issuerName": "ca"}}},
                "networkPolicy": {"egress": {"enabled": True}},
                "dashboard": {
                    "enabled": True,
                    "tls": {"secretName": "d"},
                    "prometheusUrl": "http://prometheus.monitoring:9090",
                },
            },
        ),
    ),
    "operator, no values": (OPERATOR, {}),
    "operator": (
        OPERATOR,
        merged(example("operator-values.yaml"), {"networkPolicy": {"egress": {"enabled": True}}}),
    ),
    "operator, two and a secret": (
        OPERATOR,
        {
            "replicas": 2,
            "leaderElect": True,
            "bootstrapTemplateSecret": {"name": "join"},
            "crds": {"install": False},
        },
    ),
    "pod controller, no values": (POD_CONTROLLER, {}),
    "pod controller": (POD_CONTROLLER, merged(example("pod-controller-values.yaml"), {"leaderElect": True})),
    "definitions": (CRDS, {}),
}
