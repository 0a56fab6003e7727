"""The binary is built once per content, found again without compiling, and its absence is told in one sentence."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.control_plane import build
from tests.support.control_plane.errors import BinaryMissingError, BuildError

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
GO_MOD = """module testbed

go 1.26.0

require (
\tk8s.io/kubernetes v1.36.3
)
"""
# Writes down every build, and makes a program that can be run.
GO = """#!/bin/sh
case "$1" in
env) printf '{version}\\namd64\\n' ;;
build)
  echo "$CGO_ENABLED|$GOFLAGS|$*" >>"$GO_LOG"
  test -z "$GO_FAILS" || {{ echo "$GO_FAILS" >&2; exit 1; }}
  while [ "$1" != -o ]; do shift; done
  echo '#!/bin/sh' >"$2"
  chmod +x "$2" ;;
esac
"""


class Workshop:
    """Sources, a cache and a Go of our own making."""

    def __init__(self, root: Path, version: str = "go1.26.8") -> None:
        self.source, self.log = root / "testbed", root / "builds"
        self.environ = {
            "PATH": f"{root / 'bin'}:/usr/bin:/bin",
            "XDG_CACHE_HOME": str(root / "cache"),
            "GO_LOG": str(self.log),
            "GO_FAILS": "",
            "GOFLAGS": "-race",
        }
        self.source.mkdir()
        (self.source / "go.mod").write_text(GO_MOD)
        (self.source / "go.sum").write_text("")
        (self.source / "main.go").write_text("package main\n")
        (root / "bin").mkdir()
        self.go = root / "bin" / "go"
        self.go.write_text(GO.format(version=version))
        self.go.chmod(0o755)

    def builds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_what_was_not_built_is_not_compiled_by_looking_for_it(workshop: Workshop) -> None:
    with pytest.raises(BinaryMissingError, match="run `make testbed`"):
        build.find(workshop.source, workshop.environ)
    assert workshop.builds() == []


def test_a_build_is_found_again_and_not_repeated(workshop: Workshop) -> None:
    binary = build.build(workshop.source, workshop.environ)
    assert binary.parts[-4:-2] == ("bigfleet", "testbed")
    assert build.find(workshop.source, workshop.environ) == binary
    assert build.build(workshop.source, workshop.environ) == binary
    assert sorted(path.name for path in binary.parent.iterdir()) == ["lock", "testbed"]
    assert len(workshop.builds()) == 1


def test_the_recipe_is_ours_alone_and_stamps_the_version(workshop: Workshop) -> None:
    build.build(workshop.source, workshop.environ)
    cgo, flags, command = workshop.builds()[0].split("|")
    assert cgo == "0"
    assert flags == "-trimpath -buildvcs=false -mod=readonly"
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in command
    assert "-X k8s.io/component-base/version.gitMinor=36" in command


@pytest.mark.parametrize("name", build.SOURCES)
def test_another_content_is_another_binary(workshop: Workshop, name: str) -> None:
    before = build.build(workshop.source, workshop.environ)
    with (workshop.source / name).open("a") as file:
        file.write("// changed\n")
    with pytest.raises(BinaryMissingError):
        build.find(workshop.source, workshop.environ)
    assert build.build(workshop.source, workshop.environ) != before


def test_builders_at_the_same_time_compile_once(workshop: Workshop) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: build.build(workshop.source, workshop.environ), range(4)))
    assert len(found) == 1
    assert len(workshop.builds()) == 1


def test_a_failed_build_shows_the_words_of_the_compiler_and_leaves_no_binary(workshop: Workshop) -> None:
    failing = {**workshop.environ, "GO_FAILS": "main.go:7: undefined: leash"}
    with pytest.raises(BuildError, match="undefined: leash"):
        build.build(workshop.source, failing)
    with pytest.raises(BinaryMissingError):
        build.find(workshop.source, workshop.environ)


def test_a_go_that_is_missing_or_too_old_is_named(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, version="go1.24.9")
    with pytest.raises(BinaryMissingError, match=r"Go 1\.26\.0 or newer is needed, found go1\.24\.9"):
        build.build(workshop.source, workshop.environ)
    workshop.go.unlink()
    with pytest.raises(BinaryMissingError, match=r"no Go on the path; install Go 1\.26\.0 or newer"):
        build.find(workshop.source, {**workshop.environ, "PATH": str(tmp_path / "bin")})


def test_a_binary_built_elsewhere_needs_no_go(workshop: Workshop, tmp_path: Path) -> None:
    elsewhere = {"PATH": "", build.BINARY_VARIABLE: sys.executable}
    assert build.build(workshop.source, elsewhere) == Path(sys.executable)
    with pytest.raises(BinaryMissingError, match="cannot be executed"):
        build.find(workshop.source, {**elsewhere, build.BINARY_VARIABLE: str(tmp_path / "nothing")})


def test_make_testbed_fails_with_the_reason(
    workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = {"PATH": str(tmp_path / "nowhere")}
    assert build.main([str(workshop.source)], bare) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no Go on the path" in err
    assert build.main([str(workshop.source)], {**workshop.environ, "GO_FAILS": "main.go:7: broken"}) == 1
    assert "main.go:7: broken" in capsys.readouterr().err
    assert build.main([], bare) == 2


@pytest.mark.parametrize(("required", "code", "word"), [("", 0, "1 skipped"), ("1", 1, "1 error")])
def test_without_the_binary_a_test_is_skipped_with_the_command_and_in_ci_it_fails(
    tmp_path: Path, required: str, code: int, word: str
) -> None:
    environ = {"PATH": "/nowhere", "HOME": str(tmp_path), "TESTBED_REQUIRED": required or "0"}
    chosen = f"{ROOT}/tests/e2e/test_control_plane.py::test_two_clusters_side_by_side_share_nothing"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", chosen]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, text=True, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert word in done.stdout
    assert "run `make testbed`" in done.stdout
    assert ("1 tests were skipped as they need the test control plane" in done.stdout) == (code == 0)


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="needs the gofmt of Go, as `make testbed` does")
def test_the_go_source_is_formatted() -> None:
    done = subprocess.run(
        ["gofmt", "-l", str(ROOT / "tests" / "testbed")],
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == ""
