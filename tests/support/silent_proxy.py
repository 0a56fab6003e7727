"""A proxy before one port that can fall silent as a network that drops packets does.

Why: a peer that vanished closes nothing, so only pings and deadlines notice it; closing a socket would tell the other end at
once.
Must never: pass on the end of a connection while it is silent.
Rules: `wire#keepalive`, `shard#provider-reconnect`.

    proxy = SilentProxy(server.port)
    async with proxy.open() as port:
        channel = net.dial(f"127.0.0.1:{port}")
        proxy.fall_silent()
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

_LOOPBACK = "127.0.0.1"


class SilentProxy:
    """Passes bytes both ways, until it falls silent; what it holds back then passes when it speaks again."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._requests_pass, self._answers_pass = asyncio.Event(), asyncio.Event()
        self.speak()
        self._tasks: list[asyncio.Task[None]] = []
        self.connections = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[int, None]:
        """Listen; yields the port."""
        server = await asyncio.start_server(self._connected, _LOOPBACK, 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def fall_silent(self, *, answers_only: bool = False) -> None:
        """Hold back everything, on old connections and new ones, or only what the server sends."""
        self._answers_pass.clear()
        if not answers_only:
            self._requests_pass.clear()

    def speak(self) -> None:
        """Pass everything on, what was held back first."""
        self._requests_pass.set()
        self._answers_pass.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        await self._requests_pass.wait()
        there, back = await asyncio.open_connection(_LOOPBACK, self._target)
        try:
            async with asyncio.TaskGroup() as pipes:
                pipes.create_task(_pipe(reader, back, self._requests_pass))
                pipes.create_task(_pipe(there, writer, self._answers_pass))
        finally:
            back.close()
            writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
    data = b"begin"
    while data:
        try:
            data = await reader.read(65536)
        except OSError:
            data = b""
        await passes.wait()
        with contextlib.suppress(OSError):
            writer.write(data)
            await writer.drain()
    writer.close()
