"""Keeps a store equal to the API server: a list in pages, then a watch, for the life of the process.

Why: the informer and the watch of the client library overload a server that is in trouble, cannot cache custom resources, and
never ask for bookmarks (`operator#raw-json`).
Must never: show part of a list, retry without back-off, wait for a consumer, or give up.
Rules: `operator#reflector`, `operator#c1`, `operator#c2`, `operator#c3`, `operator#c4`, `operator#c5`, `operator#c6`,
`operator#c7`, `operator#c8`.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

import structlog

from bigfleet.aio.backoff import Backoff, BackoffPolicy
from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.rng import RandomStream
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import GoneError, KubeError, MalformedAnswerError, UnreachableError, error_of
from bigfleet.kube.resources import version_of
from bigfleet.kube.store import Store
from bigfleet.kube.transport import Document

T = TypeVar("T")

# The event loop also answers bootstrap requests, so other tasks run after this many events.
_EVENTS_PER_TURN: Final = 64
_PAGE_GROWTH: Final = (1, 4, 16)
_BACKOFF: Final = BackoffPolicy(first_s=0.8, ceiling_s=30.0, healthy_after_s=120.0)
_TOO_LARGE: Final = "ResourceVersionTooLarge"


@dataclass(frozen=True, slots=True)
class ReflectorPolicy:
    """The numbers of `operator#kubernetes-client`; tests shorten them."""

    page: int = 500
    watch_least_s: int = 240
    watch_most_s: int = 480
    silence_s: float = 120.0
    short_watch_s: float = 1.0
    longest_wait_s: float = 300.0
    backoff: BackoffPolicy = _BACKOFF


@dataclass(slots=True)
class ReflectorCounts:
    """What a reflector has done so far."""

    lists: int = 0
    pages: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    failures: int = 0
    last_error: str = ""


class Reflector(Generic[T]):
    """Fills one store with one selection of objects."""

    def __init__(
        self,
        client: KubeClient,
        selection: Selection,
        store: Store[T],
        *,
        clock: Clock,
        stream: RandomStream,
        policy: ReflectorPolicy | None = None,
    ) -> None:
        self.counts = ReflectorCounts()
        self._client, self._selection, self._store = client, selection, store
        self._clock, self._stream = clock, stream
        self._policy = policy or ReflectorPolicy()
        self._backoff = Backoff(stream, self._policy.backoff)
        self._version = ""  # empty: a list is due
        self._healthy_since_s: float | None = None
        self._log = structlog.get_logger("bigfleet.kube").bind(kind=selection.resource.plural)

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except KubeError as error:
                await self._wait_after(error)

    async def _list(self) -> None:
        # A list that takes longer than the server keeps versions expires before its last page, every time. So each attempt uses
        # larger pages, and the last one no pages.
        for growth in _PAGE_GROWTH:
            try:
                self._version = await self._list_once(self._policy.page * growth)
            except GoneError:
                self._log.info("list_expired", page=self._policy.page * growth)
            else:
                return
        self._version = await self._list_once(0)

    async def _list_once(self, limit: int) -> str:
        self.counts.lists += 1
        self._store.begin_list()
        token, version = "", ""
        while True:
            page = await self._client.list_page(self._selection, limit=limit, token=token)
            self.counts.pages += 1
            for number, document in enumerate(page.items, 1):
                self._store.stage(document)
                if number % _EVENTS_PER_TURN == 0:
                    await self._clock.sleep(0)
            token, version = page.next_token, page.resource_version
            if not token:
                break
        if not version.isdigit():
            raise MalformedAnswerError("list", f"a list of version {version!r}", status=200)
        await self._store.finish_list(int(version))
        self._store.in_step()
        self._log.info("listed", objects=len(self._store), version=version)
        return version

    async def _watch(self) -> None:
        self.counts.watches += 1
        limit_s = self._stream.randint(self._policy.watch_least_s, self._policy.watch_most_s)
        began_s = monotonic_s(self._clock)
        opened = self._client.watch(self._selection, resource_version=self._version, timeout_s=limit_s)
        async with opened as lines:
            self._store.in_step()
            if self._healthy_since_s is None:
                self._healthy_since_s = began_s
            iterator, in_turn = aiter(lines), 0
            while (line := await self._next(iterator)) is not None:
                if line:
                    self._event(line)
                self._store.in_step()
                in_turn += 1
                if in_turn % _EVENTS_PER_TURN == 0:
                    await self._clock.sleep(0)
        lived_s = monotonic_s(self._clock) - began_s
        if lived_s < self._policy.short_watch_s:
            # Otherwise a server or proxy that closes at once would be called hundreds of times a second.
            raise UnreachableError("watch", f"closed after {lived_s:.3f} s")

    async def _next(self, lines: AsyncIterator[bytes]) -> bytes | None:
        """Return the next line, None at the end; silence means a dead connection, as bookmarks come every minute."""
        try:
            async with timeout(self._clock, self._policy.silence_s):
                return await anext(lines, None)
        except TimeoutError:
            raise UnreachableError("watch", f"silent for {self._policy.silence_s:g} s") from None

    def _event(self, line: bytes) -> None:
        kind, document = _parse(line)
        match kind:
            case "ADDED" | "MODIFIED":
                self.counts.events += 1
                self._store.apply(document)
            case "DELETED":
                self.counts.events += 1
                self._store.remove(document)
            case "BOOKMARK":
                self.counts.bookmarks += 1
                self._store.bookmark(version_of(document))
            case "ERROR":
                raise error_of("watch", int(document.get("code") or 500), document)
            case _:
                raise MalformedAnswerError("watch", f"an event of type {kind!r}", status=200)
        self._version = str(version_of(document))

    async def _wait_after(self, error: KubeError) -> None:
        self.counts.failures += 1
        self.counts.last_error = str(error)
        if _needs_list(error):
            self._version = ""
        now_s = monotonic_s(self._clock)
        since_s, self._healthy_since_s = self._healthy_since_s, None
        if since_s is not None and now_s - since_s >= self._policy.backoff.healthy_after_s:
            self._backoff.reset()
        asked_s = min(error.retry_after_s or 0.0, self._policy.longest_wait_s)
        wait_s = max(self._backoff.next_s(), asked_s)
        self._log.warning("list_watch_failed", error=str(error), wait_s=round(wait_s, 3))
        await self._clock.sleep(wait_s)


def _needs_list(error: KubeError) -> bool:
    """Return whether resuming from the last version would fail again, or skip an event that could not be read."""
    # Too large: the cluster was restored from a backup, so its versions went back.
    return isinstance(error, GoneError | MalformedAnswerError) or error.has_cause(_TOO_LARGE)


def _parse(line: bytes) -> tuple[str, Document]:
    try:
        event: Any = json.loads(line)
        kind, document = event["type"], event["object"]
        if not isinstance(kind, str) or not isinstance(document, dict):
            raise TypeError
        if kind != "ERROR":
            version_of(document)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise MalformedAnswerError("watch", "a line that is not an event", status=200) from None
    return kind, document
