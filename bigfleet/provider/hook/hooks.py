"""Calls hooks: one per machine at a time, so many at once, each with its blob in a file that ends with it.

Why: order, environment and secrets of every hook are decided in one place, whoever calls it and why.
Must never: let a blob outlive its hook or reach a log; put more into a hook's environment than the protocol names.
Rules: providers 7.3.
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
_LINES_LOGGED: Final = 1000  # of one call; a hook that shouts must not fill the log


@dataclass(frozen=True, slots=True)
class HookResult:
    """How a hook ended, what it printed, and its own last word on standard error."""

    outcome: HookOutcome
    code: int
    output: bytes
    last_line: str

    @property
    def reason(self) -> str:
        """Why it ended so, in the hook's words if it had any."""
        return self.last_line or describe_exit(self.code)


@dataclass(slots=True)
class _Turn:
    """The lock of one machine, and how many hold it or wait for it."""

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
        """Make the private directory, and clear what a process that was killed left in it."""
        ensure_directory(self._disk, self._blob_directory)
        for name in self._disk.list_names(self._blob_directory):
            self._disk.remove(posixpath.join(self._blob_directory, name))

    def is_busy(self, machine_id: str) -> bool:
        """Tell whether a hook works on the machine now."""
        return machine_id in self._busy

    async def call(
        self,
        inventory: HookInventory,
        request: HookRequest,
        *,
        blob: bytes | None = None,
        timeout_s: float | None = None,
    ) -> HookResult:
        """Run the hook of a kind to its end; TimeoutError once it was ended for taking too long.

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

        def hear(line: str) -> None:
            nonlocal last, count
            said = one_line(without_secret(line, blob))
            if not said:
                return
            last, count = said, count + 1
            if count <= _LINES_LOGGED:
                log.info("hook_said", line=said)

        command = HookCommand(
            inventory.hooks[request.kind],
            request.arguments,
            request.encode(),
            self._environment(inventory, blob_path),
            keep_bytes=MAX_DISCOVERED_BYTES if request.kind is HookKind.DISCOVER else MAX_LINE_BYTES,
        )
        ended = await self._processes.run(command, hear)
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
        """Wait until nobody works on the machine, then for a place; in this order, so that no place is held in waiting."""
        turn = self._busy.setdefault(machine_id, _Turn())
        turn.users += 1
        try:
            async with turn.lock, self._places:
                yield
        finally:
            turn.users -= 1
            if (
                not turn.users
            ):  # not `locked`: a lock that was just let go has nobody in it and may be wanted all the same
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
            with suppress(DiskError):  # a disk that refused the file may refuse this too
                self._disk.remove(path)
