"""A small HTTP/1 server: one handler for all paths, one response per connection.

Why not aiohttp, which the dashboard uses: importing it costs a shard, a coordinator or a provider 6 to 10 MB and 0.4 s of
CPU at start, and its server has neither a deadline for the request nor a limit on connections. Three paths of a probe and
the verbs of the fake provider's control need no router.
Must never: wait for a slow peer beyond its deadlines, read more than its limits, answer what it does not understand with
anything but a refusal, or let slow peers keep a newcomer out: the oldest connection whose request is not whole makes room.
Rules: `packaging#http`, `packaging#connection-limits`, `shard#readiness`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import structlog

from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport, Listener
from bigfleet.aio.net import ListenError
from bigfleet.transport.accepting import PacedListener, bind_all, release
from bigfleet.transport.address import ListenAddress, listen_problem
from bigfleet.transport.connections import BookLimits, ConnectionBook
from bigfleet.transport.descriptors import DescriptorShares

MAX_CONNECTIONS: Final = 64
BOOK: Final = BookLimits(
    connections=MAX_CONNECTIONS, unproven=MAX_CONNECTIONS, unproven_per_address=MAX_CONNECTIONS
)
"""A kubelet and two scrapers use three; the rest is for their requests while strangers are there."""
ACCEPTED_PER_S: Final = 500.0
"""Ten times what a scrape per second of every series needs; one costs the loop half a millisecond."""
TEXT: Final = "text/plain; charset=utf-8"
DEFECT: Final = "internal error; the log has the details"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Connection": "close",
}


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How long a peer may take, and how much it may send."""

    request_s: float = 5.0
    write_s: float = 30.0
    line_bytes: int = 4096
    head_bytes: int = 16 * 1024
    body_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that was read whole; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a handler answers."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpRefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


HttpHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Answers a request; may raise `HttpRefusedError`."""
Refusal = Callable[[HTTPStatus, str], HttpResponse]


class HttpServer:
    """Listens on one address and passes each request to a handler.

    `refuse` writes the response to a request that is refused.
    """

    def __init__(
        self,
        handle: HttpHandler,
        refuse: Refusal,
        limits: HttpLimits,
        report: ConnectionReport = NO_REPORT,
    ) -> None:
        self._handle, self._refuse, self._limits, self._report = handle, refuse, limits, report
        self._log = structlog.get_logger("bigfleet.transport")
        self._listener: PacedListener | None = None
        # A request that is whole has proven itself: it gets its answer before another slow one gets its place.
        self._book: ConnectionBook[asyncio.Task[None]] = ConnectionBook(
            BOOK.within(DescriptorShares.of_process().http), spare_proven=False
        )

    @property
    def port(self) -> int:
        """The port really bound."""
        if self._listener is None:
            raise ListenError("", "the HTTP server is not listening")
        return self._listener.port

    async def listen(self, address: ListenAddress) -> None:
        """Begin to serve; `ListenError` when the address is not available."""
        try:
            listeners = bind_all(address)
        except OSError as error:
            raise ListenError(str(address), listen_problem(error)) from error
        self._listener = PacedListener(
            listeners,
            self._on_accepted,
            per_second=ACCEPTED_PER_S,
            on_shortage=lambda error: self._report.on_shortage(Listener.HTTP, error),
        )

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._listener is None:
            return
        self._listener.close()
        tasks = self._book.present()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _on_accepted(self, accepted: socket.socket, address: str) -> None:
        task = asyncio.get_running_loop().create_task(self._connected(accepted))

        def ended(done: asyncio.Task[None]) -> None:
            self._book.leave(done)
            accepted.close()  # also if the task was cancelled before its first step

        task.add_done_callback(ended)
        departure = self._book.enter(task, address)
        if departure is not None:
            departure.key.cancel()
            self._report.on_refused(Listener.HTTP, departure.reason, address)

    async def _connected(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(self._limits.line_bytes, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError:
            return  # the peer is gone already
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            # A peer that goes away, or one that has to go, ends a connection without a log line.
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            transport.abort()
            release(transport)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head_only = False
        try:
            async with asyncio.timeout(self._limits.request_s):
                request = await _read_request(reader, self._limits)
        except TimeoutError:
            response = self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request did not come in time")
        except HttpRefusedError as refused:
            response = self._refuse(refused.status, refused.text)
        else:
            if (task := asyncio.current_task()) is not None:
                self._book.prove(task)
            head_only = request.method == "HEAD"
            response = await self._answer(request)
        async with asyncio.timeout(self._limits.write_s):
            writer.write(_encode(response, head_only))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._handle(request)
        except HttpRefusedError as refused:
            return self._refuse(refused.status, refused.text)
        except Exception as error:  # a defect must be logged, and its text must not reach the peer
            self._log.error("http_defect", path=request.path, exc_info=error)
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, DEFECT)


async def _read_request(reader: asyncio.StreamReader, limits: HttpLimits) -> HttpRequest:
    words = (await _read_line(reader)).split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise HttpRefusedError(HTTPStatus.BAD_REQUEST, "no request line of HTTP/1")
    headers: dict[str, str] = {}
    size = 0
    while line := await _read_line(reader):
        size += len(line)
        if size > limits.head_bytes:
            raise HttpRefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpRefusedError(HTTPStatus.BAD_REQUEST, "a header that cannot be read")
        headers[name.lower()] = value.strip()
    path, _, query = words[1].partition("?")
    return HttpRequest(words[0], path, query, headers, await _read_body(reader, headers, limits))


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str], limits: HttpLimits) -> bytes:
    length, chunked = headers.get("content-length", "0"), "transfer-encoding" in headers
    if not limits.body_bytes and (chunked or length != "0"):
        raise HttpRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no body is allowed")
    if chunked or not length.isdecimal():
        raise HttpRefusedError(HTTPStatus.LENGTH_REQUIRED, "a body needs its length")
    if int(length) > limits.body_bytes:
        raise HttpRefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"found {length} bytes, allowed is {limits.body_bytes}"
        )
    try:
        return await reader.readexactly(int(length))
    except asyncio.IncompleteReadError:
        raise HttpRefusedError(HTTPStatus.BAD_REQUEST, "the body is shorter than said") from None


async def _read_line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        raise HttpRefusedError(HTTPStatus.BAD_REQUEST, "the request broke off") from None
    except asyncio.LimitOverrunError:
        raise HttpRefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "a line is too long") from None
    text = line.rstrip(b"\r\n").decode("latin-1")
    # Also refuses a lone carriage return, which some servers take for a line end.
    if not text.replace("\t", " ").isprintable():
        raise HttpRefusedError(HTTPStatus.BAD_REQUEST, "a line that cannot be read")
    return text


def _encode(response: HttpResponse, head_only: bool) -> bytes:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        **_HEADERS,
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head if head_only else head + response.body
