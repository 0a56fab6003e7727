"""Provider processes of the kit's own model, and the command that starts one."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("model_process.py")
ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let started processes find the package of this tree."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def start_command() -> str:
    """What a user would give as --start."""
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(SCRIPT))} {{port}} {{state}} {{seed_count}}"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running provider with 64 slots; yields its target. Runs do not meet each other's marks, so tests share it."""
    with _running(tmp_path_factory.mktemp("honest")) as target:
        yield target


@pytest.fixture(scope="module")
def broken_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same, but it does not fence."""
    with _running(tmp_path_factory.mktemp("broken"), MODEL_VIOLATION="accept-stale") as target:
        yield target


@contextmanager
def _running(directory: Path, **variables: str) -> Iterator[str]:
    command = [sys.executable, str(SCRIPT), "0", str(directory / "state"), "64"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{process.stdout.readline().split()[-1]}"
        finally:
            process.kill()
