"""The rendered charts for installation without Helm: `install.yaml` and `cluster.yaml`.

Why: a release is built without Helm (ADR-0175), so the rendered charts are in the repository, next to their values; a test
renders the packed charts again and compares.
Must never: contain a secret, or anything that differs between two renderings.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from bigfleet.kube.crds.render import chart_version
from deploy.release.charts import package
from deploy.release.errors import ReleaseError
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.tools import find_helm

FOLDER: Final = "deploy/release/manifests"
NAMESPACE: Final = "bigfleet-system"
_OLDEST: Final = "1.31.0"
_NOTHING_SET: Final[dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file: its charts and values, and what to do before it is applied."""

    name: str
    charts: Mapping[str, dict[str, Any]]
    first: str


MANIFESTS: Final = (
    Manifest(
        "install.yaml",
        {
            "bigfleet": {
                "coordinator": {"raftSecret": {"existingSecret": "bigfleet-raft"}},
                "shard": {
                    "dryRun": True,
                    "auditLog": "/var/lib/bigfleet-shard/audit.jsonl",
                    "external": {"enabled": True},
                },
            }
        },
        "For the management cluster. First make the Secret bigfleet-raft with a key `secret` of 32 random bytes or more. It runs in\n"
        "dry run with a provider that only pretends; the charts' values say how to change each. The Job bigfleet-certs-setup signs the\n"
        "certificates; shards wait for theirs. Before you apply a changed file, delete that Job.",
    ),
    Manifest(
        "cluster.yaml",
        {
            "bigfleet-operator": {
                "clusterID": "CHANGE-ME",
                "shardAddress": "CHANGE-ME:7780",
                "tls": {"secretName": "bigfleet-operator-tls"},
            },
            "bigfleet-unschedulable-pod-controller": _NOTHING_SET,
        },
        "For every workload cluster. First put the cluster's own id and its shard's address in place of CHANGE-ME, and make the Secret\n"
        "bigfleet-operator-tls with tls.crt, tls.key and ca.crt of the certificate bigfleet://cluster/<id>.",
    ),
)


def helm_or_reason(testbed: Path) -> Path:
    """Return the path of Helm; the error says how to get it."""
    try:
        return find_helm(testbed, os.environ)
    except BinaryMissingError as error:
        raise ReleaseError(f"{FOLDER}: cannot be rendered: {error}") from None


def rendered(root: Path, helm: Path) -> dict[str, str]:
    """Return the content of every file, rendered by Helm from the packages of a release."""
    version = chart_version()
    made = {}
    with tempfile.TemporaryDirectory() as scratch:
        for manifest in MANIFESTS:
            parts = []
            for chart, values in manifest.charts.items():
                file, content = package(root / "charts", chart, version=version, epoch_s=0)
                path, given = Path(scratch) / file, Path(scratch) / "values.yaml"
                path.write_bytes(content)
                given.write_text(yaml.safe_dump(values), encoding="utf-8")
                parts.append(_template(helm, chart, path, given, Path(scratch)))
            head = f"# BigFleet {version}, made by `make manifests` from the charts.\n"
            head += "".join(f"# {line}\n" for line in manifest.first.splitlines())
            made[manifest.name] = head + _NAMESPACE_OBJECT + "".join(parts)
    return made


def version_of_manifest(text: str) -> str:
    """Return the version of a file."""
    return text.partition(",")[0].removeprefix("# BigFleet ")


_NAMESPACE_OBJECT: Final = f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n"


def _template(helm: Path, release: str, chart: Path, values: Path, home: Path) -> str:
    given = ["--namespace", NAMESPACE, "--values", str(values), "--kube-version", _OLDEST, "--skip-tests"]
    command = [str(helm), "template", release, str(chart), *given]
    environ = {"PATH": os.environ.get("PATH", ""), "HOME": str(home)}  # without the user's plugins
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        raise ReleaseError(f"helm template {release}: {done.stderr.strip().splitlines()[0]}")
    return done.stdout
