"""A fork server: starts coordinators by forking a process that has imported everything, so that a start takes milliseconds.

Why: importing takes about a second of CPU time per process, which dominated the rounds of kills. A forked child is an ordinary
process with its own memory, files and sockets.
Must never: create a thread, a gRPC object or an event loop before the fork.
Rules: `coordinator#failures`; Linux only, as it waits for children that are not its own.
"""

import atexit
import ctypes
import functools
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

PROGRAM = "bigfleet.app.bigfleet"
_MODULES = (
    PROGRAM,
    "bigfleet.app.coordinator.serve",
    "tests.support.coordinator.ack_writer",
    "tests.support.coordinator.history_client",
)
_PR_SET_PDEATHSIG = 1


class ForkedProcess:
    """A child process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self._server, self.pid = server, pid
        self._handle = os.pidfd_open(pid)
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._handle)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raises TimeoutError."""
        code = self._ended(timeout)
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout} s")
        return code

    def has_ended(self, timeout: float | None = 0) -> bool:
        """Whether it ends within that time; works without the fork server."""
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        return bool(poller.poll(None if timeout is None else timeout * 1000))

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            if not self.has_ended(timeout):
                return None
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._server.reap(self.pid)
        return self.returncode


class ForkServer:
    """The process that forks; one per test run."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, *_MODULES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            text=True,
        )
        self._lock = threading.Lock()

    def start(self, module: str, arguments: Sequence[str], log: Path) -> ForkedProcess:
        """Run the `main` of a module with these arguments in a child that writes to a log."""
        return ForkedProcess(
            self, self._ask({"start": module, "arguments": list(arguments), "log": str(log)})
        )

    def reap(self, pid: int) -> int:
        """Return the exit code of a child that has ended."""
        return self._ask({"reap": pid})

    def close(self) -> None:
        """End it with all of its children."""
        if self._process.stdin is not None and self._process.stdout is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()

    def _ask(self, question: dict[str, object]) -> int:
        with self._lock:
            if self._process.stdin is None or self._process.stdout is None:
                raise RuntimeError("asked for pipes and got none")
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the fork server ended with {self._process.wait()}")
        return int(answer)


def serve(questions: IO[str], answers: IO[str]) -> int | None:
    """Fork and reap as asked until the questions end; in a child, return what its `main` returned."""
    children: set[int] = set()
    for line in questions:
        question = json.loads(line)
        if "reap" in question:
            pid, status = os.waitpid(question["reap"], 0)
            children.discard(pid)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                _become_a_program(question["log"])
                main: Callable[[list[str]], int | None] = importlib.import_module(question["start"]).main
                return main(question["arguments"])
            children.add(answer)
        answers.write(f"{answer}\n")
        answers.flush()
    for child in sorted(children):
        os.kill(child, signal.SIGKILL)
    return None


def _become_a_program(log: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(nothing)


@functools.cache
def fork_server() -> ForkServer:
    """Return the fork server of this process, started on first use and ended with the process."""
    server = ForkServer()
    atexit.register(server.close)
    return server


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    sys.exit(serve(sys.stdin, sys.stdout))
