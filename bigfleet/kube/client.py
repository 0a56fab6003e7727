"""The client of one API server: plain documents, typed errors, a shared rate limit, one fresh login on 401.

Why: the typed models of the client library take ten times as long as the JSON itself, and its retries, watches and
patch types have faults (`operator#kubernetes-client`). Retries are the caller's decision.
Must never: repeat a call that may have taken effect, or send a patch without its type.
Rules: `operator#raw-json`, `operator#kube-errors`, `operator#login`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bigfleet.kube.errors import GoneError, KubeError, MalformedAnswerError, UnauthorizedError, error_of
from bigfleet.kube.limiter import RateLimiter, Urgency
from bigfleet.kube.resources import ObjectKey, Resource, key_of
from bigfleet.kube.transport import (
    APPLY_PATCH,
    MERGE_PATCH,
    ApiCall,
    ApiResponse,
    ApiTransport,
    Document,
    WatchLines,
)

PAGE_DEADLINE_S: Final = 60.0
LIST_DEADLINE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind to list or watch."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def path(self) -> str:
        """Return the path for lists and watches."""
        return self.resource.path(namespace=self.namespace)

    def query(self) -> dict[str, str]:
        """Return the selectors as query parameters."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list: its documents, its version, and the token of the next page."""

    items: tuple[Document, ...]
    resource_version: str
    next_token: str


class KubeClient:
    """One account at one API server."""

    def __init__(self, transport: ApiTransport, limiter: RateLimiter) -> None:
        self._transport, self._limiter = transport, limiter

    async def call(self, call: ApiCall, urgency: Urgency = Urgency.NORMAL) -> Document:
        """Make a call and return the document of the answer; an error status is raised."""
        answer = await self._send(call, urgency)
        if answer.status == 401:
            # Once only: a token rotated a moment ago is common, a token that is wrong must not be retried for ever.
            await self._transport.renew_login()
            answer = await self._send(call, urgency)
        return _document(call, answer)

    async def get(self, resource: Resource, key: ObjectKey, urgency: Urgency = Urgency.NORMAL) -> Document:
        """Return one object."""
        return await self.call(ApiCall("GET", resource.path(key)), urgency)

    async def list_page(
        self, selection: Selection, *, limit: int, token: str = "", urgency: Urgency = Urgency.NORMAL
    ) -> ListPage:
        """Return the first page of a list, or the one of a token; GoneError when the token has expired.

        A limit of 0 asks for the whole list in one answer, which cannot expire.
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
            raise MalformedAnswerError(call.title, "an answer that is not a list", status=200)
        return ListPage(tuple(items), metadata.get("resourceVersion", ""), metadata.get("continue") or "")

    async def list_all(
        self, selection: Selection, *, limit: int = 500, urgency: Urgency = Urgency.NORMAL
    ) -> list[Document]:
        """Return all objects of a selection, page by page; for short lists.

        A list whose token expires is asked for again in one answer.
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
        """Open a watch with bookmarks; an error status is raised before the body runs."""
        query = {
            **selection.query(),
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        # The server ends the watch itself; our later deadline is for a server that does not.
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
        """Create an object and return it as stored; AlreadyExistsError if its name is taken."""
        namespace = key_of(document).namespace
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return await self.call(ApiCall("POST", resource.path(namespace=namespace), body=whole), urgency)

    async def replace(
        self, resource: Resource, document: Document, urgency: Urgency = Urgency.NORMAL
    ) -> Document:
        """Replace a whole object; ConflictError if the version in its metadata is not the newest."""
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
        """Change only the named fields; a version in the metadata of the patch makes it conditional."""
        path = resource.path(key, subresource=subresource)
        return await self.call(ApiCall("PATCH", path, body=patch, content_type=MERGE_PATCH), urgency)

    async def apply(
        self,
        resource: Resource,
        document: Document,
        *,
        manager: str,
        force: bool,
        urgency: Urgency = Urgency.NORMAL,
    ) -> Document:
        """Create an object under its name, or set these fields of it.

        ConflictError if another manager set one of them, unless forced. Unlike `create` it can be allowed for one name.
        """
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        path = resource.path(key_of(document))
        return await self.call(ApiCall("PATCH", path, query, body=whole, content_type=APPLY_PATCH), urgency)

    async def delete(
        self, resource: Resource, key: ObjectKey, *, uid: str = "", urgency: Urgency = Urgency.NORMAL
    ) -> None:
        """Delete an object; with a uid, ConflictError if the object has another one."""
        body: Document = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            body["preconditions"] = {"uid": uid}
        await self.call(ApiCall("DELETE", resource.path(key), body=body), urgency)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def _send(self, call: ApiCall, urgency: Urgency) -> ApiResponse:
        await self._limiter.acquire(urgency)
        return await self._transport.send(call)


def _document(call: ApiCall, answer: ApiResponse) -> Document:
    if not 200 <= answer.status < 300:
        raise _refusal(call, answer)
    if not isinstance(answer.body, dict):
        raise MalformedAnswerError(call.title, "an answer that is not a JSON document", status=answer.status)
    return answer.body


def _refusal(call: ApiCall, answer: ApiResponse) -> KubeError:
    return error_of(call.title, answer.status, answer.body, _retry_after_s(answer.headers))


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    for name, value in headers.items():
        # A date instead of seconds is legal HTTP; no API server sends one.
        if name.lower() == "retry-after" and value.strip().isdigit():
            return float(value)
    return None
