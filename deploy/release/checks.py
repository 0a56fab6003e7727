"""All checks before a release; each problem is one line.

Must never: stop at the first problem, or repair one.
Rules: `packaging#release`.
"""

from pathlib import Path
from typing import Any

import yaml

from bigfleet.kube.crds.render import chart_version
from deploy.release.changelog import section
from deploy.release.charts import chart_names
from deploy.release.errors import ReleaseError
from deploy.release.lock import read_lock
from deploy.release.manifests import FOLDER, MANIFESTS, version_of_manifest
from deploy.release.sbom import Licence, installed_licence
from deploy.release.version import version_of


def problems(root: Path, *, tag: str = "", licence: Licence = installed_licence) -> list[str]:
    """Return the problems that prevent a release of this tree."""
    try:
        version = version_of(root)
    except ReleaseError as error:
        return [str(error)]
    found = _tag_problems(version, tag)
    try:
        section((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ReleaseError as error:
        found.append(str(error))
    found += _chart_problems(root, version)
    found += _manifest_problems(root, version)
    found += _lock_problems(root, licence)
    return found


def _tag_problems(version: str, tag: str) -> list[str]:
    if tag and tag != f"v{version}":
        return [f"tag: found {tag}, allowed is v{version}, the version that bigfleet/version.py states"]
    return []


def _chart_problems(root: Path, version: str) -> list[str]:
    found = []
    wanted = chart_version(version)
    for name in chart_names(root / "charts"):
        path = root / "charts" / name / "Chart.yaml"
        chart: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))  # Any: YAML
        for field, due in (("version", wanted), ("appVersion", wanted), ("name", name)):
            if str(chart.get(field)) != due:
                found.append(f"charts/{name}/Chart.yaml: {field}: found {chart.get(field)}, allowed is {due}")
    return found


def _manifest_problems(root: Path, version: str) -> list[str]:
    """Compare only the versions; a test, which has Helm, compares the content."""
    found, wanted = [], chart_version(version)
    for manifest in MANIFESTS:
        path = root / FOLDER / manifest.name
        stated = version_of_manifest(path.read_text(encoding="utf-8")) if path.is_file() else "no file"
        if stated != wanted:
            found.append(f"{FOLDER}/{manifest.name}: found {stated}, allowed is {wanted}; run make manifests")
    return found


def _lock_problems(root: Path, licence: Licence) -> list[str]:
    try:
        packages = read_lock((root / "requirements.lock").read_text(encoding="utf-8"))
    except ReleaseError as error:
        return [str(error)]
    return [
        f"requirements.lock: {package.name} {package.version}: its licence is unknown"
        for package in packages
        if not licence(package.name)
    ]
