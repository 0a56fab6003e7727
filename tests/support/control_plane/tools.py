"""Finds Helm, the kinds of cert-manager and Prometheus operator and Kubernetes' own schemas in the user's cache, and puts them there when asked to.

Why: charts are rendered and installed by the real Helm, against an API server that knows what the charts make; both come from
the Go module proxy, pinned by `go.sum`, so that nothing is installed by hand.
Must never: download because a test was started, or take a module whose checksum is not written down.
The key is the content of `go.mod` and `go.sum`, and the version and architecture of Go.

HELM_BINARY names a Helm of the user's own; without Go, or before `make testbed`, the `helm` of the path is used.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.control_plane.build import toolchain
from tests.support.control_plane.errors import (
    BinaryMissingError,
    BuildError,
    ControlPlaneError,
    ToolMissingError,
)

HELM_VARIABLE: Final = "HELM_BINARY"
_HELM: Final = "helm.sh/helm/v3/cmd/helm"
_COMMAND: Final = "`make testbed`"
_FLAGS: Final = "-trimpath -buildvcs=false -mod=readonly"
_OUTPUT_SHOWN: Final = 4_000
KINDS: Final = {
    "github.com/cert-manager/cert-manager": ("deploy/crds/cert-manager.io_certificates.yaml",),
    "github.com/prometheus-operator/prometheus-operator": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}
"""Which files of which module are the kinds that our charts make objects of."""


_KUBERNETES: Final = "k8s.io/kubernetes"
_SCHEMA: Final = "api/openapi-spec/swagger.json"
_COMPOSE: Final = "github.com/compose-spec/compose-go/v2"
_COMPOSE_SCHEMA: Final = "schema/compose-spec.json"


def find_helm(testbed: Path, environ: Mapping[str, str]) -> Path:
    """Return a Helm: the one named, the pinned one, or that of the path; says what to do when there is none."""
    if given := environ.get(HELM_VARIABLE):
        if not os.access(given, os.X_OK):
            raise ToolMissingError(f"{HELM_VARIABLE} names {given}, which cannot be executed")
        return Path(given)
    try:
        pinned = _place(testbed / "tools", environ) / "helm"
    except BinaryMissingError:
        pinned = None
    if pinned is not None and pinned.exists():
        return pinned
    found = shutil.which("helm", path=environ.get("PATH"))
    if found and _helm_version(found).startswith("v3."):
        return Path(found)
    raise ToolMissingError(f"no Helm 3; run {_COMMAND}, or put a helm of version 3 on the path")


def find_kinds(testbed: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files of the third-party kinds; says what to do when they are not there."""
    folder = _place(testbed / "kinds", environ)
    files = tuple(folder / Path(name).name for names in KINDS.values() for name in names)
    if not all(file.exists() for file in files):
        raise ToolMissingError(f"no kinds of cert-manager and Prometheus operator; run {_COMMAND}")
    return files


