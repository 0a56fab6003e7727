"""A channel to services of the same process, without a network.

Why: a shard without a provider address and `all-in-one` talk to a fake provider in their own process
(`shard#in-process-fake`) through the client they use for any other; a port of its own, two copies of each listing and a
listener for others to find would buy nothing there. Messages are encoded and decoded all the same, so neither side ever
holds an object of the other, and codes, deadlines, limits, identities and cancellation are those of gRPC.
Must never: run a handler in its caller's task (a caller that gives up must not cancel the handler's own waits directly), answer
after `close`, or serve a stream: no provider call is one, and a stream needs a network's back-pressure.
Rules: `shard#in-process-fake`, `wire#codes`; ADR-0101.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, Never, TypeVar

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import (
    BidiStream,
    ClosedError,
    Code,
    Metadata,
    Peer,
    Responses,
    RpcError,
    RpcReply,
    ServeOptions,
)
from bigfleet.aio.service import (
    BidiMethod,
    BoundMethod,
    BoundService,
    RpcKind,
    ServerStreamMethod,
    UnaryMethod,
    encode,
)
from bigfleet.transport.dispatch import Dispatcher, decode_answer, log_hooks

ADDRESS: Final = "inside"
"""The address of a peer that is this process itself."""
_SERVE: Final = ServeOptions()

Request = TypeVar("Request")
Response = TypeVar("Response")


class InsideCall:
    """A call that comes from this process; see `bigfleet.aio.net.Call`."""

    def __init__(
        self,
        method: str,
        identity: Identity | None = None,
        *,
        metadata: Metadata = (),
        clock: Clock | None = None,
        deadline_s: float | None = None,
    ) -> None:
        self.method, self.metadata = method, metadata
        self.peer = Peer(ADDRESS, secured=identity is not None, identity=identity)
        self.trailing: Metadata = ()
        self._clock, self._deadline_s = clock, deadline_s

    def time_remaining_s(self) -> float | None:
        if self._clock is None or self._deadline_s is None:
            return None
        return max(self._deadline_s - monotonic_s(self._clock), 0.0)

    def set_trailing(self, metadata: Metadata) -> None:
        self.trailing = metadata

    def cancelled(self) -> bool:
        return False  # the handler's task is cancelled, which no handler of a unary call outlives


class InsideChannel:
    """A way to services of this process; see `bigfleet.aio.net.Channel`."""

    def __init__(
        self,
        services: Iterable[BoundService],
        clock: Clock,
        *,
        identity: Identity | None = None,
        options: ServeOptions = _SERVE,
    ) -> None:
        self._methods = {method.path: method for service in services for method in service.methods.values()}
        self._clock, self._identity, self._limit = clock, identity, options.max_message_bytes
        self._dispatcher = Dispatcher(log_hooks(), options.statuses)
        self._running: dict[asyncio.Task[bytes], str] = {}  # to the reason it was broken off, if it was
        self._closed = False
        self._lost = asyncio.Event()  # set and replaced when every call is broken off

    async def unary(
        self,
        method: UnaryMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        metadata: Metadata = (),
        wait_for_ready: bool = False,  # noqa: ARG002  a service of this process is always ready
    ) -> RpcReply[Response]:
        if self._closed:
            raise ClosedError("the channel inside this process is closed")
        data = self._within_limit(encode(request), "request")
        call = InsideCall(
            method.path,
            self._identity,
            metadata=metadata,
            clock=self._clock,
            deadline_s=monotonic_s(self._clock) + timeout_s,
        )
        work = self._dispatcher.unary(self._method(method.path), data, call)
        task = asyncio.get_running_loop().create_task(work, name=f"inside {method.path}")
        self._running[task] = ""
        try:
            async with timeout(self._clock, timeout_s):
                await asyncio.wait([task])
        except TimeoutError:
            raise RpcError(
                Code.DEADLINE_EXCEEDED, f"{method.path}: no answer within {timeout_s:g} s"
            ) from None
        finally:
            task.cancel()  # without effect on one that has ended
            why = self._running.pop(task)
        if task.cancelled():
            raise RpcError(Code.UNAVAILABLE, why or "the call was cancelled where it was served")
        try:
            answer = self._within_limit(task.result(), "answer")
        except RpcError as error:
            raise RpcError(error.code, error.detail, (*call.trailing, *error.trailing)) from error
        return RpcReply(decode_answer(method, answer), call.trailing)

    def server_stream(
        self,
        method: ServerStreamMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float | None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> Responses[Response]:
        del request, timeout_s, metadata, wait_for_ready
        _no_streams(method.path)

    def bidi(
        self,
        method: BidiMethod[Request, Response],
        *,
        timeout_s: float | None = None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> BidiStream[Request, Response]:
        del timeout_s, metadata, wait_for_ready
        _no_streams(method.path)

    async def connectivity(self) -> AsyncIterator[bool]:
        """Yield True, and False with True again each time `break_off` was called; ends with the channel."""
        while not self._closed:
            lost = self._lost
            yield True
            await lost.wait()
            if not self._closed:
                yield False

    async def close(self) -> None:
        """End every call; later ones raise `ClosedError`."""
        self._closed = True
        await self.break_off("the channel was closed")

    async def break_off(self, why: str) -> None:
        """End every call that runs, as a lost connection would; later ones are served again."""
        self._lost.set()
        self._lost = asyncio.Event()
        running: Sequence[asyncio.Task[bytes]] = [task for task in self._running if not task.done()]
        for task in running:
            self._running[task] = why
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _method(self, path: str) -> BoundMethod:
        method = self._methods.get(path)
        if method is None or method.kind is not RpcKind.UNARY:
            raise RpcError(Code.UNIMPLEMENTED, f"no method {path} here")
        return method

    def _within_limit(self, data: bytes, what: str) -> bytes:
        if len(data) > self._limit:
            raise RpcError(
                Code.RESOURCE_EXHAUSTED,
                f"the {what} takes {len(data)} bytes, the message limit is {self._limit} bytes",
            )
        return data


def _no_streams(path: str) -> Never:
    raise RpcError(Code.UNIMPLEMENTED, f"no stream {path} inside a process")
