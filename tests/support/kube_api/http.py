"""An HTTP server on loopback in front of any transport, which can misbehave as real ones do.

Why: half of the client library's traps are below the level of calls: bodies that are no JSON, connections cut in mid-line or
gone silent, tokens that expire. They show over a socket only.
Must never: listen beyond loopback.
Rules: `testing#api-faults`, `operator#c1`, `operator#c2`, `operator#c3`, `operator#c4`, `operator#c5`, `operator#c6`,
`operator#c7`, `operator#c8`, `operator#c9`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from bigfleet.kube.errors import KubeError
from bigfleet.kube.transport import ApiCall, ApiResponse, ApiTransport

Bad = Literal["answer", "cut", "silence", "cut-lines", "half-line"]


@dataclass(slots=True)
class HttpFault:
    """A fault: respond with these bytes, cut the connection, or stay silent."""

    what: Bad = "answer"
    status: int = 500
    body: str = ""
    content_type: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    method: str = ""
    watch: bool | None = None
    after_lines: int = 0
    hits: int = field(default=0, init=False)


class HttpFront:
    """The server; `faults` and `tokens` may be changed at any time."""

    def __init__(self, transport: ApiTransport) -> None:
        self.faults: list[HttpFault] = []
        self.tokens: set[str] | None = None
        """The tokens that are accepted; None accepts any token."""
        self.requests: list[tuple[str, str, bool]] = []
        self.on_carried_out: Callable[[ApiCall], None] = lambda _call: None
        """Called for each call after the server has carried it out and before the caller gets the response."""
        self.url = ""
        self.transport = transport
        self._released = asyncio.Event()
        self._watching: dict[int, web.Request] = {}

    def cut_watches(self) -> None:
        """Cut every watch that is open now."""
        for request in self._watching.values():
            _cut(request)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["HttpFront"]:
        """Listen on a free port until the block ends; watches that are open then are cut."""
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self._released.set()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watch = "watch" in request.query
        self.requests.append((request.method, request.path, watch))
        fault = self._next_fault(request.method, watch=watch)
        if fault is not None and not fault.what.endswith(("lines", "line")) and not fault.after_lines:
            return await self._misbehave(request, fault)
        if self.tokens is not None:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if given not in self.tokens:
                body = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
                return web.json_response(body, status=401)
        call = await _call_of(request)
        if watch:
            return await self._watch(request, call, fault)
        try:
            answer = await self.transport.send(call)
        except KubeError as error:
            return web.Response(status=502, text=str(error))
        self.on_carried_out(call)
        return _response(answer)

    async def _watch(
        self, request: web.Request, call: ApiCall, fault: HttpFault | None
    ) -> web.StreamResponse:
        # Noted before it is opened: one that is just being opened is to be cut as well.
        self._watching[id(request)] = request
        try:
            return await self._show(request, call, fault)
        except (KubeError, ConnectionError):
            _cut(request)
            raise web.HTTPServiceUnavailable from None
        finally:
            del self._watching[id(request)]

    async def _show(self, request: web.Request, call: ApiCall, fault: HttpFault | None) -> web.StreamResponse:
        async with self.transport.open(call) as lines:
            if lines.answer.status != 200:
                return _response(lines.answer)
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            shown = 0
            if fault is None or fault.after_lines:
                async for line in lines:
                    await response.write(line + b"\n")
                    shown += 1
                    if fault is not None and shown >= fault.after_lines:
                        break
            if fault is not None:
                if fault.what == "half-line":
                    await response.write(b'{"type":"MODIFIED","obj')
                if fault.what == "silence":
                    await self._released.wait()
                _cut(request)
        return response

    async def _misbehave(self, request: web.Request, fault: HttpFault) -> web.StreamResponse:
        if fault.what == "silence":
            await self._released.wait()
        if fault.what in ("cut", "silence"):
            _cut(request)
            raise web.HTTPServiceUnavailable
        return web.Response(
            status=fault.status, text=fault.body, content_type=fault.content_type, headers=fault.headers
        )

    def _next_fault(self, method: str, *, watch: bool) -> HttpFault | None:
        for fault in self.faults:
            fits = fault.method in ("", method) and fault.watch in (None, watch)
            if fits and fault.hits < fault.times:
                fault.hits += 1
                return fault
        return None


async def _call_of(request: web.Request) -> ApiCall:
    content = await request.read()
    return ApiCall(
        request.method,
        request.path,
        dict(request.query),
        json.loads(content) if content else None,
        request.content_type,
        deadline_s=600.0,
    )


def _response(answer: ApiResponse) -> web.Response:
    headers = {name: value for name, value in answer.headers.items() if name.lower() == "retry-after"}
    if isinstance(answer.body, str):
        return web.Response(status=answer.status, text=answer.body, headers=headers)
    return web.json_response(answer.body, status=answer.status, headers=headers)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
