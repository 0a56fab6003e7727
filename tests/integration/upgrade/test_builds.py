"""Which version plays N in a clone that lacks the wanted commit: never none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.upgrade.builds import earlier

NOWHERE = "0" * 40


def git(root: Path, *words: str) -> str:
    named = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(root), *named, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def write(root: Path, version: str) -> None:
    (root / "bigfleet").mkdir(exist_ok=True)
    (root / "cmd").mkdir(exist_ok=True)
    (root / "cmd" / "main.py").write_text("")
    (root / "bigfleet" / "version.py").write_text(f'__version__ = "{version}"\n')


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Two versions and a commit that leaves the package alone."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "-q")
    for version in ("1.0.0", "2.0.0"):
        write(root, version)
        git(root, "add", "-A")
        git(root, "commit", "-qm", version)
    (root / "page.md").write_text("more")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a page")
    return root


def test_the_wanted_commit_is_taken_where_it_is(clone: Path, tmp_path: Path) -> None:
    first = git(clone, "rev-list", "--max-parents=0", "HEAD")
    build = earlier(tmp_path / "n", wanted=first, root=clone)
    assert (build.version, build.origin) == ("1.0.0", f"commit {first[:12]}")


def test_without_it_the_version_before_the_last_change_is_taken_and_said(clone: Path, tmp_path: Path) -> None:
    build = earlier(tmp_path / "n", wanted=NOWHERE, root=clone)
    assert build.version == "1.0.0"
    assert "since 000000000000 is not in this clone (git fetch --unshallow" in build.origin


def test_a_shallow_clone_plays_itself_and_says_so(clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", clone.as_uri(), "shallow")
    build = earlier(tmp_path / "n", wanted=NOWHERE, root=tmp_path / "shallow")
    assert build.version == "2.0.0"
    assert build.origin.startswith("this tree as it is: commit 000000000000 is not here")


def test_so_does_a_folder_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    write(tmp_path, "3.0.0")
    assert earlier(tmp_path / "n", wanted=NOWHERE, root=tmp_path).version == "3.0.0"
