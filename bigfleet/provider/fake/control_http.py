"""The control over HTTP: verbs as JSON, and a page that offers them by hand.

Why: a test in another language, a script or a person must be able to do to the fake what a test in process does.
Must never: listen beyond loopback, or answer a page of another origin (a browser on this host could be led here).
Rules: `providers#fake-control`, `packaging#addresses`, `packaging#http`.
"""

import json
from http import HTTPStatus
from pkgutil import get_data
from typing import Final
from urllib.parse import parse_qsl

import structlog

from bigfleet.document.parse import parse_json
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.provider.errors import NoSuchMachineError, ProviderError
from bigfleet.provider.fake.control import VERBS, Verb
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.transport.address import ListenAddress
from bigfleet.transport.http import (
    DEFECT,
    HttpLimits,
    HttpRefusedError,
    HttpRequest,
    HttpResponse,
    HttpServer,
)

LIMITS: Final = HttpLimits(
    write_s=60.0, line_bytes=16 * 1024, head_bytes=64 * 1024, body_bytes=4 * 1024 * 1024
)

_JSON: Final = "application/json; charset=utf-8"
_LINES: Final = "application/x-ndjson; charset=utf-8"
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
_SAFE_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


def check_loopback(address: ListenAddress) -> None:
    """Refuse an address that others than this host could reach."""
    if not address.is_loopback:
        raise InvalidFieldError("control-addr", str(address), "a loopback address, such as 127.0.0.1:9001")


async def serve_control(fake: FakeProvider, address: ListenAddress) -> HttpServer:
    """Serve the control of a fake; `InvalidFieldError` for an address beyond loopback, `ListenError` for one in use."""
    check_loopback(address)
    server = HttpServer(_Control(fake).handle, _refuse, LIMITS)
    await server.listen(address)
    return server


class _Control:
    """Answers requests to the control of one fake."""

    def __init__(self, fake: FakeProvider) -> None:
        self._fake = fake
        self._log = structlog.get_logger("bigfleet.provider.fake")

    async def handle(self, request: HttpRequest) -> HttpResponse:
        _check_origin(request)
        if request.path in _FILES and request.method == "GET":
            name, content_type = _FILES[request.path]
            return _response(get_data("bigfleet.provider.fake", f"page/{name}") or b"", content_type)
        if request.path == "/verbs" and request.method == "GET":
            return _response(_json([verb.as_dict for verb in VERBS.values()]))
        verb = VERBS.get(request.path.removeprefix("/"))
        if verb is None:
            known = ", ".join(f"/{name}" for name in VERBS)
            raise HttpRefusedError(
                HTTPStatus.NOT_FOUND, f"path: found {request.path!r}, allowed is one of {known}"
            )
        if request.method != ("POST" if verb.changes else "GET"):
            allowed = "POST" if verb.changes else "GET"
            raise HttpRefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"/{verb.name} is asked with {allowed}")
        return await self._carried_out(verb, _body(verb, request))

    async def _carried_out(self, verb: Verb, body: object) -> HttpResponse:
        try:
            result = await verb(self._fake, body)
        except NoSuchMachineError as error:
            raise HttpRefusedError(HTTPStatus.NOT_FOUND, str(error)) from error
        except ProviderError as error:
            raise HttpRefusedError(HTTPStatus.CONFLICT, str(error)) from error
        except InvalidFieldError as error:
            raise HttpRefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except BigFleetError as error:
            raise HttpRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
        except Exception as error:  # a defect must be logged, and its text must not reach the peer
            self._log.error("control_defect", verb=verb.name, exc_info=error)
            raise HttpRefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, DEFECT) from error
        if verb.name == "log" and isinstance(result, list):
            return _response("".join(f"{line}\n" for line in result).encode(), _LINES)
        return _response(_json(result))


def _body(verb: Verb, request: HttpRequest) -> object:
    if not verb.changes:
        pairs = dict(parse_qsl(request.query, keep_blank_values=True))
        # A query holds texts only: convert a number where the verb expects one.
        return {
            name: int(text) if type(verb.form.get(name)) is int and text.isdecimal() else text
            for name, text in pairs.items()
        }
    if request.body and "application/json" not in request.headers.get("content-type", ""):
        # A form of another page cannot send this type without a preflight request.
        raise HttpRefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
    try:
        return parse_json(request.body) if request.body.strip() else {}
    except InvalidFieldError as error:
        raise HttpRefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _check_origin(request: HttpRequest) -> None:
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name not in _SAFE_HOSTS:
        raise HttpRefusedError(HTTPStatus.FORBIDDEN, f"Host: found {host!r}, allowed is a loopback name")
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise HttpRefusedError(HTTPStatus.FORBIDDEN, f"Origin: found {origin!r}, allowed is this page alone")


def _response(body: bytes, content_type: str = _JSON) -> HttpResponse:
    return HttpResponse(body, content_type=content_type, headers=_HEADERS)


def _refuse(status: HTTPStatus, text: str) -> HttpResponse:
    return HttpResponse(_json({"error": text}), status, _JSON, _HEADERS)


def _json(result: object) -> bytes:
    return json.dumps(result, ensure_ascii=False, allow_nan=True, default=str).encode()
