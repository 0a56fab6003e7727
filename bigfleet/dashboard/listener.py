"""Accepts the connections of readers: how many, how long a head may take, and what a request that cannot be read gets.

Why: the HTTP library waits an hour for a head, keeps any number of connections, and logs a traceback for every malformed
request; anyone who reaches the port could fill descriptors and logs.
Must never: close a connection with a request under way to make room, or log what a peer sent.
Rules: `dashboard#connections`; ADR-0245.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from bigfleet.dashboard.guard import Admission, protect

_LINGER_S: Final = 1.0
"""How long to read on after the answer to a request whose body was not read, so that the peer gets the answer."""
_HANDSHAKE_S: Final = 10.0


class Connections:
    """The open connections of one listener, oldest idle one first."""

    def __init__(
        self, *, most: int, head_s: float, admission: Admission, refused: Callable[[str], object]
    ) -> None:
        self.head_s, self.admission, self.refused = head_s, admission, refused
        self._most = most
        self._open: set[ReaderConnection] = set()
        self._idle: dict[ReaderConnection, None] = {}  # an ordered set

    def opened(self, connection: "ReaderConnection") -> bool:
        """Note a connection; False when it is one too many and no other is idle."""
        if len(self._open) >= self._most:
            self.refused("connections")
            if not self._idle:
                return False
            oldest = next(iter(self._idle))
            self.closed(oldest)
            oldest.force_close()
        self._open.add(connection)
        self._idle[connection] = None
        return True

    def closed(self, connection: "ReaderConnection") -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def is_idle(self, connection: "ReaderConnection") -> bool:
        """Whether a connection has no request under way."""
        return connection in self._idle

    @web.middleware
    async def track(
        self, request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:  # Any: aiohttp's own kind of handler
        """Count a connection as busy while its request is answered."""
        connection = request.protocol
        if isinstance(connection, ReaderConnection):
            self._idle.pop(connection, None)
            connection.head_ended()
        try:
            response: web.StreamResponse = await handler(request)
            return response
        finally:
            if connection in self._open and isinstance(connection, ReaderConnection):
                self._idle[connection] = None


class ReaderConnection(web.RequestHandler):
    """One connection of a reader."""

    def __init__(self, manager: web.Server, connections: Connections) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None is the library's word for no log of requests
            keepalive_timeout=connections.head_s,
            lingering_time=_LINGER_S,
        )
        self._connections = connections
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, or close it where there are too many."""
        super().connection_made(transport)
        if not self._connections.opened(self):
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self.head_ended()
        self._connections.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones of a request start the time that its head may take."""
        if self._head is None and self._connections.is_idle(self):
            loop = asyncio.get_running_loop()
            self._head = loop.call_later(self._connections.head_s, self._late)
        super().data_received(data)

    def head_ended(self) -> None:
        """A whole head has arrived, or none will."""
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that cannot be read, in the form of all other errors and without a traceback in the log."""
        self.head_ended()
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._connections.refused("malformed")
        too_long = isinstance(exc, LineTooLong)
        text = "the head of the request is too long" if too_long else "this is no HTTP request"
        response = web.json_response({"error": text}, status=431 if too_long else 400)
        protect(request, response, self._connections.admission)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **about: Any) -> None:  # Any: as the library declares it
        """Log a defect; a body that breaks off is none, also where the library only reads on to be rid of it."""
        if not isinstance(about.get("exc_info"), web.RequestPayloadError | HttpProcessingError):
            super().log_exception(*args, **about)

    def _late(self) -> None:
        self._head = None
        if self._connections.is_idle(self):
            self._connections.refused("slow")
            self.force_close()


async def listen(
    runner: web.AppRunner, connections: Connections, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    """Listen for readers of an application that is set up; raises `OSError`."""
    manager = runner.server
    if manager is None:
        raise RuntimeError("the application is not set up")
    loop = asyncio.get_running_loop()
    # An empty host is every interface.
    return await loop.create_server(
        lambda: ReaderConnection(manager, connections),
        host or None,
        port,
        ssl=tls,
        ssl_handshake_timeout=_HANDSHAKE_S if tls else None,
    )
