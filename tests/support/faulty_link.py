"""A TCP proxy before one port of loopback that goes silent as a network does that drops every packet.

Why: what a process does about a dead peer differs from what it does about a silent one, and only a network can be silent.
A refused connection needs no proxy: kill the peer.
Must never: lose bytes for good that TCP would send again, or deliver them sooner after healing than TCP would. A sender repeats
with doubled pauses, so that after a long silence the first bytes come late; a connection attempt does the same.
"""

import asyncio
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

    def __init__(self, target: int) -> None:
        self._target = target
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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> None:
        """Let nothing pass, in either direction, on old connections and new ones; nothing is closed."""
        self._passes.clear()

    def heal(self) -> None:
        """Let everything pass again, each connection at the next time at which TCP would have sent again."""
        self._passes.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        try:
            await self._repeated(_ATTEMPT_S)
            there, back = await asyncio.open_connection(_LOOPBACK, self._target)
            try:
                await asyncio.wait(
                    [
                        asyncio.ensure_future(self._pipe(reader, back)),
                        asyncio.ensure_future(self._pipe(there, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                back.close()
        except OSError:
            pass  # the target is away: the caller's connection ends too
        finally:
            self._tasks.pop(task, None)
            writer.close()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._repeated(_DATA_S)
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
