"""The control over HTTP: verbs as JSON, and a page that offers them by hand.

Why: a test in another language, a script or a person must be able to do to the fake what a test in process does.
Must never: listen beyond loopback, answer a page of another origin (a browser on this host could be led here), read more
than its limits, or keep a connection after one answer.
Rules: providers 5.2; packaging 1.2 (addresses), 1.11 (header timeout).
"""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pkgutil import get_data
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import structlog

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.net import ListenError
from bigfleet.document.parse import parse_json
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.provider.errors import NoSuchMachineError, ProviderError
from bigfleet.provider.fake.control import VERBS, Verb
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.transport.address import ListenAddress, listen_problem

REQUEST_TIMEOUT_S: Final = 5.0
WRITE_TIMEOUT_S: Final = 60.0
MAX_LINE_BYTES: Final = 16 * 1024
MAX_HEADERS: Final = 100
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_CONNECTIONS: Final = 64

_JSON: Final = "application/json; charset=utf-8"
_LINES: Final = "application/x-ndjson; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
_SAFE_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _JSON


class _RefusedError(Exception):
    """A request that gets an error; carries it."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def check_loopback(address: ListenAddress) -> None:
    """Refuse an address that others than this host could reach."""
    try:
        inside = address.host == "localhost" or ip_address(address.host).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise InvalidFieldError("control-addr", str(address), "a loopback address, such as 127.0.0.1:9001")


class ControlServer:
    """The listening control of one fake."""

    def __init__(self, fake: FakeProvider, clock: Clock) -> None:
        self._fake, self._clock = fake, clock
        self._log = structlog.get_logger("bigfleet.provider.fake")
        self._server: asyncio.Server | None = None
        self._running: dict[asyncio.Task[None], None] = {}  # a set in the order of arrival

    @property
    def port(self) -> int:
        """The port really bound."""
        if self._server is None:
            raise ListenError("", "the control is not listening")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(self, address: ListenAddress) -> None:
        """Listen; `InvalidFieldError` for an address beyond loopback, `ListenError` for one that cannot be had."""
        check_loopback(address)
        try:
            self._server = await asyncio.start_server(
                self._accept, address.host, address.port, limit=MAX_LINE_BYTES
            )
        except OSError as error:
            raise ListenError(str(address), listen_problem(error)) from error

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
            await self._serve(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            pass  # the peer went away, or the control is being stopped
        finally:
            self._running.pop(task, None)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with timeout(self._clock, REQUEST_TIMEOUT_S):
                request = await _read(reader)
            answer = await self._answer(request)
        except TimeoutError:
            answer = _error(HTTPStatus.REQUEST_TIMEOUT, "the request did not come in time")
        except _RefusedError as refused:
            answer = _error(refused.status, refused.text)
        async with timeout(self._clock, WRITE_TIMEOUT_S):
            writer.write(_encode(answer))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _answer(self, request: _Request) -> _Answer:
        _check_origin(request)
        if request.path in _FILES and request.method == "GET":
            name, content_type = _FILES[request.path]
            return _Answer(
                get_data("bigfleet.provider.fake", f"page/{name}") or b"", content_type=content_type
            )
        if request.path == "/verbs" and request.method == "GET":
            return _Answer(_json([verb.as_dict for verb in VERBS.values()]))
        verb = VERBS.get(request.path.removeprefix("/"))
        if verb is None:
            known = ", ".join(f"/{name}" for name in VERBS)
            raise _RefusedError(
                HTTPStatus.NOT_FOUND, f"path: found {request.path!r}, allowed is one of {known}"
            )
        if request.method != ("POST" if verb.changes else "GET"):
            allowed = "POST" if verb.changes else "GET"
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"/{verb.name} is asked with {allowed}")
        return await self._carried_out(verb, _body(verb, request))

    async def _carried_out(self, verb: Verb, body: object) -> _Answer:
        try:
            told = await verb(self._fake, body)
        except NoSuchMachineError as error:
            raise _RefusedError(HTTPStatus.NOT_FOUND, str(error)) from error
        except ProviderError as error:
            raise _RefusedError(HTTPStatus.CONFLICT, str(error)) from error
        except InvalidFieldError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except BigFleetError as error:
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
        except Exception as error:  # a defect of ours must not look like a dead process without a word
            self._log.error("control_defect", verb=verb.name, exc_info=error)
            text = "internal error; the log has the details"
            raise _RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, text) from error
        if verb.name == "log" and isinstance(told, list):
            return _Answer("".join(f"{line}\n" for line in told).encode(), content_type=_LINES)
        return _Answer(_json(told))


def _body(verb: Verb, request: _Request) -> object:
    if not verb.changes:
        pairs = dict(parse_qsl(request.query, keep_blank_values=True))
        # A query knows texts only; whoever writes a number where one is due means it.
        return {
            name: int(text) if type(verb.form.get(name)) is int and text.isdecimal() else text
            for name, text in pairs.items()
        }
    if request.body and "application/json" not in request.headers.get("content-type", ""):
        # Besides, no form of a foreign page can send this type without being asked first.
        raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
    try:
        return parse_json(request.body) if request.body.strip() else {}
    except InvalidFieldError as error:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _check_origin(request: _Request) -> None:
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name not in _SAFE_HOSTS:
        raise _RefusedError(HTTPStatus.FORBIDDEN, f"Host: found {host!r}, allowed is a loopback name")
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise _RefusedError(HTTPStatus.FORBIDDEN, f"Origin: found {origin!r}, allowed is this page alone")


async def _read(reader: asyncio.StreamReader) -> _Request:
    words = (await _line(reader)).split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "no request line of HTTP/1")
    headers: dict[str, str] = {}
    while line := await _line(reader):
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or len(headers) >= MAX_HEADERS:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "a header that cannot be read")
        headers[name.lower()] = value.strip()
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal():
        raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "a body needs its length")
    if int(length) > MAX_BODY_BYTES:
        raise _RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"found {length} bytes, allowed is {MAX_BODY_BYTES}"
        )
    try:
        body = await reader.readexactly(int(length))
    except asyncio.IncompleteReadError:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the body is shorter than said") from None
    target = urlsplit(words[1])
    return _Request(words[0], target.path, target.query, headers, body)


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request broke off") from None
    except asyncio.LimitOverrunError:
        raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "a line is too long") from None
    return line.rstrip(b"\r\n").decode("latin-1")


def _json(told: object) -> bytes:
    return json.dumps(told, ensure_ascii=False, allow_nan=True, default=str).encode()


def _error(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(_json({"error": text}), status)


def _encode(answer: _Answer) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        f"Content-Security-Policy: {_POLICY}",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + answer.body
