"""The leader check: only the serving leader answers, and a handler that waited checks again.

Why: two replicas may believe that they lead. A replica answers only while the log confirms the term it won.
Must never: look at identity or arguments before leadership (`coordinator#serving`), or let one term use the memory of
another.
Rules: `coordinator#soft-state`, `coordinator#serving`, `coordinator#won-term`.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol, TypeVar, cast

from bigfleet.aio.net import Call, Metadata
from bigfleet.coordinator.leader_state import LeaderState
from bigfleet.coordinator.log import NotLeaderError, ReplicatedLog

Handler = TypeVar("Handler", bound=Callable[..., Any])  # Any: the shape of a handler depends on its RPC


class Leadership:
    """Whether this replica is the serving leader, and the memory of the term it serves."""

    def __init__(self, log: ReplicatedLog, new_id: Callable[[], str]) -> None:
        self._log, self._new_id = log, new_id
        self._state: LeaderState | None = None
        log.on_serving(self._gained)
        log.on_lost(self._lost)

    @property
    def current(self) -> LeaderState | None:
        """The memory of the term this replica serves; None on every other replica."""
        leader = self._state
        return leader if leader is not None and self._log.serving() == leader.term else None

    def require(self, expected: LeaderState | None = None) -> LeaderState:
        """Return the memory of the serving term; raises `NotLeaderError`, also when it is not the expected one."""
        leader = self.current
        if leader is None or (expected is not None and leader is not expected):
            raise NotLeaderError(self._log.status().leader)
        return leader

    def _gained(self, term: int) -> None:
        self._state = LeaderState(term, self._new_id)

    def _lost(self) -> None:
        self._state = None


class LeaderService(Protocol):
    """A service whose methods `leader_only` decorates."""

    leadership: Leadership

    def facts(self, call: Call) -> Metadata:
        """Return what this replica reports about itself with the answer to a call."""
        ...


def leader_only(handler: Handler) -> Handler:
    """Refuse a call unless this replica is the serving leader, and send the replica's facts with every answer.

    The facts go with refusals too: clients find the leader by them.
    """
    if inspect.isasyncgenfunction(handler):

        @functools.wraps(handler)
        async def stream(self: LeaderService, request: object, call: Call) -> AsyncIterator[Any]:
            try:
                self.leadership.require()
                async with aclosing(handler(self, request, call)) as messages:
                    async for message in messages:
                        yield message
            finally:
                call.set_trailing(self.facts(call))

        return cast("Handler", stream)

    @functools.wraps(handler)
    async def unary(self: LeaderService, request: object, call: Call) -> object:
        try:
            self.leadership.require()
            return await cast("Awaitable[object]", handler(self, request, call))
        finally:
            call.set_trailing(self.facts(call))

    return cast("Handler", unary)
