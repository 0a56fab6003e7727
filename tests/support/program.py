"""One of our programs as a real process, its log read as what it is: lines of JSON.

Why: exit codes, signals, ports and what is left behind can only be seen from outside of a process.
Must never: outlive its runner (the kernel ends it with the thread that started it), or signal what it did not start.
"""

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from bigfleet.model.errors import BigFleetError

T = TypeVar("T")
ROOT: Final = Path(__file__).resolve().parents[2]
DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.02
_SHOWN: Final = 4_000
# The kernel is asked to end the program with its runner. By a first program that becomes the one wanted, and not between fork
# and exec: a runner that serves gRPC has threads, and Python code in its forked child crashes now and then.
_LEASH: Final = (
    (
        sys.executable,
        "-IS",
        "-c",
        f"import ctypes,os,sys;ctypes.CDLL(None).prctl(1,{int(signal.SIGKILL)});os.execv(sys.argv[1],sys.argv[1:])",
    )
    if sys.platform == "linux"
    else ()
)


class ProgramError(BigFleetError):
    """A program did not do what a test waited for; the text has the end of its log."""


class RunningProgram:
    """A program of `cmd/`, started at once; used as a context it is killed at the end unless it ended before."""

    def __init__(
        self,
        program: str,
        *flags: str,
        log: Path,
        environ: Mapping[str, str],
        python: tuple[str, ...] = (),
        root: Path = ROOT,
    ) -> None:
        """`root` is the checkout whose program it is; another one than ours has to be on PYTHONPATH too."""
        self.name, self.log = program, log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                (*_LEASH, sys.executable, *python, str(root / "cmd" / program), *flags),
                cwd=root,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, negative for a signal."""
        return self._process.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Return what it has logged so far, all of it or one kind of event."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                entry = json.loads(line)
                if not event or entry.get("event") == event:
                    found.append(entry)
        return found

    def text(self) -> str:
        """Return the end of everything it wrote."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_SHOWN:]

    def wait(self, what: str, condition: Callable[[], T], seconds: float = DEADLINE_S) -> T:
        """Return the first true answer of a condition; raise when the program ends or none comes in time."""
        end = time.monotonic() + seconds
        while True:
            if answer := condition():
                return answer
            if self.code is not None:
                raise ProgramError(f"{self.name} ended with {self.code} before {what}:\n{self.text()}")
            if time.monotonic() > end:
                raise ProgramError(f"{self.name}: not in {seconds:g} s: {what}:\n{self.text()}")
            time.sleep(_POLL_S)

    def port(self, name: str = "metrics_port") -> int:
        """Return a port that it told of when it began to listen."""
        (line,) = self.wait("it listens", lambda: self.lines("listening")[:1])
        return int(line[name])

    def http(self, path: str) -> tuple[int, str]:
        """Ask its HTTP port for a page; return status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=DEADLINE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        if self.code is None:
            self._process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for its own end and return the exit code."""
        try:
            return self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramError(f"{self.name} did not end:\n{self.text()}") from None

    def kill(self) -> None:
        """End it as a crash would."""
        if self.code is None:
            self._process.kill()
            self._process.wait()
