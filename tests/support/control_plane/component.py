"""One process of a cluster, on a leash; and the sweeper that removes the directory of a cluster whose runner died.

Why: faults are real only if components are real processes that a test can kill, pause and start again, and a test run
that is itself killed must leave nothing behind.
Must never: signal a process it did not start, or look one up by name.

Three things hold the leash. Standard input of a component is a pipe whose other end only this process has: it closes
with the runner, however that dies. The component also watches its parent, in case a forked process still holds the pipe.
And it leads a process group of its own: when the runner dies the kernel wakes the stopped members of such a group, so
that even a paused component notices.
"""

import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from tests.support.control_plane.errors import ComponentEndedError, ControlPlaneError

LEASH_VARIABLE: Final = "TESTBED_LEASH"
_LOG_SHOWN: Final = 3_000
_REAP_S: Final = 30
# Components may still be writing while they notice; the second try finds them gone.
_SWEEP: Final = 'cat; for try in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$1" && exit 0; sleep 0.2; done; exit 1'


class Component:
    """One process of a cluster; may be started again after it was stopped, with the same flags."""

    def __init__(
        self, binary: Path, directory: Path, program: str, flags: tuple[str, ...], name: str = ""
    ) -> None:
        self.name = name or program
        self.log = directory / f"{self.name}.log"
        self._command = (str(binary), program, *flags)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id; None while it should not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it, from any thread; returns before it is ready to serve."""
        if self._process is not None:
            raise ControlPlaneError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=component_environ(self._directory),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def kill(self) -> None:
        """End it at once, as a crash would; nothing happens when it does not run."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """End it as a supervisor would, and wait; stop the API server before etcd, or it never ends."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stop it from running, without closing anything: clients wait, and time out."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused component run on."""
        self._signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise if it ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise ComponentEndedError(self.name, code, self.log_tail())

    def log_tail(self) -> str:
        """Return the end of its log."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[-_LOG_SHOWN:].decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        self.check()
        if self._process is None:
            raise ControlPlaneError(f"{self.name} does not run")
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=_REAP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            if process.stdin is not None:
                process.stdin.close()


class Sweeper:
    """Removes a directory on request, or when the runner is gone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = subprocess.Popen(
            ("/bin/sh", "-c", _SWEEP, "sweeper", str(directory)),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # so that an interrupt at the terminal, or the end of a job, does not take it along
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def sweep(self) -> None:
        """Remove the directory now, and end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.wait(timeout=_REAP_S):
            raise ControlPlaneError(f"{self._directory} could not be removed")


def component_environ(directory: Path) -> dict[str, str]:
    """Return the environment of a component: caches go to its directory, proxies are not inherited."""
    return {"PATH": os.defpath, "HOME": str(directory), LEASH_VARIABLE: str(os.getpid())}
