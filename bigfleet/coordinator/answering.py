"""What every call of the coordinator has in common: facts about the replica with each answer, and only the leader serves.

Why: clients find the leader, the start-up probe finds a cluster and `status` finds the lag by the facts; they travel with
refusals too, so a follower's "no" is worth as much as a leader's answer.
Must never: look at identity or arguments before leadership (coordinator 4.1).
"""

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol, TypeVar, cast

from bigfleet.aio.net import Call, Metadata
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.log import LogStatus
from bigfleet.coordinator.reign import Throne
from bigfleet.transport.coordinator import (
    CLUSTER_ID,
    COMMAND_LEVEL,
    EPOCH,
    LAST_INDEX,
    LAST_TERM,
    LEADER,
    MEMBERSHIP,
    NODE,
    PEERS,
    RAFT_STATE,
    RAISED_LEVEL,
)

Handler = TypeVar("Handler", bound=Callable[..., Any])  # Any: the shape of a handler depends on its RPC


class Answering(Protocol):
    """What a service must have for these decorators."""

    throne: Throne

    def facts(self, call: Call) -> Metadata:
        """Return what this replica says about itself with the answer to a call."""
        ...


def facts_about(status: LogStatus, raised_level: int, known_level: int = KNOWN_LEVEL) -> Metadata:
    """Return the trailing metadata of an answer."""
    leader = ((LEADER, status.leader),) if status.leader else ()
    peers = ",".join(f"{peer.node_id}={peer.grpc_address}" for peer in status.peers)
    return (
        *leader,
        (RAFT_STATE, status.state.value),
        (CLUSTER_ID, status.cluster_id),
        (MEMBERSHIP, status.membership.value),
        (LAST_TERM, str(status.last_term)),
        (LAST_INDEX, str(status.last_index)),
        (NODE, status.node_id),
        (EPOCH, str(status.epoch)),
        (COMMAND_LEVEL, str(known_level)),
        (RAISED_LEVEL, str(raised_level)),
        *(((PEERS, peers),) if peers else ()),
    )


def answers(handler: Handler) -> Handler:
    """Send the facts along, as they are when the call ends."""
    if inspect.isasyncgenfunction(handler):

        @functools.wraps(handler)
        async def stream(self: Answering, request: object, call: Call) -> AsyncIterator[Any]:
            try:
                async with aclosing(handler(self, request, call)) as messages:
                    async for message in messages:
                        yield message
            finally:
                call.set_trailing(self.facts(call))

        return cast("Handler", stream)

    @functools.wraps(handler)
    async def unary(self: Answering, request: object, call: Call) -> object:
        try:
            return await cast("Awaitable[object]", handler(self, request, call))
        finally:
            call.set_trailing(self.facts(call))

    return cast("Handler", unary)


def leader_only(handler: Handler) -> Handler:
    """Refuse unless this replica serves, before anything else is looked at."""
    if inspect.isasyncgenfunction(handler):

        @functools.wraps(handler)
        async def stream(self: Answering, request: object, call: Call) -> AsyncIterator[Any]:
            self.throne.require()
            async with aclosing(handler(self, request, call)) as messages:
                async for message in messages:
                    yield message

        return cast("Handler", stream)

    @functools.wraps(handler)
    async def unary(self: Answering, request: object, call: Call) -> object:
        self.throne.require()
        return await cast("Awaitable[object]", handler(self, request, call))

    return cast("Handler", unary)
