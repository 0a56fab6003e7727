"""The event recorder: writes Kubernetes events, counts repeated ones, and sends at most a few per second.

Why: an event is advice to a person. It must not delay the work it reports, nor load an API server that is in trouble.
Must never: raise to its caller, wait for the API server in `record`, or grow without bound.
Rules: `operator#operator-metrics`, `operator#roles`.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.kube.limiter import RateLimiter, Urgency
from bigfleet.kube.resources import EVENTS, ObjectKey, Resource
from bigfleet.kube.transport import Document
from bigfleet.model.times import rfc3339_of_ns

PER_SECOND: Final = 5.0
WAITING_LIMIT: Final = 1000
REMEMBERED: Final = 4096
SAME_WITHIN_S: Final = 600.0
_MAX_MESSAGE: Final = 1024  # the API server's limit
_MAX_NAME: Final = 230  # leaves room for the stamp within 253


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an event is about (`involvedObject`)."""

    resource: Resource
    key: ObjectKey
    uid: str = ""

    def as_document(self) -> Document:
        """Return the reference as events hold it."""
        reference: Document = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.key.name,
        }
        if self.key.namespace:
            reference["namespace"] = self.key.namespace
        if self.uid:
            reference["uid"] = self.uid
        return reference


@dataclass(frozen=True, slots=True)
class _Event:
    """The content of an event; equal contents are one event with a count."""

    about: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(slots=True)
class _Written:
    key: ObjectKey
    count: int
    last_s: float


class EventRecorder:
    """Writes the events of one component."""

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        clock: Clock,
        host: str = "",
    ) -> None:
        self._client, self._component, self._host, self._clock = client, component, host, clock
        self._limiter = RateLimiter(clock, qps=PER_SECOND, burst=int(PER_SECOND))
        self._waiting: OrderedDict[_Event, int] = OrderedDict()
        self._written: OrderedDict[_Event, _Written] = OrderedDict()
        self._filled = asyncio.Event()
        self._is_writing = False
        self.dropped = 0
        self._log = structlog.get_logger("bigfleet.kube").bind(component=component)

    @property
    def is_idle(self) -> bool:
        """Whether everything recorded so far has been written or given up."""
        return not self._waiting and not self._is_writing

    def record(
        self, about: ObjectReference, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Queue an event and return at once; when the queue is full the event is dropped and counted."""
        event = _Event(about, kind, reason, message[:_MAX_MESSAGE])
        if event not in self._waiting and len(self._waiting) >= WAITING_LIMIT:
            self.dropped += 1
            return
        self._waiting[event] = self._waiting.get(event, 0) + 1
        self._filled.set()

    async def run(self) -> NoReturn:
        """Write events until cancelled."""
        while True:
            while not self._waiting:
                self._filled.clear()
                await self._filled.wait()
            await self._limiter.acquire()
            event, times = self._waiting.popitem(last=False)
            self._is_writing = True
            try:
                await self._write(event, times)
            except KubeError as error:
                self.dropped += 1
                self._log.info(
                    "event_dropped", reason=event.reason, about=str(event.about.key), error=str(error)
                )
            finally:
                self._is_writing = False

    async def _write(self, event: _Event, times: int) -> None:
        known = self._written.get(event)
        now_s = monotonic_s(self._clock)
        if known is not None and now_s - known.last_s < SAME_WITHIN_S:
            patch = {"count": known.count + times, "lastTimestamp": rfc3339_of_ns(self._clock.wall_ns(), 0)}
            try:
                await self._client.merge_patch(EVENTS, known.key, patch, urgency=Urgency.BULK)
            except NotFoundError:
                pass  # the API server deletes events after an hour or sooner; create a new one
            else:
                known.count, known.last_s = known.count + times, now_s
                self._written.move_to_end(event)
                return
        document = self._document(event, times)
        await self._client.create(EVENTS, document, Urgency.BULK)
        metadata = document["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        self._written[event] = _Written(key, times, now_s)
        self._written.move_to_end(event)
        while len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def _document(self, event: _Event, times: int) -> Document:
        wall_ns = self._clock.wall_ns()
        now = rfc3339_of_ns(wall_ns, 0)
        # Objects without a namespace have their events in "default", where kubectl looks for them.
        namespace = event.about.key.namespace or "default"
        source = {"component": self._component, **({"host": self._host} if self._host else {})}
        return {
            "metadata": {"namespace": namespace, "name": f"{event.about.key.name[:_MAX_NAME]}.{wall_ns:x}"},
            "involvedObject": event.about.as_document(),
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": times,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
