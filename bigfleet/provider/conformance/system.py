"""The real surroundings of a run: gRPC, the system clock, and processes started by a command.

Why: authors of providers should have one function to call.
Must never: run a command through a shell, or signal a process that it did not start itself.
Rules: `providers#ask-first`.
"""

import asyncio
import contextlib
import shlex
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any, Final

from bigfleet.aio.clock import Clock, SystemClock, monotonic_s, timeout
from bigfleet.aio.ids import SystemIds
from bigfleet.aio.net import Net
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.conformance.admittance import refuse_stranger
from bigfleet.provider.conformance.caller import Caller
from bigfleet.provider.conformance.calls import CallLog
from bigfleet.provider.conformance.errors import LaunchError
from bigfleet.provider.conformance.settings import RunSettings
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore

_LOOPBACK: Final = "127.0.0.1"
_START_S: Final = 60.0
_END_S: Final = 30.0
_POLL_S: Final = 0.05
_CALL_S: Final = 5.0


def system_settings(*, tls: TlsStore | None = None, **chosen: Any) -> RunSettings:
    """Return settings on the real network and clock; every other field of `Settings` may be given by name."""
    fields = {
        "net": GrpcNet(tls),
        "clock": SystemClock(),
        "run_id": SystemIds().session(),
        "secured": tls is not None,
    }
    return RunSettings(**{**fields, **chosen})


class CommandLauncher:
    """Starts providers by a command line with `{port}`, `{state}` and `{seed_count}` in it.

    Each name of a state is a path of its own below one private directory, which ends with the launcher.
    """

    def __init__(self, command: str, net: Net, clock: Clock, directory: Path) -> None:
        if "{port}" not in command:
            raise InvalidFieldError("--start", command, "a command that has {port} in it")
        self._command, self._net, self._clock, self._directory = command, net, clock, directory

    async def start(self, state: str, seed_count: int) -> "CommandProcess":
        port = _free_port()
        words = [
            word.replace("{port}", str(port))
            .replace("{state}", str(self._directory / state))
            .replace("{seed_count}", str(seed_count))
            for word in shlex.split(self._command)
        ]
        log = self._directory / f"{state}.log"
        with log.open("ab") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(f"{words[0]}: {error.strerror or error}") from error
        running = CommandProcess(process, f"{_LOOPBACK}:{port}", self._clock)
        try:
            await self._until_it_answers(running, log)
        except BaseException:
            await running.kill()
            raise
        return running

    async def _until_it_answers(self, running: "CommandProcess", log: Path) -> None:
        end_s = monotonic_s(self._clock) + _START_S
        while True:
            if running.exit_code is not None:
                raise LaunchError(
                    f"the process ended with exit code {running.exit_code} at once; {_last_line(log)}"
                )
            calls = Caller(self._net.dial(running.target), CallLog(), _CALL_S)
            try:
                listing = await calls.list(max_results=1)
                if listing.ok:
                    return
                refuse_stranger(running.target, listing)
            finally:
                await calls.close()
            if monotonic_s(self._clock) >= end_s:
                raise LaunchError(f"no answer from {running.target} after {_START_S:g} s; {_last_line(log)}")
            await self._clock.sleep(_POLL_S)


class CommandProcess:
    """A process that the launcher started; see `bigfleet.provider.conformance.settings.StartedProvider`."""

    def __init__(self, process: asyncio.subprocess.Process, target: str, clock: Clock) -> None:
        self._process, self._target, self._clock = process, target, clock

    @property
    def target(self) -> str:
        return self._target

    @property
    def exit_code(self) -> int | None:
        """The code it ended with; None while it runs."""
        return self._process.returncode

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def terminate(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with timeout(self._clock, _END_S):
                return await self._process.wait()
        except TimeoutError:
            await self.kill()
            raise LaunchError(f"the process did not end within {_END_S:g} s of SIGTERM") from None


class CommandSubstrate:
    """Reaches below a provider by a command line with `{verb}` (reprice or remove) and `{id}` in it."""

    def __init__(self, command: str) -> None:
        if "{verb}" not in command or "{id}" not in command:
            raise InvalidFieldError("--substrate", command, "a command that has {verb} and {id} in it")
        self._command = command

    async def reprice(self, machine_id: str) -> None:
        await self._run("reprice", machine_id)

    async def remove(self, machine_id: str) -> None:
        await self._run("remove", machine_id)

    async def _run(self, verb: str, machine_id: str) -> None:
        words = [
            word.replace("{verb}", verb).replace("{id}", machine_id) for word in shlex.split(self._command)
        ]
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
        code = await process.wait()
        if code:
            raise LaunchError(f"{words[0]} {verb} {machine_id}: exit code {code}")


def private_directory() -> "tempfile.TemporaryDirectory[str]":
    """Return a directory for state files and logs of started processes; it ends with its context."""
    return tempfile.TemporaryDirectory(prefix="bigfleet-conformance-")


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"its last words: {last.strip()[:200]}" if last else "it said nothing"
