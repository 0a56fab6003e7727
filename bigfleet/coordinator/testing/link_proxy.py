"""A proxy before one Raft port that can tell who dials, and cut that link alone.

Why: a partition between two replicas of three is the case that leases and plain reads fail in; on loopback the dialler is told
by which process owns the other end of the connection.
Called by: `bigfleet.coordinator.testing.processes`.
Must never: be used outside tests; it reads the process table.
Rules: coordinator 18 rows 5 to 7.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_LOOPBACK = "127.0.0.1"


class LinkProxy:
    """Passes bytes to one port, except from blocked callers, whose connections hang as in a network that drops packets."""

    def __init__(self, target: int, pids: Callable[[], dict[int, int]]) -> None:
        self._target, self._pids = target, pids
        self._server: asyncio.Server | None = None
        self._blocked: set[int] = set()
        self._changed = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.port = 0

    async def start(self) -> None:
        """Listen on any free port."""
        self._server = await asyncio.start_server(self._connected, _LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def block(self, caller: int) -> None:
        """Let nothing pass from and to a caller, on old connections and new ones."""
        self._blocked.add(caller)
        self._tell()

    def unblock(self) -> None:
        """Let everything pass again."""
        self._blocked.clear()
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._tasks[task] = None
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.pop(task, None)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("peername")[1]
        caller = await asyncio.to_thread(owner_of, port, self._pids())
        there, back = await asyncio.open_connection(_LOOPBACK, self._target)
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._pipe(reader, back, caller)),
                    asyncio.ensure_future(self._pipe(there, writer, caller)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            back.close()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: int | None
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                while caller in self._blocked:
                    await self._changed.wait()
                writer.write(data)
                await writer.drain()


def owner_of(port: int, pids: dict[int, int]) -> int | None:
    """Return which of some processes has a connection from this local port; None if none of them has."""
    inode = _inode(port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    for name, pid in pids.items():
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                with suppress(OSError):
                    if os.readlink(descriptor.path) == wanted:
                        return name
    return None


def _inode(port: int) -> str | None:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[1].startswith("0100007F"):
            return fields[9]
    return None
