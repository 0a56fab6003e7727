"""Helm is taken from where it is said to be, from the cache, or from the path; what is missing is told with what to do."""

from pathlib import Path

import pytest

from tests.support.control_plane.errors import ToolMissingError
from tests.support.control_plane.tools import find_helm, find_promtool

TESTBED = Path(__file__).resolve().parents[3] / "tests" / "testbed"


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_helm_that_is_named_wins(tmp_path: Path) -> None:
    given = program(tmp_path, "my-helm", "v3.9.0")
    assert find_helm(TESTBED, {"HELM_BINARY": str(given), "PATH": "/nowhere"}) == given
    with pytest.raises(ToolMissingError, match="HELM_BINARY names /nowhere/helm, which cannot be executed"):
        find_helm(TESTBED, {"HELM_BINARY": "/nowhere/helm", "PATH": "/nowhere"})


def test_without_go_the_helm_of_the_path_is_used_if_it_is_of_version_3(tmp_path: Path) -> None:
    three = program(tmp_path / "three", "helm", "v3.21.4+g1")
    assert find_helm(TESTBED, {"PATH": str(three.parent), "HOME": str(tmp_path)}) == three
    four = program(tmp_path / "four", "helm", "v4.0.0+g1")
    with pytest.raises(ToolMissingError, match="run `make testbed`, or put a helm of version 3 on the path"):
        find_helm(TESTBED, {"PATH": str(four.parent), "HOME": str(tmp_path)})


def test_a_missing_promtool_is_told_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match="Debian package prometheus"):
        find_promtool({"PATH": str(tmp_path)})
    found = program(tmp_path, "promtool", "2.42")
    assert find_promtool({"PATH": str(tmp_path)}) == found
