"""Runs hooks: one per machine at a time, a limited number at once, each with its blob in a temporary file.

Must never: let a blob outlive its hook or reach a log; put more into a hook's environment than the protocol names.
Rules: `providers#hook-protocol`.
"""

import asyncio
import posixpath
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.disk import Disk, DiskError, OpenMode, ensure_directory
from bigfleet.provider.hook.core.exits import HookOutcome, describe_exit, outcome_of
from bigfleet.provider.hook.core.inventory import HookInventory, HookKind
from bigfleet.provider.hook.core.protocol import (
    BLOB_VARIABLE,
    DEFAULT_PATH,
    DRY_RUN_VARIABLE,
    INHERITED,
    HookRequest,
)
from bigfleet.provider.hook.processes import MAX_LINE_BYTES, HookCommand, Processes
from bigfleet.provider.kit.core.texts import one_line, without_secret

DEFAULT_PARALLEL: Final = 16
MAX_DISCOVERED_BYTES: Final = 256 * 1024 * 1024
_LINES_LOGGED: Final = 1000  # per call; a hook that writes without end must not fill the log


@dataclass(frozen=True, slots=True)
class HookResult:
    """How a hook ended, what it printed, and its last line on standard error."""

    outcome: HookOutcome
    code: int
    output: bytes
    last_line: str

    @property
    def reason(self) -> str:
        """The hook's last line on standard error, else its exit code in words."""
        return self.last_line or describe_exit(self.code)


@dataclass(slots=True)
class _Turn:
    """The lock of one machine, with the number of its holders and waiters."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class HookRunner:
    """The hooks of one provider."""

    def __init__(
        self,
        processes: Processes,
        *,
        environ: Mapping[str, str],
        disk: Disk,
        blob_directory: str,
        clock: Clock,
        log: FilteringBoundLogger,
        parallel: int = DEFAULT_PARALLEL,
        dry_run: bool = False,
    ) -> None:
        self._processes, self._environ, self._clock, self._log = processes, environ, clock, log
        self._disk, self._blob_directory, self._dry_run = disk, blob_directory, dry_run
        self._places = asyncio.Semaphore(parallel)
        self._busy: dict[str, _Turn] = {}
        self._blobs = 0

    def prepare(self) -> None:
        """Create the private directory, and remove what a killed process left in it."""
        ensure_directory(self._disk, self._blob_directory)
        for name in self._disk.list_names(self._blob_directory):
            self._disk.remove(posixpath.join(self._blob_directory, name))

    def is_busy(self, machine_id: str) -> bool:
        return machine_id in self._busy

    async def call(
        self,
        inventory: HookInventory,
        request: HookRequest,
        *,
        blob: bytes | None = None,
        timeout_s: float | None = None,
    ) -> HookResult:
        """Run the hook of a kind to its end; TimeoutError when it took too long and was terminated.

        Raises `SpawnError` if it cannot be started and `DiskError` if its blob cannot be written.
        """
        async with self._turn(request.subject.id if request.subject else ""):
            with self._blob_file(blob) as path:
                async with timeout(self._clock, timeout_s):
                    return await self._run(inventory, request, path, blob or b"")

    async def _run(
        self, inventory: HookInventory, request: HookRequest, blob_path: str, blob: bytes
    ) -> HookResult:
        last, count = "", 0
        log = self._log.bind(hook=request.kind.value, machine=request.subject.id if request.subject else "")

        def on_line(line: str) -> None:
            nonlocal last, count
            text = one_line(without_secret(line, blob))
            if not text:
                return
            last, count = text, count + 1
            if count <= _LINES_LOGGED:
                log.info("hook_said", line=text)

        command = HookCommand(
            inventory.hooks[request.kind],
            request.arguments,
            request.encode(),
            self._environment(inventory, blob_path),
            keep_bytes=MAX_DISCOVERED_BYTES if request.kind is HookKind.DISCOVER else MAX_LINE_BYTES,
        )
        ended = await self._processes.run(command, on_line)
        if count > _LINES_LOGGED:
            log.warning("hook_said_too_much", lines=count, logged=_LINES_LOGGED)
        log.debug("hook_ended", code=ended.code)
        return HookResult(outcome_of(request.kind, ended.code), ended.code, ended.output, last)

    def _environment(self, inventory: HookInventory, blob_path: str) -> dict[str, str]:
        names = (*INHERITED, *inventory.pass_env)
        found = {
            "PATH": DEFAULT_PATH,
            **{name: self._environ[name] for name in names if name in self._environ},
        }
        if blob_path:
            found[BLOB_VARIABLE] = blob_path
        if self._dry_run:
            found[DRY_RUN_VARIABLE] = "1"
        return found

    @asynccontextmanager
    async def _turn(self, machine_id: str) -> AsyncIterator[None]:
        """Wait for the machine's lock, then for a permit; in this order, so that no waiter holds a permit."""
        turn = self._busy.setdefault(machine_id, _Turn())
        turn.users += 1
        try:
            async with turn.lock, self._places:
                yield
        finally:
            turn.users -= 1
            # Not `locked`: a lock that was just released may still have waiters.
            if not turn.users:
                del self._busy[machine_id]

    @contextmanager
    def _blob_file(self, blob: bytes | None) -> Iterator[str]:
        if blob is None:
            yield ""
            return
        self._blobs += 1
        path = posixpath.join(self._blob_directory, f"blob-{self._blobs}")
        try:
            with self._disk.open(path, OpenMode.CREATE) as file:
                file.pwrite(0, blob)
            yield path
        finally:
            with suppress(DiskError):  # a disk that failed to write may fail to remove
                self._disk.remove(path)
