"""The HTTP side of every process: `/metrics`, `/healthz`, `/readyz`, and nothing else.

Why: kubelets and Prometheus ask over plain HTTP, also under mutual TLS. Three paths need no framework, and a server this
small can be read whole: what it does not understand, it refuses and closes.
Must never: wait for a slow peer beyond the header timeout, read more than its limits, keep a connection after one answer,
or listen beyond loopback unless told.
Rules: packaging 1.2 (addresses, `0` disables) and 1.11, shard 20.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import structlog

from bigfleet.aio.net import ListenError
from bigfleet.transport.address import listen_problem, parse_http_listen

HEADER_TIMEOUT_S: Final = 5.0
WRITE_TIMEOUT_S: Final = 30.0
MAX_LINE_BYTES: Final = 4096
MAX_HEAD_BYTES: Final = 16 * 1024
MAX_CONNECTIONS: Final = 64
_TEXT: Final = "text/plain; charset=utf-8"

MetricsText = Callable[[str], tuple[bytes, str]]
"""Takes the Accept header, returns body and content type; `bigfleet.obs.exposition` makes one."""
Reasons = Callable[[], Sequence[str]]
"""Returns why the process is not ready, one short line each; nothing means ready."""


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """How long a peer may take; the defaults are the contract, tests shorten them."""

    header_s: float = HEADER_TIMEOUT_S
    write_s: float = WRITE_TIMEOUT_S


_TIMEOUTS: Final = HttpTimeouts()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT
    allow: str = ""


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    accept: str


class _BadRequestError(Exception):
    """What came is not a request this server reads; carries the answer."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpProbes:
    """A listening HTTP server with the three paths."""

    def __init__(
        self,
        metrics: MetricsText,
        not_ready: Reasons,
        timeouts: HttpTimeouts,
        *,
        remarks: Reasons = tuple,
        not_alive: Reasons = tuple,
    ) -> None:
        self._metrics, self._not_ready, self._timeouts = metrics, not_ready, timeouts
        self._remarks, self._not_alive = remarks, not_alive
        self._log = structlog.get_logger("bigfleet.transport")
        self._server: asyncio.Server | None = None
        self._running: dict[asyncio.Task[None], None] = {}  # a set in the order of arrival

    @property
    def port(self) -> int:
        """The port really bound."""
        if self._server is None:
            raise ListenError("", "the HTTP server is not listening")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.start_server(self._accept, host or None, port, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise ListenError(f"{host}:{port}", listen_problem(error)) from error

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._running) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._running[task] = None
        try:
            # A peer that goes away, or a stop of this server, ends a probe quietly: the next one comes soon.
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._running.pop(task, None)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head_only = False
        try:
            async with asyncio.timeout(self._timeouts.header_s):
                request = await _read_request(reader)
        except TimeoutError:
            answer = _Answer(HTTPStatus.REQUEST_TIMEOUT, b"the request did not come in time\n")
        except _BadRequestError as bad:
            answer = _Answer(bad.status, f"{bad}\n".encode())
        else:
            head_only = request.method == "HEAD"
            answer = self._safe_answer(request)
        async with asyncio.timeout(self._timeouts.write_s):
            writer.write(_encode(answer, head_only))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def _safe_answer(self, request: _Request) -> _Answer:
        try:
            return self._answer(request)
        except Exception as error:  # a defect of a probe must not look like a dead process without a word
            self._log.error("http_defect", path=request.path, exc_info=error)
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error; the log has the details\n")

    def _answer(self, request: _Request) -> _Answer:
        if request.method not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"GET and HEAD only\n", allow="GET, HEAD")
        match request.path:
            case "/healthz":
                return _probe(self._not_alive())
            case "/readyz":
                return _probe(self._not_ready(), self._remarks())
            case "/metrics":
                return _Answer(HTTPStatus.OK, *self._metrics(request.accept))
        return _Answer(HTTPStatus.NOT_FOUND, b"/metrics, /healthz and /readyz are all there is\n")


def _probe(found: Sequence[str], remarks: Sequence[str] = ()) -> _Answer:
    reasons, told = _lines(found), _lines(remarks)
    if not reasons:
        return _Answer(HTTPStatus.OK, f"ok\n{told}".encode())
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{reasons}{told}".encode())


async def serve_http(
    address: str,
    metrics: MetricsText,
    not_ready: Reasons,
    timeouts: HttpTimeouts = _TIMEOUTS,
    *,
    remarks: Reasons = tuple,
    not_alive: Reasons = tuple,
) -> HttpProbes | None:
    """Listen and serve; None for the address `0`, `ListenError` when the address cannot be had.

    `remarks` are told behind the answer to `/readyz` and do not change it. `not_alive` is for what a process can only be
    restarted for; the loop that answers is alive by answering.
    """
    place = parse_http_listen(address)
    if place is None:
        return None
    probes = HttpProbes(metrics, not_ready, timeouts, remarks=remarks, not_alive=not_alive)
    await probes.listen(place.host, place.port)
    return probes


def _lines(texts: Sequence[str]) -> str:
    return "".join(f"{' '.join(text.split())}\n" for text in texts)


async def _read_request(reader: asyncio.StreamReader) -> _Request:
    words = (await _read_line(reader)).split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST)
    method, target, _ = words
    accept, size = "", 0
    while line := await _read_line(reader):
        size += len(line)
        if size > MAX_HEAD_BYTES:
            raise _BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _BadRequestError(HTTPStatus.BAD_REQUEST)
        match name.lower():
            case "accept":
                accept = value.strip()
            case "content-length" if value.strip() != "0":
                raise _BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            case "transfer-encoding":
                raise _BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return _Request(method, target.partition("?")[0], accept)


async def _read_line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        raise _BadRequestError(HTTPStatus.BAD_REQUEST) from None
    except asyncio.LimitOverrunError:
        raise _BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
    text = line.rstrip(b"\r\n").decode("latin-1")
    if not text.replace(
        "\t", " "
    ).isprintable():  # also a lone carriage return, which some would take for a line end
        raise _BadRequestError(HTTPStatus.BAD_REQUEST)
    return text


def _encode(answer: _Answer, head_only: bool) -> bytes:
    headers = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if answer.allow:
        headers.append(f"Allow: {answer.allow}")
    head = "\r\n".join(headers).encode("latin-1") + b"\r\n\r\n"
    return head if head_only else head + answer.body
