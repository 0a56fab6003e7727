"""Renders an installation for those who do not use Helm, one file per chart.

    python -m charts.manifests DIR

Why: `kubectl apply` is all that some have; what they apply is what Helm would have installed, and nothing written by hand.
Called by: `make manifests OUT=DIR`.
Must never: write a secret: rendered offline the chart would make a new one every time, so the Raft secret is one made beforehand.

What differs from cluster to cluster stands in the files as CLUSTER-ID and SHARD-ADDRESS:7780.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bigfleet.testing.control_plane.errors import ControlPlaneError
from bigfleet.testing.control_plane.tools import find_helm

CHARTS: Final = Path(__file__).resolve().parent
NAMESPACE: Final = "bigfleet-system"
OLDEST: Final = "1.31.0"
MANIFESTS: Final[dict[str, tuple[str, ...]]] = {
    "bigfleet-crds": (),
    "bigfleet": ("coordinator.raftSecret.existingSecret=bigfleet-raft",),
    "bigfleet-operator": ("crds.install=false", "clusterID=CLUSTER-ID", "shardAddress=SHARD-ADDRESS:7780"),
    "bigfleet-unschedulable-pod-controller": (),
}
_HEAD: Final = """\
# Made from the chart {chart} with: {values}
# Apply it into a namespace {namespace}: kubectl apply --server-side -n {namespace} -f {file}
"""


def write(folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """Render every chart into a folder; returns the files."""
    helm = find_helm(CHARTS.parent / "testbed", environ)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart, values in MANIFESTS.items():
        path = folder / f"{chart}.yaml"
        told = ", ".join(values) or "no values"
        head = _HEAD.format(chart=chart, values=told, namespace=NAMESPACE, file=path.name)
        path.write_text(head + _rendered(helm, chart, values), encoding="utf-8")
        written.append(path)
    return written


def _rendered(helm: Path, chart: str, values: Sequence[str]) -> str:
    command = [str(helm), "template", chart, str(CHARTS / chart), "--namespace", NAMESPACE, "--no-hooks"]
    command += ["--kube-version", OLDEST, *(word for each in values for word in ("--set", each))]
    with tempfile.TemporaryDirectory() as home:  # nobody's plugins and repositories
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": home}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        raise ControlPlaneError(f"helm template {chart}: {done.stderr.strip()}")
    return done.stdout


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Write the files and name them."""
    if len(argv) != 1:
        print("usage: python -m charts.manifests DIR", file=sys.stderr)
        return 2
    try:
        for path in write(Path(argv[0]), environ):
            print(path)
    except ControlPlaneError as error:
        print(f"manifests: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
