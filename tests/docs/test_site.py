"""The site builds strictly, loads nothing from elsewhere, and a planted fault fails it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--config-file",
            "mkdocs.yml",
            "--site-dir",
            str(target),
        ],
        cwd=source,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the docs that may be spoilt."""
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.rule("packaging#strict-site")
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "site" / "generate").exists()
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?://[^\">\s]+)", text)
        assert loaded == [], page


@pytest.mark.rule("packaging#strict-site")
def test_a_planted_fault_fails_the_build(copy: Path) -> None:
    """All in one build, which names each: a build of the whole site is what costs time here."""
    index = copy / "docs" / "index.md"
    planted = "\n[x](nowhere.md) [y](concepts.md#no-such-anchor)\n"
    index.write_text(index.read_text(encoding="utf-8") + planted, encoding="utf-8")
    (copy / "docs" / "orphan.md").write_text("# Orphan\n", encoding="utf-8")
    done = build(copy, copy / "site")
    assert done.returncode != 0
    for words in ("link 'nowhere.md'", "anchor '#no-such-anchor'", "- orphan.md"):
        assert words in done.stderr, words
    assert "Aborted with 3 warnings" in done.stdout + done.stderr
