"""The pytest plugin gives one test per behaviour."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def run_pytest(directory: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "bigfleet.provider.conformance.pytest_plugin", *argv]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def test_behaviours_are_tests_beside_ones_own_and_can_be_chosen_by_name(
    provider: str, tmp_path: Path
) -> None:
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    ended = run_pytest(
        tmp_path, "--bigfleet-target", provider, "-k", "own or A06 or B303 or X10", "-v", "-rs"
    )
    assert ended.returncode == 0, ended.stdout
    assert "3 passed, 1 skipped" in ended.stdout
    assert "conformance::B303 PASSED" in ended.stdout
    assert "not run: needs --substrate" in ended.stdout


def test_a_failure_shows_the_calls_and_no_traceback(broken_provider: str, tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, "--bigfleet-target", broken_provider, "-k", "A06 or A17")
    assert ended.returncode == 1
    assert "1 failed, 1 passed" in ended.stdout
    assert "replay of (1,1): found OK, operation" in ended.stdout
    assert (
        f"repeat: bigfleet conformance --target {broken_provider} --seed 1 --only A17 --yes" in ended.stdout
    )
    assert "Traceback" not in ended.stdout
