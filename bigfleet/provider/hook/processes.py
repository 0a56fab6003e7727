"""Runs one command to its end, without a shell and in its own process group.

Why: hooks may hang, leave children, ignore signals or write without end, and none of that may affect the provider.
Must never: return before the command has exited, let it inherit a descriptor or the environment, or signal another process.
Rules: `providers#hook-protocol`.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from bigfleet.aio.clock import Clock, timeout
from bigfleet.model.errors import BigFleetError

KILL_AFTER_S: Final = 10.0
MAX_LINE_BYTES: Final = 64 * 1024
_LINGER_S: Final = 1.0
_GROUP_POLL_S: Final = 0.05
_CHUNK: Final = 64 * 1024


class SpawnError(BigFleetError):
    """The command could not be started."""


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A command to run; only the last `keep_bytes` of its output are kept."""

    program: str
    arguments: tuple[str, ...]
    stdin: bytes
    environment: Mapping[str, str] = field(repr=False)
    keep_bytes: int = MAX_LINE_BYTES


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: its exit code, the negative signal number if one killed it, and the end of its output."""

    code: int
    output: bytes = b""


class Processes(Protocol):
    """Runs commands."""

    async def run(self, command: HookCommand, on_error_line: Callable[[str], None]) -> CommandResult:
        """Run a command to its end; pass each line of its standard error to the callback.

        When cancelled: SIGTERM to the process group, SIGKILL ten seconds later, and only then the cancellation continues.
        """
        ...


class SystemProcesses:
    """Real processes."""

    def __init__(self, clock: Clock, kill_after_s: float = KILL_AFTER_S) -> None:
        self._clock, self._kill_after_s = clock, kill_after_s

    async def run(self, command: HookCommand, on_error_line: Callable[[str], None]) -> CommandResult:
        # Own pipes: those of asyncio keep `wait` from returning while a grandchild holds them.
        async with _Pipe() as out, _Pipe() as err:
            process = await self._start(command, out, err)
            tail = asyncio.ensure_future(_keep_tail(out.reader, command.keep_bytes))
            lines = asyncio.ensure_future(_read_lines(err.reader, on_error_line))
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                await _whatever_happens(self._end(process))
                raise
            finally:
                await self._finish(tail, lines)
            return CommandResult(code, await tail)

    async def _start(self, command: HookCommand, out: "_Pipe", err: "_Pipe") -> asyncio.subprocess.Process:
        with tempfile.TemporaryFile() as stdin:
            stdin.write(command.stdin)
            stdin.seek(0)
            try:
                return await asyncio.create_subprocess_exec(
                    command.program,
                    *command.arguments,
                    stdin=stdin,
                    stdout=out.write_end,
                    stderr=err.write_end,
                    env=dict(command.environment),
                    cwd=os.path.dirname(command.program) or None,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise SpawnError(f"{command.program}: {why}") from error
            finally:
                out.close_write_end()
                err.close_write_end()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Terminate the whole group: the leader may have exited and its children not, or the other way round."""
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with timeout(self._clock, self._kill_after_s):
                await process.wait()
                while _signal_group(process.pid, 0):
                    await self._clock.sleep(_GROUP_POLL_S)
        _signal_group(process.pid, signal.SIGKILL)
        await process.wait()

    async def _finish(self, tail: "asyncio.Future[bytes]", lines: "asyncio.Future[None]") -> None:
        """Read what is left in the pipes, but do not wait for children that the command left running."""
        try:
            with contextlib.suppress(TimeoutError):
                async with timeout(self._clock, _LINGER_S):
                    await asyncio.wait([tail])
                    await asyncio.wait([lines])
        finally:
            tail.cancel()
            lines.cancel()


class _Pipe:
    """A pipe whose reading end is a stream of this loop."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        self.write_end = -1
        self._transport: asyncio.ReadTransport | None = None

    async def __aenter__(self) -> "_Pipe":
        read_end, self.write_end = os.pipe()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.reader), os.fdopen(read_end, "rb", 0)
        )
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.close_write_end()
        if self._transport is not None:
            self._transport.close()

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1


async def _keep_tail(reader: asyncio.StreamReader, size: int) -> bytes:
    kept = bytearray()
    try:
        while chunk := await reader.read(_CHUNK):
            kept += chunk
            del kept[:-size]
    except asyncio.CancelledError:
        pass  # the command has exited; output of children that it left is ignored
    return bytes(kept)


async def _read_lines(reader: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
    rest = b""
    while chunk := await reader.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace"))
        rest = rest[-MAX_LINE_BYTES:]  # a line without end
    if rest:
        on_line(rest.decode(errors="replace"))


def _signal_group(group: int, number: int) -> bool:
    """Signal the process group of a command; False when no process of it is left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter: the number belongs to another group now
        return False
    return True


async def _whatever_happens(work: Coroutine[Any, Any, None]) -> None:
    """Finish a coroutine of bounded duration even if the task is cancelled again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
