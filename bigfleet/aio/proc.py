"""The process seam: requests to stop, and the exit code.

Why: a signal handler that calls into a process is untestable, and an exit deep in a library call is invisible. Here a signal
only sets a fact that the process waits for, and every exit has a code and a reason.
Must never: end the process by itself on a first signal: calls already sent are awaited first (`shard#stopping`).
Rules: `testing#constructor-seams`, `shard#part-ends`, `shard#stopping`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Proc(Protocol):
    """The process this code runs in."""

    @property
    def pid(self) -> int:
        """The process id."""

    def is_stopping(self) -> bool:
        """Return whether a stop was asked for; nothing new may start then."""

    @property
    def exit_code(self) -> int:
        """What `main` has to return: zero unless a stop was asked for with another code."""

    def request_stop(self, reason: str, code: int = 0) -> None:
        """Ask for an orderly end, from any thread; the first code that is not zero stays, so no failure is papered over."""

    async def wait_stop(self) -> str:
        """Wait until a stop is asked for, by a signal or by `request_stop`; return the first reason."""

    async def wait_hurry(self) -> None:
        """Wait for a second signal: someone wants out now, so the rest of the grace is forfeit."""

    def exit_now(self, code: int) -> NoReturn:
        """End the process at once, from any thread, running no clean-up: what is on disk may no longer be touched."""


class StopLatch:
    """What signals and requests have said so far; the common part of the system and the virtual process."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._exit_code = 0
        self._reason: str | None = None
        self._signals = 0

    def is_stopping(self) -> bool:
        return self._reason is not None

    @property
    def exit_code(self) -> int:
        return self._exit_code

    async def wait_stop(self) -> str:
        await self._stop.wait()
        return self._reason or ""

    async def wait_hurry(self) -> None:
        await self._hurry.wait()

    def _note(self, reason: str, code: int) -> None:
        if self._reason is None:
            self._reason = reason
        self._exit_code = self._exit_code or code

    def _on_signal(self, number: signal.Signals) -> None:
        # Signals are counted, not stops: the first one after a stop of our own is the supervisor's usual SIGTERM.
        self._signals += 1
        if self._signals > 1:
            self._hurry.set()
        self._note(number.name, 0)
        self._stop.set()


class SystemProc(StopLatch):
    """The real process; hears signals only inside `listen`."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def pid(self) -> int:
        return os.getpid()

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Turn SIGTERM and SIGINT into a stop for as long as the body runs; to be entered on the running loop."""
        loop = self._loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            self._loop = None
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    def request_stop(self, reason: str, code: int = 0) -> None:
        # The facts are set here, so that the caller sees them at once; only the waking has to happen on the loop.
        self._note(reason, code)
        if self._loop is None:
            self._stop.set()
        else:
            self._loop.call_soon_threadsafe(self._stop.set)

    def exit_now(self, code: int) -> NoReturn:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # a closed terminal must not keep the process alive
            os._exit(code)
