"""Finds the testbed binary in the user's cache, and builds it there when asked to.

Why: the first build costs about 14 CPU minutes, so it happens once per content, in one place, with one recipe; any other
set of flags would compile everything again.
Must never: compile because a test was started, leave half a binary under the final name, or touch `go.mod` and `go.sum`.
The key is the content of the three files, the recipe, and the version and architecture of Go.

Two variables: TESTBED_BINARY names a binary built elsewhere; XDG_CACHE_HOME moves the cache.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.control_plane.errors import BinaryMissingError, BuildError, ControlPlaneError

SOURCES: Final = ("go.mod", "go.sum", "main.go")
BINARY_VARIABLE: Final = "TESTBED_BINARY"
COMMAND: Final = "`make testbed`"
# Without the stamps the server calls itself v0.0.0-master, and Helm then refuses charts that state a Kubernetes version.
_FLAGS: Final = "-trimpath -buildvcs=false -mod=readonly"
_STRIP: Final = "-s -w"
_STAMPS: Final = (
    ("k8s.io/client-go/pkg/version.gitVersion", "{version}"),
    ("k8s.io/component-base/version.gitVersion", "{version}"),
    ("k8s.io/component-base/version.gitMajor", "{major}"),
    ("k8s.io/component-base/version.gitMinor", "{minor}"),
)
_STAMPED_MODULE: Final = "k8s.io/kubernetes"
_OUTPUT_SHOWN: Final = 4_000


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The Go that would build, as it calls itself."""

    program: str
    version: str
    arch: str


def find(source: Path, environ: Mapping[str, str]) -> Path:
    """Return the binary for these sources; never compiles, and says what to do when there is none."""
    if given := environ.get(BINARY_VARIABLE):
        if not os.access(given, os.X_OK):
            raise BinaryMissingError(f"{BINARY_VARIABLE} names {given}, which cannot be executed")
        return Path(given)
    binary = _place(source, environ, toolchain(source, environ))
    if not binary.exists():
        raise BinaryMissingError(f"not built yet; run {COMMAND} (about 14 CPU minutes, once)")
    return binary


def build(source: Path, environ: Mapping[str, str]) -> Path:
    """Return the binary for these sources, compiled now unless it is in the cache; one builder at a time."""
    if environ.get(BINARY_VARIABLE):
        return find(source, environ)
    go = toolchain(source, environ)
    binary = _place(source, environ, go)
    if binary.exists():
        return binary
    binary.parent.mkdir(parents=True, exist_ok=True)
    with (binary.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():  # not built by another run while we waited
            fresh = binary.with_suffix(".new")
            _compile(source, environ, go, fresh)
            os.replace(fresh, binary)
    return binary


def _is_there(source: Path, environ: Mapping[str, str]) -> bool:
    return bool(environ.get(BINARY_VARIABLE)) or _place(source, environ, toolchain(source, environ)).exists()


def toolchain(source: Path, environ: Mapping[str, str]) -> Toolchain:
    """Return the Go on the path if it is new enough for the sources."""
    needed = _needed_version(source)
    program = shutil.which("go", path=environ.get("PATH"))
    if program is None:
        raise BinaryMissingError(f"no Go on the path; install Go {needed} or newer and run {COMMAND}")
    answer = subprocess.run(
        [program, "env", "GOVERSION", "GOARCH"],
        cwd=source,
        env=_go_environ(environ),
        text=True,
        capture_output=True,
        check=False,
    )
    version, _, arch = answer.stdout.strip().partition("\n")
    if answer.returncode or _numbers(version) < _numbers(needed):
        found = version or answer.stderr.strip()
        raise BinaryMissingError(f"Go {needed} or newer is needed, found {found}; then run {COMMAND}")
    return Toolchain(program, version, arch)


def _place(source: Path, environ: Mapping[str, str], go: Toolchain) -> Path:
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", "/"), ".cache")
    digest = hashlib.sha256(repr((go.version, go.arch, _FLAGS, _STRIP, _STAMPS)).encode())
    for name in SOURCES:
        digest.update((source / name).read_bytes())
    return Path(cache) / "bigfleet" / "testbed" / digest.hexdigest()[:16] / "testbed"


def _compile(source: Path, environ: Mapping[str, str], go: Toolchain, target: Path) -> None:
    version = _kubernetes_version(source)
    major, minor = (str(number) for number in _numbers(version)[:2])
    stamps = (f"-X {name}={value}" for name, value in _STAMPS)
    linker = " ".join((_STRIP, *stamps)).format(version=version, major=major, minor=minor)
    command = [go.program, "build", "-ldflags", linker, "-o", str(target), "."]
    if nice := shutil.which("nice", path=environ.get("PATH")):
        command = [nice, "-n", "10", *command]
    done = subprocess.run(
        command,
        cwd=source,
        env=_go_environ(environ),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"go build in {source}", done.stderr[-_OUTPUT_SHOWN:])


def _go_environ(environ: Mapping[str, str]) -> dict[str, str]:
    # A person's own GOFLAGS or workspace must not change the bytes, nor throw away the cache of compiled packages.
    return {**environ, "CGO_ENABLED": "0", "GOFLAGS": _FLAGS, "GOWORK": "off"}


def _needed_version(source: Path) -> str:
    return _line_of_go_mod(source, r"^go (\S+)$")


def _kubernetes_version(source: Path) -> str:
    return _line_of_go_mod(source, rf"^\s*{re.escape(_STAMPED_MODULE)} (v\S+)$")


def _line_of_go_mod(source: Path, pattern: str) -> str:
    path = source / "go.mod"
    try:
        found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError as error:
        raise BinaryMissingError(f"{path}: {error.strerror}") from error
    if found is None:
        raise BinaryMissingError(f"{path}: no line like {pattern}")
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Build what the directory named holds."""
    if len(argv) != 1:
        print("usage: python -m tests.support.control_plane.build DIRECTORY", file=sys.stderr)
        return 2
    source = Path(argv[0])
    try:
        if not _is_there(source, environ):
            print(f"testbed: building for {source}, about 14 CPU minutes the first time", flush=True)
        binary = build(source, environ)
    except ControlPlaneError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    print(f"testbed: {binary}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
