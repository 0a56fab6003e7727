"""Who may read, and what every answer carries: host, token, proxy, certificate, method, origin, security headers.

Why: not every client that can reach the listener may read. Each configured way of authentication admits a reader by
itself; without any, every client may read.
Must never: pass on a request that a rule below refuses, trust a header that does not come from a trusted proxy, or reveal
in a refusal what would be accepted.
Rules: `dashboard#security`; ADR-0162, ADR-0245.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bigfleet.dashboard.hosts import AllowedHosts, host_of

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STRICT_TRANSPORT: Final = "max-age=31536000"
"""A year, the usual length. Without subdomains: those are other servers of the site."""
PROXY_USER: Final = "X-Forwarded-User"
"""The header in which a trusted proxy names the reader."""
_PROXY_HOST: Final = "X-Forwarded-Host"
_PROXY_SCHEME: Final = "X-Forwarded-Proto"
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
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    """The hosts that requests may name; others are refused even with a token, which a browser may add by itself."""

    @property
    def asked(self) -> bool:
        """Whether readers have to authenticate."""
        return bool(self.token or self.proxies or self.certificates)


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Why a request is refused: the reason for the metric, and the answer."""

    reason: str
    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


def guard(admission: Admission, base: str, on_refusal: Callable[[str], object]) -> Middleware:
    """Return the middleware that enforces an admission for a server under this base; it reports each refusal's reason."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = _refusal(request, admission, base)
        if refusal is None:
            return await handler(request)
        on_refusal(refusal.reason)
        return web.json_response({"error": refusal.text}, status=refusal.status, headers=refusal.headers)

    return guarded


def protect(request: web.BaseRequest, response: web.StreamResponse, admission: Admission) -> None:
    """Complete the headers of an answer that is about to be sent, streams and errors included."""
    response.headers.update(HEADERS)
    # The HTTP library would put its version and Python's here, which name the weaknesses to try.
    response.headers["Server"] = "bigfleet"
    response.headers.setdefault("Cache-Control", "no-store")
    # A browser applies the rule for "localhost" to every port of it, other programs of the reader included.
    if _encrypted(request, admission) and host_of(request.host or "") != "localhost":
        response.headers["Strict-Transport-Security"] = STRICT_TRANSPORT


def _refusal(request: web.Request, admission: Admission, base: str) -> RefusedRequest | None:
    proxied = _proxied(request, admission)
    if (refusal := _foreign_host(request, admission, proxied)) is not None:
        return refusal
    if request.method not in {"GET", "HEAD"} and not (
        request.method == "POST" and request.path.endswith("/x/whatif")
    ):
        return RefusedRequest("method", 405, "this dashboard reads only", {"Allow": "GET, HEAD"})
    if request.method == "POST" and not _same_origin(request, proxied):
        return RefusedRequest("origin", 403, "only a page of this dashboard, or a tool, may ask that")
    place = request.path.removeprefix(base.rstrip("/"))
    if not admission.asked or place in _OPEN or _admitted(request, admission, proxied):
        return None
    if admission.token:
        return RefusedRequest("unauthenticated", 401, "a token is needed", {"WWW-Authenticate": _CHALLENGE})
    return RefusedRequest(
        "unauthenticated", 401, "readers are asked who they are, and this request does not say"
    )


def _foreign_host(request: web.Request, admission: Admission, proxied: bool) -> RefusedRequest | None:
    named = request.headers.getall("Host", [])
    if len(named) != 1:
        return RefusedRequest("host", 400, "a request names exactly one host")
    # The target of a request may name a host too, and a trusted proxy hands on the one that the reader named.
    named.append(request.host or "")
    if proxied:
        forwarded = request.headers.getall(_PROXY_HOST, [])
        named += [name.strip() for line in forwarded for name in line.split(",")]
    connection = request.get_extra_info("sockname")
    came_to = str(connection[0]) if isinstance(connection, tuple) else ""
    if all(admission.hosts.allows(name, came_to) for name in named):
        return None
    return RefusedRequest(
        "host", 421, "this dashboard does not answer to that host name; --allowed-host adds one"
    )


def _encrypted(request: web.BaseRequest, admission: Admission) -> bool:
    if request.secure:
        return True
    return (
        _proxied(request, admission)
        and request.headers.get(_PROXY_SCHEME, "").rpartition(",")[2].strip() == "https"
    )


def _admitted(request: web.Request, admission: Admission, proxied: bool) -> bool:
    if proxied and request.headers.get(PROXY_USER, "").strip():
        return True
    if admission.certificates and request.get_extra_info("peercert"):
        return True
    return bool(admission.token) and _knows(request, admission.token)


def _proxied(request: web.BaseRequest, admission: Admission) -> bool:
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
    # Bytes of a header that are no UTF-8 arrive as surrogates.
    return hmac.compare_digest(shown.encode(errors="surrogateescape"), token.encode())


def _password(given: str) -> str:
    try:
        return base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
    except ValueError:  # no Base64, or no UTF-8 in it
        return ""


def _same_origin(request: web.Request, proxied: bool) -> bool:
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in {"same-origin", "none"}:
        return False
    hosts = {request.host}
    if proxied:
        hosts.add(request.headers.get(_PROXY_HOST, request.host))
    return origin is None or origin.partition("://")[2] in hosts
