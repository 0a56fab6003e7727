"""The HTTP server: routes of the API, pages, assets, the stream of notices.

Must never: offer a way to change the fleet, hold the loop for long (large answers are made in a thread), show an
exception to a reader, or log what only a reader's request got wrong.
Rules: `dashboard#api`, `dashboard#budgets`, `dashboard#security`.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from bigfleet.aio.clock import Clock, timeout
from bigfleet.dashboard.api import compat, own
from bigfleet.dashboard.api.routes import COMPATIBLE, OWN, Route
from bigfleet.dashboard.assets import read_assets, read_contract
from bigfleet.dashboard.core.visible import visible
from bigfleet.dashboard.exports import TABLES, as_csv, as_json
from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.guard import guard, protect
from bigfleet.dashboard.json_text import write_answer
from bigfleet.dashboard.listener import Connections
from bigfleet.dashboard.pages.frame import Frame
from bigfleet.dashboard.pages.needs import query_of
from bigfleet.dashboard.pages.pages import PAGES, PageNotFoundError, Pages
from bigfleet.dashboard.parameters import ParameterError, Parameters
from bigfleet.dashboard.request_metrics import RequestMetrics
from bigfleet.dashboard.rows import exported_need
from bigfleet.dashboard.sources import SourceError
from bigfleet.dashboard.what_if import WhatIf
from bigfleet.dashboard.what_if_requests import WhatIfRequests

MAX_BODY: Final = 1024 * 1024
MAX_STREAMS: Final = 256
"""Pages that may be open at once; each waits for notices on a connection of its own."""
_NEED_FILTERS: Final = ("shard", "cluster", "status", "reason", "q")


class DashboardServer:
    """All that answers HTTP."""

    def __init__(
        self,
        fleet: FleetSources,
        frame: Frame,
        what_if: WhatIf,
        counts: RequestMetrics,
        *,
        clock: Clock,
        connections: Connections,
    ) -> None:
        self._fleet, self._questions = fleet, WhatIfRequests(fleet, what_if)
        self._assets, self._openapi = read_assets(), read_contract()
        self._frame = Frame(frame.base, f"static/{self._assets.digest}", frame.warnings)
        self._book = Pages(fleet, self._frame)
        self._log = structlog.get_logger("bigfleet.dashboard")
        self._clock, self._body_s, self._admission = clock, connections.head_s, connections.admission
        self.app = web.Application(
            middlewares=[
                connections.track,
                counts.measured(frame.base),
                guard(self._admission, frame.base, counts.refused),
                self._explain_failures,
            ],
            client_max_size=MAX_BODY,
        )
        # A signal and not a middleware: streams send their head before the middlewares see the answer.
        self.app.on_response_prepare.append(self._protect)
        self._counts, self._streams = counts, 0
        self._mount(frame.base.rstrip("/"))

    async def _protect(self, request: web.Request, response: web.StreamResponse) -> None:
        protect(request, response, self._admission)

    def _mount(self, base: str) -> None:
        get = self.app.router.add_get
        for route in COMPATIBLE:
            for prefix in ("/api/v1", "/api"):
                get(f"{base}{prefix}{route.path}", self._compatible(route))
        for route in OWN:
            get(f"{base}/api/v1/x{route.path}", self._own(route))
        get(f"{base}/api/v1/openapi.json", self._contract)
        get(f"{base}/api/v1/x/stream", self._stream)
        get(f"{base}/api/v1/x/snapshot", self._snapshot)
        get(f"{base}/api/v1/x/export/{{table}}.{{form}}", self._export)
        self.app.router.add_post(f"{base}/api/v1/x/whatif", self._ask_what_if)
        get(f"{base}/static/{{digest}}/{{name}}", self._asset)
        get(f"{base}/healthz", self._healthy)
        get(f"{base}/readyz", self._healthy)
        get(f"{base}/metrics", self._metrics)
        for page in PAGES:
            get(f"{base}/{page}", self._page)
        get(f"{base}/{{rest:.*}}", self._page)

    def _compatible(self, route: Route) -> Any:  # Any: aiohttp's own kind of handler
        async def answer(request: web.Request) -> web.Response:
            given = _parameters(request, route.parameters, ignores_others=True)
            answer = await self._shared(route, request, given)
            return await _json(request, compat.stamped(self._fleet, answer))

        return answer

    def _own(self, route: Route) -> Any:  # Any: aiohttp's own kind of handler
        async def answer(request: web.Request) -> web.Response:
            given = _parameters(request, route.parameters)
            return await _json(request, await self._shared(route, request, given))

        return answer

    async def _shared(self, route: Route, request: web.Request, given: Parameters) -> Mapping[str, Any]:
        asked = sorted(row for row in request.query.items() if row[0] in route.parameters)
        key = (route.handler, tuple(asked), tuple(sorted(request.match_info.items())))
        return await self._fleet.answers.get(key, lambda: route.handler(self._fleet, given))

    async def _page(self, request: web.Request) -> web.Response:
        path = request.match_info.get("rest", request.path.removeprefix(self._frame.base.rstrip("/"))).strip(
            "/"
        )
        part = request.headers.get("X-Part") == "main"
        key = ("page", path, part, tuple(sorted(request.query.items())))
        try:
            text = await self._fleet.answers.get(key, lambda: self._book.page(path, request.query, part=part))
            status = 200
        except PageNotFoundError as error:
            text, status = self._book.missing(str(error), part=part), 404
        return _finished(request, text, "text/html", status)

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._assets.bodies:
            raise web.HTTPNotFound
        response = web.Response(
            body=self._assets.bodies[name], content_type=self._assets.kind(name), charset="utf-8"
        )
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.enable_compression()
        return response

    async def _contract(self, request: web.Request) -> web.Response:
        return _finished(request, self._openapi, "application/json")

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        body, kind = self._counts.exported(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        if self._streams >= MAX_STREAMS:
            self._counts.refused("streams")
            raise web.HTTPServiceUnavailable(
                reason="too many pages wait for news; this one refreshes on its own"
            )
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        notices = self._fleet.watcher.notices()
        self._streams += 1
        self._counts.streams.set(self._streams)
        try:
            await response.write(b": hello\n\n")
            async for kind, what in notices:
                # On one line: a name with a line feed would be a second notice.
                line = " ".join(visible(what).split())
                await response.write(f"event: {kind}\ndata: {line}\n\n".encode())
        except (ConnectionError, asyncio.CancelledError):
            pass  # the reader went, or the server ends
        finally:
            self._streams -= 1
            self._counts.streams.set(self._streams)
            await notices.aclose()
        return response

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        given = _parameters(request, frozenset({"shard"}))
        pieces = self._fleet.shard(given.required("shard")).snapshot()
        first = await anext(pieces, b"")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            await response.write(first)
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        except SourceError as error:
            self._counts.failed(error.trouble)
            # The head has been sent; only a connection that breaks says that the document is not whole.
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _export(self, request: web.Request) -> web.Response:
        table, form = request.match_info["table"], request.match_info["form"]
        if table not in TABLES or form not in {"csv", "json"}:
            raise web.HTTPNotFound
        rows = await self._rows(table, request)
        write = as_csv if form == "csv" else as_json
        text = await asyncio.to_thread(write, table, rows)
        kind = "text/csv" if form == "csv" else "application/json"
        response = _finished(request, text, kind)
        response.headers["Content-Disposition"] = f'attachment; filename="{table}.{form}"'
        return response

    async def _rows(self, table: str, request: web.Request) -> list[Mapping[str, Any]]:
        if table == "needs":
            given = _parameters(request, frozenset(_NEED_FILTERS))
            asked = replace(query_of({name: given.text(name) for name in _NEED_FILTERS}), size=0)
            found = await self._fleet.shard(given.required("shard")).need_list(asked)
            return await asyncio.to_thread(list, map(exported_need, found.rows))
        if table == "machines":
            given = _parameters(
                request, frozenset(["shard", "state", "cluster", "type", "zone", "capacity", "q", "sort"])
            )
            query = own.machine_query(given, page_size=0)
            return list((await self._fleet.shard(given.required("shard")).machines(query))["rows"])
        _parameters(request, frozenset())
        return [
            {
                "shardId": row.shard_id,
                "priority": row.priority,
                "priorityClass": row.priority_class,
                "deficit": dict(row.deficit),
                "ageCycles": row.age_cycles,
                "reason": row.reason,
                "clusters": list(row.clusters),
                "fingerprint": row.fingerprint,
            }
            for place in self._fleet.picture.shards
            for row in place.shortfalls
        ]

    async def _ask_what_if(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise ParameterError("Content-Type", request.content_type, "application/json")
        try:
            async with timeout(self._clock, self._body_s):
                body = await request.read()
        except TimeoutError:
            self._counts.refused("slow")
            raise web.HTTPRequestTimeout(reason="the body of the request did not arrive in time") from None
        return await _json(request, await self._questions.answer(body))

    @web.middleware
    async def _explain_failures(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await handler(request)
        except SourceError as error:
            self._counts.failed(error.trouble)
            return web.json_response({"error": str(error)}, status=error.status)
        except ParameterError as error:
            return web.json_response({"error": str(error)}, status=400)
        except web.HTTPException as error:
            if error.status == 413:
                self._counts.refused("too_large")
            return web.json_response({"error": error.reason}, status=error.status, headers=_allow(error))
        except Exception as error:  # a defect of one page must not end the others, nor be shown to its reader
            return self._unexpected(request, error)
        return response

    def _unexpected(self, request: web.Request, error: Exception) -> web.Response:
        gone = request.transport is None or request.transport.is_closing()
        if isinstance(error, web.RequestPayloadError) or (gone and isinstance(error, ConnectionError)):
            # What a peer sends or leaves out is no defect, and must not fill the log.
            self._counts.refused("aborted" if gone else "malformed")
            return web.json_response({"error": "the body of the request cannot be read"}, status=400)
        self._log.error("page_defect", path=request.path, exc_info=error)
        return web.json_response({"error": "internal error; the log has the details"}, status=500)


def _allow(error: web.HTTPException) -> Mapping[str, str]:
    return {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}


def _parameters(request: web.Request, known: frozenset[str], *, ignores_others: bool = False) -> Parameters:
    return Parameters(request.query, request.match_info, known, ignores_others=ignores_others)


async def _json(request: web.Request, answer: Mapping[str, Any]) -> web.Response:
    # In a thread: two thousand needs are a megabyte of text.
    return _finished(request, await asyncio.to_thread(write_answer, answer), "application/json")


def _finished(request: web.Request, text: str, kind: str, status: int = 200) -> web.Response:
    """Return an answer with its tag; a reader who has it already gets nothing but that word."""
    body = text.encode(errors="backslashreplace")  # an address may hold half of a surrogate pair
    tag = hashlib.sha256(body).hexdigest()[:24]
    if status == 200 and any(given.value == tag for given in request.if_none_match or ()):
        response = web.Response(status=304)
    else:
        response = web.Response(body=body, status=status, content_type=kind, charset="utf-8")
        response.enable_compression()
    response.etag = tag
    response.headers["Cache-Control"] = "no-cache"
    return response
