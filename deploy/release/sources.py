"""The source files of a release, and their commit.

Why: a release must not depend on other files in a checkout, on file modes or on the time of the build; so it is built from an
export of its own, with the time of the commit as its only time.
Must never: read a file that git does not know.
"""

import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.release.errors import ReleaseError

ROOT: Final = Path(__file__).resolve().parents[2]
_ONLY_OWNER_WRITES: Final = 0o644
_RUNS: Final = 0o755


@dataclass(frozen=True)
class Commit:
    """The commit of a release."""

    id: str
    epoch_s: int


def head(root: Path = ROOT) -> Commit:
    """Return the commit that is checked out."""
    commit, epoch = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    return Commit(commit, int(epoch))


def changed_files(root: Path = ROOT) -> list[str]:
    """Return the differences from the commit that is checked out; empty in a clean clone."""
    return _git(root, "status", "--porcelain", "--untracked-files=all").decode().splitlines()


def export_commit(into: Path, commit: str, root: Path = ROOT) -> None:
    """Write the files of a commit."""
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", commit))) as archive:
        archive.extractall(into, filter="data")
    _settle_modes(into)


def export_tree(into: Path, root: Path = ROOT) -> None:
    """Write the tracked and new files in their current state, to try a release before the commit."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode()
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, into / name)
    _settle_modes(into)


def _settle_modes(root: Path) -> None:
    """Keep only the executable bit of every file's mode; the rest depends on the umask."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(_RUNS if path.stat().st_mode & 0o100 else _ONLY_OWNER_WRITES)


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        raise ReleaseError("git: not found; a release is made from a clone") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no words"]
        raise ReleaseError(f"git {arguments[0]}: {said[0]}; a release is made from a clone")
    return done.stdout
