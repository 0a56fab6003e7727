"""Calls to one API server: plain documents in and out, typed errors, a shared rate limit, one fresh login on 401.

Why: typed models of the client library cost ten times the time of the JSON itself, and its retries, watches and patch types
have the faults that operator 15 lists. Here a call is a call, and what to do about its error is the caller's business.
Must never: repeat a call that may have taken effect, or send a patch without saying of which type it is.
Rules: operator 15.1, 15.4, 15.5.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bigfleet.kube.errors import GoneError, KubeError, MalformedAnswerError, UnauthorizedError, error_of
from bigfleet.kube.limiter import RateLimiter, Urgency
from bigfleet.kube.resources import ObjectKey, Resource, key_of
from bigfleet.kube.transport import MERGE_PATCH, ApiCall, ApiResponse, ApiTransport, Document, WatchLines

PAGE_DEADLINE_S: Final = 60.0
LIST_DEADLINE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind are wanted."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def path(self) -> str:
        """Return the path to list and to watch."""
        return self.resource.path(namespace=self.namespace)

    def query(self) -> dict[str, str]:
        """Return the selectors as the API server reads them."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list: its documents, its version, and where the next part begins."""

    items: tuple[Document, ...]
    resource_version: str
    next_token: str


class KubeClient:
    """One account at one API server."""

    def __init__(self, transport: ApiTransport, limiter: RateLimiter) -> None:
        self._transport, self._limiter = transport, limiter

    async def call(self, call: ApiCall, urgency: Urgency = Urgency.NORMAL) -> Document:
        """Make a call and return the document it answers with; a refusal is raised as its error."""
        answer = await self._send(call, urgency)
        if answer.status == 401:
            # Once: a token that was rotated a moment ago is common, one that is wrong for good must not be hammered.
            await self._transport.renew_login()
            answer = await self._send(call, urgency)
        return _document(call, answer)

    async def get(self, resource: Resource, key: ObjectKey, urgency: Urgency = Urgency.NORMAL) -> Document:
        """Return one object."""
        return await self.call(ApiCall("GET", resource.path(key)), urgency)

    async def list_page(
        self, selection: Selection, *, limit: int, token: str = "", urgency: Urgency = Urgency.NORMAL
    ) -> ListPage:
        """Return a part of a list, the first or the one that the token of the last names; GoneError if it is too late.

        A limit of 0 asks for all of it in one answer, which can never be too late.
        """
        query = selection.query()
        if limit:
            query["limit"] = str(limit)
        if token:
            query["continue"] = token
        call = ApiCall(
            "GET", selection.path(), query, deadline_s=PAGE_DEADLINE_S if limit else LIST_DEADLINE_S
        )
        document = await self.call(call, urgency)
        metadata, items = document.get("metadata"), document.get("items")
        if not isinstance(metadata, Mapping) or not isinstance(items, list):
            raise MalformedAnswerError(call.title, "an answer that is no list", status=200)
        return ListPage(tuple(items), metadata.get("resourceVersion", ""), metadata.get("continue") or "")

    async def list_all(
        self, selection: Selection, *, limit: int = 500, urgency: Urgency = Urgency.NORMAL
    ) -> list[Document]:
        """Return all objects of a selection, page by page; for lists that are short.

        A list that outlives what the server remembers is asked for again, in one answer.
        """
        try:
            return await self._list_once(selection, limit, urgency)
        except GoneError:
            return await self._list_once(selection, 0, urgency)

    async def _list_once(self, selection: Selection, limit: int, urgency: Urgency) -> list[Document]:
        page = await self.list_page(selection, limit=limit, urgency=urgency)
        found = list(page.items)
        while page.next_token:
            page = await self.list_page(selection, limit=limit, token=page.next_token, urgency=urgency)
            found += page.items
        return found

    @asynccontextmanager
    async def watch(
        self, selection: Selection, *, resource_version: str, timeout_s: int
    ) -> AsyncIterator[WatchLines]:
        """Open a watch with bookmarks; inside, the status is known to be 200 and the lines can be read."""
        query = {
            **selection.query(),
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        # The server ends the watch by itself; ours is the later limit, for a server that forgets to.
        call = ApiCall("GET", selection.path(), query, deadline_s=timeout_s + 30.0)
        await self._limiter.acquire(Urgency.NORMAL)
        async with self._transport.open(call) as lines:
            if lines.answer.status == 200:
                yield lines
                return
            refused = _refusal(call, lines.answer)
        if isinstance(refused, UnauthorizedError):
            await self._transport.renew_login()
        raise refused

    async def create(
        self, resource: Resource, document: Document, urgency: Urgency = Urgency.NORMAL
    ) -> Document:
        """Create an object and return it as stored; AlreadyExistsError when its name is taken."""
        namespace = key_of(document).namespace
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return await self.call(ApiCall("POST", resource.path(namespace=namespace), body=whole), urgency)

    async def replace(
        self, resource: Resource, document: Document, urgency: Urgency = Urgency.NORMAL
    ) -> Document:
        """Write a whole object; ConflictError when the version in its metadata is no longer the newest."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return await self.call(ApiCall("PUT", resource.path(key_of(document)), body=whole), urgency)

    async def merge_patch(
        self,
        resource: Resource,
        key: ObjectKey,
        patch: Document,
        *,
        subresource: str = "",
        urgency: Urgency = Urgency.NORMAL,
    ) -> Document:
        """Change the named fields only; a version in the patch's metadata makes it conditional."""
        path = resource.path(key, subresource=subresource)
        return await self.call(ApiCall("PATCH", path, body=patch, content_type=MERGE_PATCH), urgency)

    async def delete(
        self, resource: Resource, key: ObjectKey, *, uid: str = "", urgency: Urgency = Urgency.NORMAL
    ) -> None:
        """Delete an object; with a uid only that very one, else ConflictError."""
        body: Document = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            body["preconditions"] = {"uid": uid}
        await self.call(ApiCall("DELETE", resource.path(key), body=body), urgency)

    async def close(self) -> None:
        """Give the connections back."""
        await self._transport.close()

    async def _send(self, call: ApiCall, urgency: Urgency) -> ApiResponse:
        await self._limiter.acquire(urgency)
        return await self._transport.send(call)


def _document(call: ApiCall, answer: ApiResponse) -> Document:
    if not 200 <= answer.status < 300:
        raise _refusal(call, answer)
    if not isinstance(answer.body, dict):
        raise MalformedAnswerError(call.title, "an answer that is no JSON document", status=answer.status)
    return answer.body


def _refusal(call: ApiCall, answer: ApiResponse) -> KubeError:
    return error_of(call.title, answer.status, answer.body, _retry_after_s(answer.headers))


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    for name, value in headers.items():
        # A date instead of seconds is legal HTTP; no API server sends one.
        if name.lower() == "retry-after" and value.strip().isdigit():
            return float(value)
    return None
