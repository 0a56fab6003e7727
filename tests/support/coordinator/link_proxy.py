"""A proxy before one Raft port that can tell who dials, and cut that link alone.

Why: a partition between two replicas of three is the case that leases and plain reads fail in; on loopback the dialler is told
by which process owns the other end of the connection.
Must never: carry a connection whose caller it does not know, since it could not cut it; or be used outside tests, as it reads
the process table.
Rules: `coordinator#leader-cut-off`, `coordinator#link-cut-idle`, `coordinator#link-cut-writing`.

A cut is in force when `block` returns: what has been read from either side but not handed on yet is held back too. What is
counted in `passed` was handed on.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from bigfleet.coordinator.raft.relays import stop_listening

_LOOPBACK = "127.0.0.1"
_ESTABLISHED = "01"
_TABLE = Path("/proc/net/tcp")


class LinkProxy:
    """Passes bytes to one port, except from blocked callers, whose connections hang as in a network that drops packets."""

    def __init__(self, target: int, pids: Callable[[], dict[int, int]]) -> None:
        self._target, self._pids = target, pids
        self._server: asyncio.Server | None = None
        self._blocked: set[int] = set()
        self._changed = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.port = 0
        self.passed: Counter[int] = Counter()
        """Bytes handed on so far, both ways, by who dialled."""
        self.unknown = 0
        """Connections that were refused because their dialler is unknown."""

    async def start(self) -> None:
        """Listen on any free port."""
        self._server = await asyncio.start_server(self._connected, _LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            await stop_listening(self._server)
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
        caller = await asyncio.to_thread(owner_of, port, self.port, self._pids())
        if caller is None:
            self.unknown += 1
            return  # it dials again, and is known then
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

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: int) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                while caller in self._blocked:
                    await self._changed.wait()
                writer.write(data)
                self.passed[caller] += len(data)
                await writer.drain()


def owner_of(port: int, target: int, pids: Mapping[int, int]) -> int | None:
    """Return which of some processes holds the connection from one local port to another; None if none of them does."""
    inode = inode_of(port, target, _TABLE.read_text().splitlines()[1:])
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


def inode_of(port: int, target: int, lines: Iterable[str]) -> str | None:
    """Return the socket of the connection between two loopback ports, as its dialler has it; None if it is not established.

    Both ends count: the system gives one local port to several connections, as long as they lead to different places, and one
    that was closed a moment ago keeps its line, without a socket.
    """
    for line in lines:
        fields = line.split()
        if fields[1:4] == [_end(port), _end(target), _ESTABLISHED]:
            return fields[9]
    return None


def _end(port: int) -> str:
    return f"0100007F:{port:04X}"
