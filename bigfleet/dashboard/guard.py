"""Who may read, and what every answer carries: token, method, origin, security headers.

Called by: the server, around every request.
Must never: let a request through that a rule below refuses, or say in a refusal what would be right.
Rules: dashboard 11.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OPEN: Final = frozenset({"/healthz", "/readyz"})


def guard(token: str, base: str) -> Middleware:
    """Return the middleware of a server with this token (empty: none asked for) under this base."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = _refusal(request, token, base)
        response = refusal if refusal is not None else await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return guarded


def _refusal(request: web.Request, token: str, base: str) -> web.Response | None:
    if request.method not in {"GET", "HEAD"} and not (
        request.method == "POST" and request.path.endswith("/x/whatif")
    ):
        return _error(405, "this dashboard reads only", {"Allow": "GET, HEAD"})
    if request.method == "POST" and not _same_origin(request):
        return _error(403, "only a page of this dashboard, or a tool, may ask that")
    place = request.path.removeprefix(base.rstrip("/"))
    if token and place not in _OPEN and not _knows(request, token):
        return _error(401, "a token is needed", {"WWW-Authenticate": 'Bearer realm="bigfleet"'})
    return None


def _knows(request: web.Request, token: str) -> bool:
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    shown = given.strip() if kind.lower() == "bearer" else request.cookies.get("bigfleet-token", "")
    return hmac.compare_digest(shown.encode(), token.encode())


def _same_origin(request: web.Request) -> bool:
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in {"same-origin", "none"}:
        return False
    return origin is None or origin.partition("://")[2] == request.host


def _error(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=headers)
