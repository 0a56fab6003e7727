"""Lists the packages of the lock file that cannot be installed on one of the platforms of the image.

    python -m deploy.release.platforms --installed DIR

Why: the image is made for two architectures and CI has one of them; a package without a wheel for the other is found by the first
user who builds there. A lock file holds hashes and no file names, so it is not enough.
Must never: compile or install anything, or accept a wheel whose hash is not in the lock file.

What was installed answers most of it: a pure package fits every platform, and a wheel with the tag of this machine's platform was
found for it. Only what is left is asked from the package index, by the pip of this environment and its settings. That takes pip a
quarter of a minute, and what an index has for a hash does not change: a good answer is remembered in the user's cache.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from deploy.release.errors import ReleaseError
from deploy.release.lock import Pinned, read_lock
from deploy.release.sources import ROOT

PYTHON: Final = (3, 11)
"""The minor version of the image's bases."""
MACHINES: Final = ("x86_64", "aarch64")
# Those of Debian 12, on which the image runs, and older; only versions that packages are really tagged with.
GLIBCS: Final = ("manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34")


def wanted(lock: str, machine: str) -> list[Pinned]:
    """Return the packages of a lock file that the image of a machine has."""
    version = ".".join(map(str, PYTHON))
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "linux",
    }
    return [
        package
        for package in read_lock(lock)
        if not package.marker or Marker(package.marker).evaluate(environment)
    ]


def installed_tags(folder: Path) -> dict[tuple[str, str], frozenset[Tag]]:
    """Return the tags of everything that was installed into a folder, by name and version."""
    found: dict[tuple[str, str], frozenset[Tag]] = {}
    for about in folder.glob("*.dist-info"):
        name, _, version = about.name.removesuffix(".dist-info").rpartition("-")
        lines = HeaderParser().parsestr((about / "WHEEL").read_text(encoding="utf-8"))
        tags = frozenset(tag for line in lines.get_all("Tag", ()) for tag in parse_tag(line))
        found[canonicalize_name(name), version] = tags
    for about in folder.glob(
        "*.egg-info/installed-files.txt"
    ):  # by an older pip, from a source without a wheel
        name, version, *_ = about.parent.name.removesuffix(".egg-info").rsplit("-", 2)
        if not re.search(r"\.(so|pyd)$", about.read_text(encoding="utf-8"), re.MULTILINE):
            found[canonicalize_name(name), version] = frozenset({Tag("py3", "none", "any")})
    return found


def fits(tags: frozenset[Tag], machine: str) -> bool:
    """Return whether the tags of an installed package show that a machine can install it too."""
    here = f"cp{PYTHON[0]}{PYTHON[1]}"
    for tag in tags:
        if tag.platform == "any" and tag.abi == "none":
            return True
        # A wheel that was compiled here has the tag linux_… without a C library, which shows nothing.
        of_index = tag.platform.startswith("manylinux") and tag.platform.endswith(machine)
        if of_index and (tag.interpreter == here or tag.abi == "abi3"):
            return True
    return False


def ask(packages: Sequence[Pinned], machine: str, options: Sequence[str]) -> list[str]:
    """Ask the package index for wheels; return a line for each package without a wheel from the lock file."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", *options]
        command += ["--target", scratch, "--report", str(report), "--implementation", "cp"]
        command += ["--python-version", ".".join(map(str, PYTHON))]
        for abi in (f"cp{PYTHON[0]}{PYTHON[1]}", "abi3", "none"):
            command += ["--abi", abi]
        for glibc in GLIBCS:
            command += ["--platform", f"{glibc}_{machine}"]
        # One by one only when something is missing, since pip stops at the first.
        together = [f"{package.name}=={package.version}" for package in packages]
        done = _run([*command, *together])
        if done.returncode == 0:
            found = _hashes(report)
        elif len(packages) > 1:
            return [line for package in packages for line in ask([package], machine, options)]
        elif "No matching distribution found" not in done.stderr:
            raise ReleaseError(f"pip: {(done.stderr.strip().splitlines() or ['said nothing'])[-1]}")
    lines = []
    for package in packages:
        digest = found.get(package.name)
        if digest is None:
            lines.append(f"{package.name} {package.version}: no wheel for Linux on {machine}")
        elif digest not in package.hashes:
            lines.append(f"{package.name} {package.version}: the wheel for {machine} is not in the lock file")
    return lines


def missing(lock: str, tags: Mapping[tuple[str, str], frozenset[Tag]], options: Sequence[str]) -> list[str]:
    """Return a line for each package that cannot be installed on one of the machines."""
    lines = []
    for machine in MACHINES:
        left = [
            package
            for package in wanted(lock, machine)
            if not fits(tags.get((canonicalize_name(package.name), package.version), frozenset()), machine)
        ]
        lines += ask(left, machine, options) if left else []
    return lines


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own words


def _hashes(report: Path) -> dict[str, str]:
    installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {
        canonicalize_name(each["metadata"]["name"]): each["download_info"]["archive_info"]["hashes"]["sha256"]
        for each in installs
    }


def _remembered(
    lock: str, tags: Mapping[tuple[str, str], frozenset[Tag]], environ: Mapping[str, str]
) -> Path:
    asked = repr((lock, sorted((name, sorted(map(str, each))) for name, each in tags.items())))
    digest = hashlib.sha256(asked.encode() + Path(__file__).read_bytes()).hexdigest()[:16]
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", "/"), ".cache")
    return Path(cache) / "bigfleet" / "platforms" / digest


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print what is missing; 1 if anything is."""
    parser = argparse.ArgumentParser(prog="release.platforms", description="Wheels for every platform?")
    parser.add_argument(
        "--installed", type=Path, required=True, help="directory into which the lock is installed"
    )
    given = parser.parse_args(argv)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    tags = installed_tags(given.installed)
    remembered = _remembered(lock, tags, environ)
    if remembered.exists():
        print(f"{remembered.read_text(encoding='utf-8')} (remembered)")
        return 0
    try:
        lines = missing(lock, tags, ())
    except ReleaseError as error:
        lines = [str(error)]
    for line in lines:
        print(f"platforms: {line}", file=sys.stderr)
    if lines:
        return 1
    counts = ", ".join(f"{len(wanted(lock, machine))} on {machine}" for machine in MACHINES)
    answer = f"platforms: every package has a wheel or is pure Python: {counts}"
    remembered.parent.mkdir(parents=True, exist_ok=True)
    remembered.write_text(answer, encoding="utf-8")
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
