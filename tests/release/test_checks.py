"""What stops a release (`packaging#release-check`), and what the notes of one are."""

from pathlib import Path
from shutil import copy, copytree

import pytest

from bigfleet.kube.crds.render import chart_version
from deploy.release.changelog import section
from deploy.release.checks import problems
from deploy.release.errors import ReleaseError
from deploy.release.version import version_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the checks look at, to be spoilt."""
    (tmp_path / "bigfleet").mkdir()
    copy(ROOT / "bigfleet" / "version.py", tmp_path / "bigfleet")
    copytree(ROOT / "charts", tmp_path / "charts")
    copytree(ROOT / "deploy" / "release" / "manifests", tmp_path / "deploy" / "release" / "manifests")
    for name in ("CHANGELOG.md", "requirements.lock"):
        copy(ROOT / name, tmp_path)
    return tmp_path


def test_this_tree_could_be_released_now(tree: Path) -> None:
    assert problems(tree) == []
    assert problems(tree, tag=f"v{version_of(tree)}") == []


@pytest.mark.rule("packaging#release-check")
def test_every_problem_is_one_line_that_names_its_place(tree: Path) -> None:
    (tree / "bigfleet" / "version.py").write_text('__version__ = "3.1.0"\n')
    found = problems(tree, tag="v3.0.0", licence=lambda name: "" if name == "protobuf" else "MIT")
    assert found[0] == "tag: found v3.0.0, allowed is v3.1.0, the version that bigfleet/version.py states"
    assert found[1] == "CHANGELOG.md: no section '## 3.1.0 - YYYY-MM-DD' for version 3.1.0"
    assert f"charts/bigfleet-crds/Chart.yaml: version: found {chart_version()}, allowed is 3.1.0" in found
    told = f"deploy/release/manifests/install.yaml: found {chart_version()}, allowed is 3.1.0; run make manifests"
    assert told in found
    assert found[-1].startswith("requirements.lock: protobuf ")


def test_a_manifest_that_is_not_there_is_named(tree: Path) -> None:
    (tree / "deploy" / "release" / "manifests" / "cluster.yaml").unlink()
    (line,) = problems(tree)
    assert line.startswith("deploy/release/manifests/cluster.yaml: found no file, ")


def test_a_version_in_another_form_is_refused(tree: Path) -> None:
    (tree / "bigfleet" / "version.py").write_text('__version__ = "3.1"\n')
    assert problems(tree) == ['bigfleet/version.py: no line like __version__ = "1.2.3" or "1.2.3.dev4"']


def test_the_notes_of_a_version_are_its_section_and_no_more() -> None:
    text = "# Changes\n\n## Unreleased\n\n- soon\n\n## 1.1.0 - 2026-12-01\n\n### Added\n\n- this\n\n## 1.0.0 - 2026-11-01\n\n- that\n"
    assert section(text, "1.1.0") == "### Added\n\n- this\n"
    assert section(text, "1.0.0") == "- that\n"
    assert section(text, "1.2.0.dev0") == "- soon\n"
    with pytest.raises(ReleaseError, match=r"no section '## 2.0.0 - YYYY-MM-DD'"):
        section(text, "2.0.0")
    with pytest.raises(ReleaseError, match="the section of Unreleased lists nothing"):
        section("## Unreleased\n\n", "1.2.0.dev0")
