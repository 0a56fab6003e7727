"""The HTTP side of every process: `/metrics`, `/healthz`, `/readyz`, and nothing else.

Why: kubelets and Prometheus ask over plain HTTP, also under mutual TLS.
Must never: listen beyond loopback unless the address says so.
Rules: `packaging#addresses`, `packaging#http`, `shard#readiness`.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport
from bigfleet.transport.address import parse_http_listen
from bigfleet.transport.http import HttpLimits, HttpRequest, HttpResponse, HttpServer

MetricsText = Callable[[str], tuple[bytes, str]]
"""Takes the Accept header, returns body and content type; `bigfleet.obs.exposition` makes one."""
Reasons = Callable[[], Sequence[str]]
"""Returns why the process is not ready, one short line each; nothing means ready."""

_LIMITS: Final = HttpLimits()
# The contract has the phrase of the status for these, and a sentence for the others.
_BY_PHRASE: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
)


async def serve_probes(
    address: str,
    metrics: MetricsText,
    not_ready: Reasons,
    limits: HttpLimits = _LIMITS,
    *,
    remarks: Reasons = tuple,
    not_alive: Reasons = tuple,
    report: ConnectionReport = NO_REPORT,
) -> HttpServer | None:
    """Listen and serve; None for the address `0`, `ListenError` when the address is not available.

    `remarks` follow the answer to `/readyz` and do not change it. `not_alive` is for failures that only a restart of the
    process repairs.
    """
    place = parse_http_listen(address)
    if place is None:
        return None

    async def handle(request: HttpRequest) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            return HttpResponse(
                b"GET and HEAD only\n", HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"}
            )
        match request.path:
            case "/healthz":
                return _probe(not_alive())
            case "/readyz":
                return _probe(not_ready(), remarks())
            case "/metrics":
                body, content_type = metrics(request.headers.get("accept", ""))
                return HttpResponse(body, content_type=content_type)
        return HttpResponse(b"/metrics, /healthz and /readyz are all there is\n", HTTPStatus.NOT_FOUND)

    server = HttpServer(handle, _refuse, limits, report)
    await server.listen(place)
    return server


def _probe(reasons: Sequence[str], remarks: Sequence[str] = ()) -> HttpResponse:
    if not reasons:
        return HttpResponse(f"ok\n{_lines(remarks)}".encode())
    return HttpResponse(f"{_lines(reasons)}{_lines(remarks)}".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


def _refuse(status: HTTPStatus, text: str) -> HttpResponse:
    return HttpResponse(f"{status.phrase if status in _BY_PHRASE else text}\n".encode(), status)


def _lines(texts: Sequence[str]) -> str:
    return "".join(f"{' '.join(text.split())}\n" for text in texts)
