"""The files of a release: complete, the same bytes twice, and able to run (`packaging#clean-install`, `packaging#release`)."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from bigfleet.kube.crds.render import chart_version
from bigfleet.version import __version__
from deploy.release.artefacts import CHECKSUMS, build
from deploy.release.charts import chart_names
from deploy.release.errors import ReleaseError
from deploy.release.sources import Commit, export_tree
from tests.docs.shell_blocks import blocks

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
COMMIT = Commit("c" * 40, 1_700_000_000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One release of the tree as it is."""
    return make(tmp_path_factory.mktemp("release"))


def make(directory: Path) -> Path:
    sources = directory / "sources"
    sources.mkdir()
    try:
        export_tree(sources)
    except ReleaseError as error:
        pytest.skip(str(error))
    build(sources, COMMIT, directory / "out")
    return directory / "out"


def test_it_is_complete_and_its_checksums_are_right(made: Path) -> None:
    names = {path.name for path in made.iterdir()}
    charts = {f"{name}-{chart_version()}.tgz" for name in chart_names(ROOT / "charts")}
    assert names == charts | {
        f"bigfleet-{__version__}-py3-none-any.whl",
        f"bigfleet-{__version__}.tar.gz",
        f"bigfleet-crds-{chart_version()}.yaml",
        f"bigfleet-install-{chart_version()}.tgz",
        f"bigfleet-evidence-{chart_version()}.tgz",
        f"bigfleet-{__version__}.cdx.json",
        f"bigfleet-{__version__}.spdx.json",
        f"LICENCES-{__version__}.txt",
        f"bigfleet-{__version__}-requirements.txt",
        f"CHANGES-{__version__}.md",
        f"provenance-{__version__}.json",
        CHECKSUMS,
    }
    lines = (made / CHECKSUMS).read_text().splitlines()
    summed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert summed.keys() == names - {CHECKSUMS}
    for name, digest in summed.items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    told = json.loads((made / f"provenance-{__version__}.json").read_text())
    assert {row["name"]: row["digest"]["sha256"] for row in told["subject"]}.items() <= summed.items()
    (source,) = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"]["gitCommit"] == COMMIT.id


def test_the_checksums_are_checked_as_the_page_says(made: Path, tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "dev" / "release.md", "bash")
    (tmp_path / "dist").symlink_to(made)
    subprocess.run(["bash", "-euc", block], cwd=tmp_path, check=True)


@pytest.mark.rule("packaging#release")
def test_the_same_sources_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)  # another user, another directory, another hour
    try:
        again = make(tmp_path)
    finally:
        os.umask(before)
    assert (again / CHECKSUMS).read_text() == (made / CHECKSUMS).read_text()
    for path in made.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.rule("dashboard#assets", "packaging#clean-install")
def test_the_wheel_runs_without_the_checkout(made: Path, tmp_path: Path) -> None:
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)  # noqa: S202  made a moment ago
    assert not [name for name in names if name.startswith(("tests/", "docs/", "deploy/"))]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from bigfleet.app.bigfleet import main; sys.exit(main(['version']))",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert __version__ in done.stdout


def test_the_sdist_names_nobodys_machine(made: Path) -> None:
    (sdist,) = made.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            assert (member.uname, member.gname, member.uid, member.gid) == ("", "", 0, 0)
            assert member.name.startswith(f"bigfleet-{__version__}/")


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(ReleaseError, match="is not empty"):
        build(ROOT, COMMIT, tmp_path)
