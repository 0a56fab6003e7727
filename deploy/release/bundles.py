"""Archives of files of the tree: manifests for installation without Helm, and measurements.

Must never: add a file that is not in the commit.
"""

from pathlib import Path

from deploy.release.archive import packed
from deploy.release.manifests import FOLDER, MANIFESTS

_INSTALL = """\
BigFleet {version} without Helm. See docs/install.md of the same version.

install.yaml   the management cluster: coordinator, shard, dashboard
cluster.yaml   every workload cluster: operator, pod controller, custom resources
crds/          the custom resources alone
rules/         alerts for Prometheus
boards/        boards for Grafana

Each of the first two begins with what to do before it is applied.
"""


def install_bundle(
    sources: Path, *, version: str, epoch_s: int, custom_resources: bytes
) -> tuple[str, bytes]:
    """Return the archive for installation without Helm: manifests, custom resources, rules, boards."""
    files = {
        "README.txt": _INSTALL.format(version=version).encode(),
        "LICENSE": (sources / "LICENSE").read_bytes(),
        **{one.name: (sources / FOLDER / one.name).read_bytes() for one in MANIFESTS},
        "crds/bigfleet-crds.yaml": custom_resources,
        "rules/bigfleet.yaml": (sources / "deploy" / "prometheus" / "rules.yaml").read_bytes(),
        **{
            f"boards/{path.name}": path.read_bytes()
            for path in sorted((sources / "deploy" / "grafana").glob("*.json"))
        },
    }
    return _bundle(f"bigfleet-install-{version}", files, epoch_s)


def evidence_bundle(sources: Path, *, version: str, epoch_s: int) -> tuple[str, bytes]:
    """Return the archive of measurements: the files of figures, and the pages that explain them."""
    folder = sources / "docs" / "evidence"
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    return _bundle(f"bigfleet-evidence-{version}", files, epoch_s)


def _bundle(name: str, files: dict[str, bytes], epoch_s: int) -> tuple[str, bytes]:
    entries = [(f"{name}/{path}", content) for path, content in sorted(files.items())]
    return f"{name}.tgz", packed(entries, epoch_s)
