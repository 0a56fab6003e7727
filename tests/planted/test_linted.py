"""`make check` lints the container file and the shell scripts, and a planted fault of each kind fails it.

Rules: `packaging#image-recipe`, `packaging#compose`, `packaging#kind`, `packaging#make-check`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.faults import ROOT

BIN = Path(sys.executable).parent
HADOLINT = ("hadolint", "--failure-threshold", "style")
SHELLCHECK = ("shellcheck", "--external-sources", "--source-path=SCRIPTDIR")
DOCKERFILE = ROOT / "deploy" / "image" / "Dockerfile"


def lint(command: tuple[str, ...], *files: Path) -> tuple[int, str]:
    program = BIN / command[0]
    if not program.exists():
        if "CI" in os.environ:
            pytest.fail(f"CI has no {command[0]}")
        pytest.skip(f"the lock has no {command[0]} for this machine")
    done = subprocess.run([program, *command[1:], *files], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def shell_files() -> list[Path]:
    """Return every script of the repository that a shell runs, whether or not the Makefile names its folder."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout
    found = [ROOT / name for name in listed.split("\0") if name]
    heads = ("#!/usr/bin/env bash\n", "#!/bin/sh\n", "#!/bin/bash\n")
    return [path for path in found if path.is_file() and _head(path).startswith(heads)]


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(40).decode(errors="replace")


@pytest.mark.rule("packaging#image-recipe")
def test_the_container_file_is_clean() -> None:
    assert lint(HADOLINT, DOCKERFILE) == (0, "")


@pytest.mark.rule("packaging#make-check", "packaging#image-recipe")
@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("FROM ${BUILD_BASE} AS build", "FROM python AS build", "DL3006"),
        ("WORKDIR /src", "WORKDIR src", "DL3000"),
        ("COPY . .", "ADD . .", "DL3020"),
        ("USER 65532:65532", "USER root", "DL3002"),
        ('ENTRYPOINT ["bigfleet"]', "ENTRYPOINT bigfleet", "DL3025"),
    ],
)
def test_a_fault_in_the_container_file_is_told_by_its_rule(
    tmp_path: Path, before: str, after: str, rule: str
) -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert text.count(before) == 1
    (tmp_path / "Dockerfile").write_text(text.replace(before, after), encoding="utf-8")
    code, said = lint(HADOLINT, tmp_path / "Dockerfile")
    assert code == 1
    assert rule in said


@pytest.mark.rule("packaging#compose", "packaging#kind")
def test_the_scripts_are_clean() -> None:
    assert lint(SHELLCHECK, *shell_files()) == (0, "")


@pytest.mark.rule("packaging#make-check")
def test_a_fault_in_a_script_is_told(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "kind" / "down.sh").read_text(encoding="utf-8")
    assert text.count('"$name"') == 1
    (tmp_path / "down.sh").write_text(text.replace('"$name"', "$nam"), encoding="utf-8")
    code, said = lint(SHELLCHECK, tmp_path / "down.sh")
    assert code == 1
    assert "SC2154" in said
    assert "SC2086" in said


@pytest.mark.rule("packaging#make-check")
def test_make_check_runs_both_as_these_tests_do() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (prerequisites,) = re.findall(r"^check: (.*) ##", makefile, re.MULTILINE)
    assert {"image-check", "shell-check"} <= set(prerequisites.split())
    assert f"$(call linter,hadolint,{' '.join(HADOLINT[1:])} deploy/image/Dockerfile," in makefile
    (patterns,) = re.findall(
        rf"\$\(call linter,shellcheck,{re.escape(' '.join(SHELLCHECK[1:]))} .*?' (.*)\),", makefile
    )
    named = {path for pattern in patterns.split() for path in ROOT.glob(pattern)}
    assert set(shell_files()) <= named
