"""A virtual process: records its exit, and receives signals from a test.

Why: exit codes and signals are part of the contract, and tests check both.
Must never: touch the process in which the test runs.
Rules: `testing#constructor-seams`, `testing#simulated-process`.
"""

import signal
from typing import NoReturn

from bigfleet.aio.proc import STOP_SIGNALS, StopLatch
from bigfleet.model.errors import InvalidFieldError


class ProcessExitedError(BaseException):
    """The virtual process ended at once. Not an `Exception`, since a real exit cannot be caught."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the process exited at once with code {code}")
        self.code = code


class VirtualProc(StopLatch):
    """Records stop requests and exits, and lets a test send signals."""

    def __init__(self, pid: int = 1) -> None:
        super().__init__()
        self._pid = pid
        self._exited_with: int | None = None

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def exited_with(self) -> int | None:
        """The code of `exit_now`; None if it was not called."""
        return self._exited_with

    def request_stop(self, reason: str, code: int = 0) -> None:
        self._note(reason, code)
        self._stop.set()

    def exit_now(self, code: int) -> NoReturn:
        if self._exited_with is None:
            self._exited_with = code
        raise ProcessExitedError(code)

    def raise_signal(self, number: signal.Signals) -> None:
        """Deliver SIGTERM or SIGINT."""
        if number not in STOP_SIGNALS:
            raise InvalidFieldError("signal", number.name, "one of SIGTERM and SIGINT")
        self._on_signal(number)
