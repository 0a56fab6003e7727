"""Our programs as processes of a test: what they say is read, and none outlives the run that started it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.program import ROOT, ProgramError, RunningProgram

pytestmark = pytest.mark.integration

PROVIDER = "bigfleet-fake-provider"
FLAGS = ("--addr=127.0.0.1:0", "--metrics-addr=127.0.0.1:0", "--log-format=json")
DEADLINE_S = 60
RUNNER = """
import os, pathlib, sys, time
from tests.support.program import RunningProgram
program = RunningProgram(sys.argv[1], *sys.argv[3:], log=pathlib.Path(sys.argv[2]), environ=os.environ)
program.port()
print(program.pid, flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's word to a child is Linux's own")
def test_a_program_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNNER, PROVIDER, str(tmp_path / "log"), *FLAGS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as runner:
        try:
            assert runner.stdout is not None
            pid = int(runner.stdout.readline())
            assert is_alive(pid)
        finally:
            runner.kill()
    end = time.monotonic() + DEADLINE_S
    while is_alive(pid):
        assert time.monotonic() < end, f"{pid} outlived its runner"
        time.sleep(0.02)


def test_a_program_is_heard_and_ended(tmp_path: Path) -> None:
    with RunningProgram(PROVIDER, *FLAGS, log=tmp_path / "log", environ=os.environ) as program:
        assert program.port("port") > 0
        assert program.http("/healthz") == (200, "ok\n")
        assert program.end(signal.SIGTERM) == 0
        assert [json.dumps(line["event"]) for line in program.lines("stopping")] == ['"stopping"']


def test_a_program_that_ends_by_itself_is_told_with_its_words(tmp_path: Path) -> None:
    with RunningProgram(PROVIDER, "--no-such-flag", log=tmp_path / "log", environ=os.environ) as program:
        with pytest.raises(ProgramError, match=r"ended with 2 before it listens:(?s:.*)no-such-flag"):
            program.port()
        assert program.ended() == 2