def find_schemas(testbed: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return what the oldest and the newest Kubernetes say of their API, in that order."""
    files = tuple(_schema(testbed, source, environ) for source in _schema_sources(testbed))
    if not all(file.exists() for file in files):
        raise ToolMissingError(f"no schemas of Kubernetes; run {_COMMAND}")
    return files


def find_compose_schema(testbed: Path, environ: Mapping[str, str]) -> Path:
    """Return the schema of compose files."""
    file = _place(testbed / "schemas", environ) / Path(_COMPOSE_SCHEMA).name
    if not file.exists():
        raise ToolMissingError(f"no schema of compose files; run {_COMMAND}")
    return file


def find_promtool(environ: Mapping[str, str]) -> Path:
    """Return promtool of the path; says what to do when there is none."""
    found = shutil.which("promtool", path=environ.get("PATH"))
    if found is None:
        raise ToolMissingError(
            "no promtool on the path; it is part of Prometheus (Debian package prometheus)"
        )
    return Path(found)


def build(testbed: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return Helm and the kinds, fetched now unless they are in the cache; one builder at a time."""
    helm = _place(testbed / "tools", environ) / "helm"
    kinds = _place(testbed / "kinds", environ)
    helm.parent.mkdir(parents=True, exist_ok=True)
    kinds.mkdir(parents=True, exist_ok=True)
    with (helm.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not helm.exists():
            fresh = helm.with_suffix(".new")
            _go(testbed / "tools", environ, "build", "-ldflags", "-s -w", "-o", str(fresh), _HELM)
            os.replace(fresh, helm)
        for module, names in KINDS.items():
            missing = [name for name in names if not (kinds / Path(name).name).exists()]
            if missing:
                files = {name: kinds / Path(name).name for name in missing}
                _take(testbed / "kinds", environ, module, files)
        for source in _schema_sources(testbed):
            schema = _schema(testbed, source, environ)
            schema.parent.mkdir(parents=True, exist_ok=True)
            if not schema.exists():
                _take(source, environ, _KUBERNETES, {_SCHEMA: schema})
        compose = _place(testbed / "schemas", environ) / Path(_COMPOSE_SCHEMA).name
        if not compose.exists():
            _take(testbed / "schemas", environ, _COMPOSE, {_COMPOSE_SCHEMA: compose})
    return helm, *find_kinds(testbed, environ), *find_schemas(testbed, environ), compose


def _schema_sources(testbed: Path) -> tuple[Path, Path]:
    # The newest one is that of the test control plane, whose archive is there already.
    return testbed / "schemas", testbed


def _schema(testbed: Path, source: Path, environ: Mapping[str, str]) -> Path:
    version = _version(source, _KUBERNETES)
    return _place(testbed / "schemas", environ) / f"kubernetes-{version}.json"


@cache
def _helm_version(program: str) -> str:
    # Other majors word refusals differently, and tests quote them.
    command = (program, "version", "--short")
    return subprocess.run(command, text=True, capture_output=True, check=False).stdout


def _take(source: Path, environ: Mapping[str, str], module: str, files: Mapping[str, Path]) -> None:
    downloaded: dict[str, Any] = json.loads(
        _go(source, environ, "mod", "download", "-json", f"{module}@{_version(source, module)}")
    )
    if downloaded["Sum"] not in (source / "go.sum").read_text(encoding="utf-8"):
        raise BuildError(f"go mod download in {source}", f"{module}: {downloaded['Sum']} is not in go.sum")
    for name, target in files.items():
        fresh = target.with_name(f"{target.name}.new")
        shutil.copyfile(Path(downloaded["Dir"]) / name, fresh)
        os.replace(fresh, target)


def _version(source: Path, module: str) -> str:
    text = (source / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ToolMissingError(f"{source / 'go.mod'}: no line for {module}")
    return found[1]


def _place(source: Path, environ: Mapping[str, str]) -> Path:
    go = toolchain(source, environ)
    digest = hashlib.sha256(repr((go.version, go.arch, _FLAGS, sorted(KINDS.items()))).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((source / name).read_bytes())
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", "/"), ".cache")
    return Path(cache) / "bigfleet" / source.name / digest.hexdigest()[:16]


def _go(source: Path, environ: Mapping[str, str], *command: str) -> str:
    go = toolchain(source, environ)
    done = subprocess.run(
        (go.program, *command),
        cwd=source,
        env={**environ, "CGO_ENABLED": "0", "GOFLAGS": _FLAGS, "GOWORK": "off"},
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"go {command[0]} in {source}", (done.stderr + done.stdout)[-_OUTPUT_SHOWN:])
    return done.stdout


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Put what tests need besides the control plane into the cache."""
    if len(argv) != 1:
        print("usage: python -m tests.support.control_plane.tools DIRECTORY", file=sys.stderr)
        return 2
    try:
        for path in build(Path(argv[0]), environ):
            print(f"testbed: {path}")
    except ControlPlaneError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
