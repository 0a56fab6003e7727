"""Builds all files of a release, the same bytes for the same commit.

| file | what |
|---|---|
| `bigfleet-<v>-py3-none-any.whl`, `bigfleet-<v>.tar.gz` | wheel and sdist; the wheel is built from the sdist |
| `<chart>-<v>.tgz` | one per chart, with the charts it needs inside |
| `bigfleet-crds-<v>.yaml` | the custom resources for those who do not use Helm |
| `bigfleet-install-<v>.tgz` | rendered charts, custom resources, rules and boards in one archive |
| `bigfleet-<v>.cdx.json`, `bigfleet-<v>.spdx.json` | bill of materials in two forms |
| `LICENCES-<v>.txt` | the same for people |
| `bigfleet-evidence-<v>.tgz` | what was measured, with the benchmarks' own files |
| `bigfleet-<v>-requirements.txt` | the locked dependencies, with hashes |
| `CHANGES-<v>.md` | the section of the change log |
| `provenance-<v>.json` | which commit gave which bytes, as an in-toto statement |
| `SHA256SUMS` | checksums of all others |

Must never: use the network, or a file that is not in the commit.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.crds.render import chart_version
from deploy.release.bundles import evidence_bundle, install_bundle
from deploy.release.changelog import section
from deploy.release.charts import chart_names, package
from deploy.release.errors import ReleaseError
from deploy.release.lock import read_lock
from deploy.release.sbom import bill, licence_list
from deploy.release.sources import Commit
from deploy.release.spdx import document
from deploy.release.version import version_of

CHECKSUMS: Final = "SHA256SUMS"


def build(sources: Path, commit: Commit, out: Path) -> list[Path]:
    """Build all files of a release from exported sources, and return them, checksums last."""
    version = version_of(sources)
    charts_version = chart_version(version)
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out}: is not empty; a release is made into an empty directory")
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    for name in chart_names(sources / "charts"):
        file, content = package(sources / "charts", name, version=charts_version, epoch_s=commit.epoch_s)
        files[file] = content
    crds = files[f"bigfleet-crds-{charts_version}.yaml"] = custom_resources()
    files |= [
        install_bundle(sources, version=charts_version, epoch_s=commit.epoch_s, custom_resources=crds),
        evidence_bundle(sources, version=charts_version, epoch_s=commit.epoch_s),
    ]
    lock = (sources / "requirements.lock").read_text(encoding="utf-8")
    pinned = read_lock(lock)
    files[f"bigfleet-{version}.cdx.json"] = bill(pinned, version=version, epoch_s=commit.epoch_s).encode()
    files[f"bigfleet-{version}.spdx.json"] = document(
        pinned, version=version, epoch_s=commit.epoch_s
    ).encode()
    files[f"LICENCES-{version}.txt"] = licence_list(pinned).encode()
    files[f"bigfleet-{version}-requirements.txt"] = lock.encode()
    changes = section((sources / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    files[f"CHANGES-{version}.md"] = changes.encode()
    for name, content in files.items():
        (out / name).write_bytes(content)
    _distributions(sources, commit, out)
    digests = {path.name: _sha256(path) for path in sorted(out.iterdir())}
    statement = out / f"provenance-{version}.json"
    statement.write_text(_provenance(digests, commit, version), encoding="utf-8")
    digests[statement.name] = _sha256(statement)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    (out / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
    return [*(out / name for name in sorted(digests)), out / CHECKSUMS]


def _distributions(sources: Path, commit: Commit, out: Path) -> None:
    """Build the sdist, and the wheel from it."""
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(commit.epoch_s),
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
    }
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(sources)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no words"]
        raise ReleaseError(f"python -m build: {said[-1]}")
    for left in out.iterdir():
        if left.is_dir():  # some versions of the builder leave their scratch directory behind
            shutil.rmtree(left)


def custom_resources() -> bytes:
    """Return the custom resource definitions as one file."""
    documents = [definition.manifest() for definition in DEFINITIONS]
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120).encode()


def _provenance(digests: dict[str, str], commit: Commit, version: str) -> str:
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {"version": version},
                "resolvedDependencies": [{"uri": "git+.", "digest": {"gitCommit": commit.id}}],
            },
            "runDetails": {"builder": {"id": "make release"}},
        },
    }
    return json.dumps(statement, indent=2, sort_keys=True) + "\n"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
