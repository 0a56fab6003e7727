"""The transport to an in-memory API server, with its watches.

Why: a watch lives for minutes between other calls; in virtual time it costs a timer.
Must never: lose an event between two lines: each turn reads the history from the last version shown.
Rules: `operator#reflector`; bookmarks come every minute as in the real server.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.kube.resources import Resource, key_of
from bigfleet.kube.roles import RbacRole
from bigfleet.kube.transport import ApiCall, ApiResponse, WatchLines
from tests.support.kube_api.objects import CompactedError, Matches, Objects, event_line
from tests.support.kube_api.refusals import ApiRefusedError, UnknownPathError

BOOKMARK_S: Final = 60.0


class Served(Protocol):
    """What the transport needs of the server."""

    objects: Objects

    def answer(self, call: ApiCall, role: RbacRole | None) -> ApiResponse:
        """Carry out a call other than a watch."""

    def matcher(self, call: ApiCall) -> Matches:
        """Return the filter of the selectors of a call."""

    def watched(self, call: ApiCall, role: RbacRole | None) -> tuple[Resource, int]:
        """Return the resource, the filter and the first version of a watch."""


class InMemoryTransport:
    """A transport to an in-memory API server."""

    def __init__(self, api: Served, role: RbacRole | None, clock: Clock) -> None:
        self._api, self._role, self._clock = api, role, clock
        self.is_closed = False
        self.renewals = 0

    async def send(self, call: ApiCall) -> ApiResponse:
        await self._clock.sleep(0)  # a call always lets the others run, as a real one does
        return self._api.answer(call, self._role)

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        return self._open(call)

    @asynccontextmanager
    async def _open(self, call: ApiCall) -> AsyncIterator[WatchLines]:
        await self._clock.sleep(0)
        try:
            resource, version = self._api.watched(call, self._role)
        except ApiRefusedError as refused:
            yield _MemoryLines(ApiResponse(refused.status, refused.body, refused.headers), None)
            return
        except UnknownPathError as unknown:
            yield _MemoryLines(unknown.answer, None)
            return
        stream = self._lines(call, resource, version)
        try:
            yield _MemoryLines(ApiResponse(200, ""), stream.__anext__)
        finally:
            await stream.aclose()

    async def _lines(self, call: ApiCall, resource: Resource, version: int) -> Any:
        # Any: an async generator, whose full type says nothing more.
        objects, matches = self._api.objects, self._api.matcher(call)
        end_s = monotonic_s(self._clock) + float(call.query.get("timeoutSeconds") or 1800)
        bookmark_s = monotonic_s(self._clock) + BOOKMARK_S
        namespace = namespace_of(call)
        while True:
            # Before the lines are given away: each of them lets the others run, and what they change comes in the next turn.
            changed, reached = objects.changed(), objects.version
            try:
                records = objects.since(resource, version)
            except CompactedError as error:
                gone = ApiRefusedError(410, "Expired", str(error))
                yield json.dumps({"type": "ERROR", "object": gone.body}).encode()
                return
            for record in records:
                line = event_line(record, matches)
                if line is not None and (not namespace or key_of(record.after).namespace == namespace):
                    yield line
            version = reached
            now_s = monotonic_s(self._clock)
            if now_s >= bookmark_s:
                bookmark_s = now_s + BOOKMARK_S
                bookmark = {
                    "kind": resource.kind,
                    "apiVersion": resource.api_version,
                    "metadata": {"resourceVersion": str(version)},
                }
                yield json.dumps({"type": "BOOKMARK", "object": bookmark}).encode()
            if now_s >= end_s:
                return
            try:
                # Not less than a microsecond: a wait that rounds to nothing would never let virtual time pass.
                async with timeout(self._clock, max(min(end_s, bookmark_s) - now_s, 1e-6)):
                    await changed.wait()
            except TimeoutError:
                pass

    async def renew_login(self) -> None:
        self.renewals += 1

    async def close(self) -> None:
        self.is_closed = True


class _MemoryLines:
    """The lines of one watch."""

    def __init__(self, answer: ApiResponse, following: Callable[[], Any] | None) -> None:
        self.answer, self._following = answer, following

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._following is None:
            raise StopAsyncIteration
        line: bytes = await self._following()
        return line


def namespace_of(call: ApiCall) -> str:
    """Return the namespace that a path is limited to, empty for the whole cluster."""
    return call.path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in call.path else ""
