"""The two ends of a call on the in-memory network.

Why: a call behaves as on gRPC: messages as bytes, in order, within the reader's window; limits and a deadline on both
sides; one status with trailing metadata; cancellation when either side ends.
Must never: pass an object of one side to the other; only bytes, metadata and numbers cross.
Rules: `testing#message-fidelity`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from bigfleet.aio.net import ClosedError, Code, Metadata, NotConnectedError, Peer, RpcError
from bigfleet.testing.net.links import Connection

WINDOW_BYTES: Final = 64 * 1024
"""A sender waits once this much of one stream is unread; a single larger message still passes."""


class Inbox:
    """Messages that arrived and were not read yet; for one reader."""

    def __init__(self, on_read: Callable[[int], None]) -> None:
        self._on_read = on_read
        self._messages: deque[bytes] = deque()
        self._ended = False
        self._error: RpcError | None = None
        self._reader: asyncio.Future[None] | None = None

    def put(self, data: bytes) -> None:
        if not self._ended:
            self._messages.append(data)
            self._wake()

    def end(self, error: RpcError | None, *, drop: bool) -> None:
        """End the stream; the first end counts. Earlier messages can still be read, unless dropped."""
        if not self._ended:
            self._ended, self._error = True, error
            if drop:
                self._messages.clear()
            self._wake()

    async def take(self) -> bytes | None:
        while not self._messages:
            if self._ended:
                if self._error is not None:
                    raise again(self._error)
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        data = self._messages.popleft()
        self._on_read(len(data))
        return data

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Window:
    """The flow-control window of a sender; the reader returns what it has read."""

    def __init__(self) -> None:
        self._unread = 0
        self._open = True
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self, size: int) -> None:
        """Wait until there is room; returns at once when the call has ended."""
        while self._open and self._unread >= WINDOW_BYTES:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        self._unread += size

    def give_back(self, size: int) -> None:
        self._unread -= size
        self._wake()

    def close(self) -> None:
        self._open = False
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_result(None)


def again(error: RpcError) -> RpcError:
    """A copy of an error without the traceback of the first raise."""
    if isinstance(error, NotConnectedError):
        return NotConnectedError(error.detail)
    return RpcError(error.code, error.detail, error.trailing)


def too_large(size: int, limit: int, verb: str) -> RpcError:
    return RpcError(Code.RESOURCE_EXHAUSTED, f"{verb} message of {size} bytes, the limit is {limit}")


class ServerEnd:
    """The server side of a call; both the `Call` and the raw stream of its handler."""

    def __init__(
        self, connection: Connection, path: str, metadata: Metadata, timeout_s: float | None, limit: int
    ) -> None:
        self._connection, self._path, self._metadata, self._limit = connection, path, metadata, limit
        self._timeout_s = timeout_s
        self._due: float | None = None
        self._timer: asyncio.Handle | None = None
        self._client: ClientEnd | None = None
        self._trailing: Metadata = ()
        self._inbox = Inbox(self._was_read)
        self._window = Window()
        self._task: asyncio.Task[None] | None = None
        self._gone = False

    # For the handler.

    @property
    def method(self) -> str:
        return self._path

    @property
    def accepted(self) -> bool:
        """False for a call that was sent before the client learned that the server is stopping."""
        return not self._connection.stopping

    @property
    def peer(self) -> Peer:
        return self._connection.peer

    @property
    def metadata(self) -> Metadata:
        return self._metadata

    def time_remaining_s(self) -> float | None:
        return None if self._due is None else max(0.0, self._due - asyncio.get_running_loop().time())

    def set_trailing(self, metadata: Metadata) -> None:
        self._trailing = metadata

    def cancelled(self) -> bool:
        return self._gone

    async def receive(self) -> bytes | None:
        return await self._inbox.take()

    async def send(self, data: bytes) -> None:
        if len(data) > self._limit:
            self._end(too_large(len(data), self._limit, "cannot send a"))
            self.cancel()
        await self._window.enter(len(data))
        client = self._client
        if client is not None and not self._gone:
            self._connection.down.put(lambda: client.message_came(data), len(data))

    # For the connection.

    def begin(
        self, client: "ClientEnd", serve: Callable[["ServerEnd"], Awaitable[None]]
    ) -> asyncio.Task[None]:
        """Run the handler; its end is the status of the call."""
        loop = asyncio.get_running_loop()
        self._client = client
        self._connection.add_server(self)
        self._task = loop.create_task(self._run(serve))
        if self._timeout_s is not None:
            # The remaining time is sent, since the clocks of two hosts may differ.
            self._due = loop.time() + self._timeout_s
            self._timer = loop.call_at(self._due, self.cancel)
        return self._task

    def message_came(self, data: bytes) -> None:
        if len(data) > self._limit:
            self._end(too_large(len(data), self._limit, "received a"))
            self.cancel()
        else:
            self._inbox.put(data)

    def half_closed(self) -> None:
        self._inbox.end(None, drop=False)

    def was_read(self, size: int) -> None:
        self._window.give_back(size)

    def cancel(self) -> None:
        """The caller cancelled the call, or its deadline passed."""
        if not self._gone:
            self._gone = True
            self._inbox.end(RpcError(Code.CANCELLED, "the caller has gone"), drop=True)
            self._window.close()
            if self._task is not None:
                self._task.cancel()

    def connection_lost(self, _detail: str) -> None:
        self._client = None
        self.cancel()

    async def _run(self, serve: Callable[["ServerEnd"], Awaitable[None]]) -> None:
        try:
            await serve(self)
        except RpcError as status:
            self._end(status)
        else:
            self._end(None)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._connection.remove(self)

    def _end(self, status: RpcError | None) -> None:
        client, self._client = self._client, None
        if client is not None and not self._gone:
            trailing = (*self._trailing, *(status.trailing if status else ()))
            final = RpcError(status.code, status.detail, trailing) if status else None
            self._connection.down.put(lambda: client.status_came(final, trailing))

    def _was_read(self, size: int) -> None:
        client = self._client
        if client is not None:
            self._connection.down.put(lambda: client.was_read(size))


class ClientEnd:
    """The client side of a call."""

    def __init__(self, limit: int, timeout_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._limit = limit
        self._due = None if timeout_s is None else loop.time() + timeout_s
        self._connection: Connection | None = None
        self._server: ServerEnd | None = None
        self._inbox = Inbox(self._was_read)
        self._window = Window()
        self._ready: asyncio.Future[None] = loop.create_future()  # set once connected, or once it has ended
        self._finished: asyncio.Future[Metadata] = loop.create_future()
        self._error: RpcError | None = None
        self._sending_done = False
        self._opening: asyncio.Task[None] | None = None
        self._timer = None if self._due is None else loop.call_at(self._due, self._expire)

    @property
    def ended(self) -> bool:
        return self._finished.done()

    def time_remaining_s(self) -> float | None:
        return None if self._due is None else max(0.0, self._due - asyncio.get_running_loop().time())

    def open_by(self, opening: Coroutine[object, None, None]) -> None:
        """Connect in the background, since a stream is returned at once."""
        self._opening = asyncio.get_running_loop().create_task(opening)

    def on_end(self, callback: Callable[[], object]) -> None:
        self._finished.add_done_callback(lambda _: callback())

    def connected(self, connection: Connection, server: ServerEnd) -> None:
        self._connection, self._server = connection, server
        connection.add_client(self)
        if not self._ready.done():
            self._ready.set_result(None)

    async def send(self, data: bytes) -> None:
        if self._sending_done:
            raise ClosedError("send after done_sending")
        if len(data) > self._limit:
            self.fail(too_large(len(data), self._limit, "cannot send a"), inform_peer=True)
        try:
            await asyncio.shield(self._ready)
            await self._window.enter(len(data))
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.ended:
            raise self._error or RpcError(Code.CANCELLED, "the peer has ended the stream")
        if self._connection is not None and self._server is not None:
            server = self._server
            self._connection.up.put(lambda: server.message_came(data), len(data))

    async def done_sending(self) -> None:
        self._sending_done = True
        await asyncio.shield(self._ready)
        if not self.ended and self._connection is not None and self._server is not None:
            self._connection.up.put(self._server.half_closed)

    async def receive(self) -> bytes | None:
        return await self._inbox.take()

    async def trailing(self) -> Metadata:
        return await asyncio.shield(self._finished)

    def cancel(self) -> None:
        self.fail(RpcError(Code.CANCELLED, "the call was given up on this side"), inform_peer=True)

    def fail(self, error: RpcError, *, inform_peer: bool) -> None:
        """End the call on this side; `inform_peer` sends the other side a cancellation."""
        if self.ended:
            return
        if inform_peer and self._connection is not None and self._server is not None:
            self._connection.up.put(self._server.cancel)
        self._finish(error, error.trailing, drop=True)

    def message_came(self, data: bytes) -> None:
        if len(data) > self._limit:
            self.fail(too_large(len(data), self._limit, "received a"), inform_peer=True)
        else:
            self._inbox.put(data)

    def status_came(self, error: RpcError | None, trailing: Metadata) -> None:
        if not self.ended:
            self._finish(error, trailing, drop=False)

    def was_read(self, size: int) -> None:
        self._window.give_back(size)

    def connection_lost(self, detail: str) -> None:
        self.fail(RpcError(Code.UNAVAILABLE, detail), inform_peer=False)

    def _expire(self) -> None:
        self.fail(RpcError(Code.DEADLINE_EXCEEDED, "deadline exceeded"), inform_peer=True)

    def _finish(self, error: RpcError | None, trailing: Metadata, *, drop: bool) -> None:
        self._error = error
        self._finished.set_result(trailing)
        self._inbox.end(error, drop=drop)
        self._window.close()
        if not self._ready.done():
            self._ready.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.remove(self)

    def _was_read(self, size: int) -> None:
        if self._connection is not None and self._server is not None:
            server = self._server
            self._connection.up.put(lambda: server.was_read(size))
