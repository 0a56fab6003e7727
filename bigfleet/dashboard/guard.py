"""Who may read, and what every answer carries: token, proxy, certificate, method, origin, security headers.

Why: not every client that can reach the listener may read. Each configured way of authentication admits a reader by
itself; without any, every client may read.
Must never: pass on a request that a rule below refuses, trust a header that does not come from a trusted proxy, or reveal
in a refusal what would be accepted.
Rules: `dashboard#security`; ADR-0162.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
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
PROXY_USER: Final = "X-Forwarded-User"
"""The header in which a trusted proxy names the reader."""
_PROXY_HOST: Final = "X-Forwarded-Host"
_OPEN: Final = frozenset({"/healthz", "/readyz"})
_CHALLENGE: Final = 'Bearer realm="bigfleet", Basic realm="bigfleet", charset="UTF-8"'
"""Makes a browser ask for a name and a password; the password is the token."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The configured ways of authentication; without any, every client may read."""

    token: str = ""
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks of the proxies that authenticate readers."""
    certificates: bool = False
    """Whether the listener verifies client certificates of readers."""

    @property
    def asked(self) -> bool:
        """Whether readers have to authenticate."""
        return bool(self.token or self.proxies or self.certificates)


def guard(admission: Admission, base: str) -> Middleware:
    """Return the middleware that enforces an admission for a server under this base."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = _refusal(request, admission, base)
        response = refusal if refusal is not None else await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return guarded


def _refusal(request: web.Request, admission: Admission, base: str) -> web.Response | None:
    if request.method not in {"GET", "HEAD"} and not (
        request.method == "POST" and request.path.endswith("/x/whatif")
    ):
        return _error(405, "this dashboard reads only", {"Allow": "GET, HEAD"})
    proxied = _proxied(request, admission)
    if request.method == "POST" and not _same_origin(request, proxied):
        return _error(403, "only a page of this dashboard, or a tool, may ask that")
    place = request.path.removeprefix(base.rstrip("/"))
    if not admission.asked or place in _OPEN or _admitted(request, admission, proxied):
        return None
    if admission.token:
        return _error(401, "a token is needed", {"WWW-Authenticate": _CHALLENGE})
    return _error(401, "readers are asked who they are, and this request does not say")


def _admitted(request: web.Request, admission: Admission, proxied: bool) -> bool:
    if proxied and request.headers.get(PROXY_USER, "").strip():
        return True
    if admission.certificates and request.get_extra_info("peercert"):
        return True
    return bool(admission.token) and _knows(request, admission.token)


def _proxied(request: web.Request, admission: Admission) -> bool:
    """Whether the request comes from a trusted proxy, judged by its peer address alone."""
    if not admission.proxies or request.remote is None:
        return False
    try:
        peer = ip_address(request.remote.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(peer, "ipv4_mapped", None) or peer
    return any(mapped in network for network in admission.proxies)


def _knows(request: web.Request, token: str) -> bool:
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    shown = given.strip() if kind.lower() == "bearer" else request.cookies.get("bigfleet-token", "")
    if kind.lower() == "basic":
        shown = _password(given)
    return hmac.compare_digest(shown.encode(), token.encode())


def _password(given: str) -> str:
    try:
        return base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _same_origin(request: web.Request, proxied: bool) -> bool:
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in {"same-origin", "none"}:
        return False
    hosts = {request.host}
    if proxied:
        hosts.add(request.headers.get(_PROXY_HOST, request.host))
    return origin is None or origin.partition("://")[2] in hosts


def _error(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=headers)
