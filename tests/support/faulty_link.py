"""A TCP proxy before one port of loopback that goes silent as a network does that drops every packet.

Why: what a process does about a dead peer differs from what it does about a silent one, and only a network can be silent.
A refused connection needs no proxy: kill the peer. `tap` sees every byte, for measurements that must not ask the processes
that they measure.
Must never: lose bytes for good that TCP would send again, or deliver them sooner after healing than TCP would. A sender repeats
with doubled pauses, so that after a long silence the first bytes come late; a connection attempt does the same.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bigfleet.coordinator.raft.relays import stop_listening

_LOOPBACK: Final = "127.0.0.1"
_ATTEMPT_S: Final = 1.0
"""First pause of a connection attempt, doubled each time (RFC 6298)."""
_DATA_S: Final = 0.2
"""First pause of data on an open connection, doubled each time; what Linux begins with on a quick network."""


class FaultyLink:
    """Passes bytes to a port while it is not silent; `port` stays the same over stop and start."""

    def __init__(self, target: int, tap: Callable[[bool, bytes], None] | None = None) -> None:
        """`tap` is called with what is handed on: whether it goes to the target, and the bytes."""
        self._target, self._tap = target, tap
        self._server: asyncio.Server | None = None
        self._passes = asyncio.Event()
        self._passes.set()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, _LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            await stop_listening(self._server)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def silence(self) -> None:
        """Let nothing pass, in either direction, on old connections and new ones; nothing is closed."""
        self._passes.clear()

    def heal(self) -> None:
        """Let everything pass again, each connection at the next time at which TCP would have sent again."""
        self._passes.set()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: the one that a server makes of a coroutine complains when it is cancelled.
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pipes: list[asyncio.Task[None]] = []
        try:
            await self._repeated(_ATTEMPT_S)
            there, back = await asyncio.open_connection(_LOOPBACK, self._target)
            loop = asyncio.get_running_loop()
            pipes = [
                loop.create_task(self._pipe(reader, back, to_target=True)),
                loop.create_task(self._pipe(there, writer, to_target=False)),
            ]
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the target is away: the caller's connection ends too
        finally:
            for pipe in pipes:
                pipe.cancel()
            if pipes:
                back.close()
            writer.close()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_target: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._repeated(_DATA_S)
                if self._tap is not None:
                    self._tap(to_target, data)
                writer.write(data)
                await writer.drain()
            await self._repeated(_DATA_S)  # the end of a stream is a packet too

    async def _repeated(self, pause_s: float) -> None:
        """Return at once while bytes pass, else at the first repetition after healing."""
        if self._passes.is_set():
            return
        loop = asyncio.get_running_loop()
        due_s = loop.time() + pause_s
        while not self._passes.is_set():
            await self._passes.wait()
            while due_s < loop.time():
                pause_s *= 2
                due_s += pause_s
            await asyncio.sleep(due_s - loop.time())
