"""Faults of calls between a client and its API server: refused, broken, silent, carried out but unanswered.

They work in front of the in-memory API server and of a real one.
Must never: change a call that no fault matches.
Rules: `testing#api-faults`, `operator#failures`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum

from bigfleet.aio.clock import Clock
from bigfleet.kube.errors import UnreachableError
from bigfleet.kube.transport import ApiCall, ApiResponse, ApiTransport, WatchLines


class Trouble(Enum):
    """The faults of a call other than an error response."""

    BREAK = "the connection breaks before the call arrives"
    LOSE_ANSWER = "the call is carried out, its answer is lost"
    SILENCE = "nothing is ever heard; of a watch, from some line on"
    CUT = "a watch is cut off after some lines"
    CLOSE = "a watch is closed in order after some lines"


@dataclass(slots=True)
class Fault:
    """Which calls fail, how often, and how: a response in place of the server's, or a trouble."""

    what: ApiResponse | Trouble
    times: int = 1
    method: str = ""
    path: str = ""
    query: str = ""
    watch: bool | None = None
    after_lines: int = 0
    hits: int = field(default=0, init=False)

    def hits_call(self, call: ApiCall, *, watch: bool) -> bool:
        """Return whether this call is hit."""
        return (
            self.hits < self.times
            and self.method in ("", call.method)
            and self.path in call.path
            and (not self.query or self.query in call.query)
            and self.watch in (None, watch)
        )


class FaultyTransport:
    """A transport with faults, which records every call with its time."""

    def __init__(self, transport: ApiTransport, clock: Clock) -> None:
        self.faults: list[Fault] = []
        self.calls: list[tuple[int, ApiCall]] = []
        self._transport, self._clock = transport, clock

    def add(self, fault: Fault) -> Fault:
        """Add a fault."""
        self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """Remove all faults."""
        self.faults.clear()

    def count(self, matches: Callable[[ApiCall], bool]) -> int:
        """Return how many calls so far match."""
        return sum(matches(call) for _, call in self.calls)

    async def send(self, call: ApiCall) -> ApiResponse:
        fault = self._next(call, watch=False)
        if fault is None:
            return await self._transport.send(call)
        if isinstance(fault.what, ApiResponse):
            await self._clock.sleep(0)
            return fault.what
        if fault.what is Trouble.LOSE_ANSWER:
            await self._transport.send(call)
        if fault.what is Trouble.SILENCE:
            await self._clock.sleep(call.deadline_s)
        raise UnreachableError(call.title, fault.what.value)

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        return self._open(call)

    @asynccontextmanager
    async def _open(self, call: ApiCall) -> AsyncIterator[WatchLines]:
        fault = self._next(call, watch=True)
        if fault is not None and fault.what in (Trouble.BREAK, Trouble.LOSE_ANSWER):
            raise UnreachableError(call.title, Trouble.BREAK.value)
        if fault is not None and isinstance(fault.what, ApiResponse):
            yield _NoLines(fault.what)
            return
        async with self._transport.open(call) as lines:
            yield lines if fault is None else _FaultyLines(lines, call, fault, self._clock)

    async def renew_login(self) -> None:
        await self._transport.renew_login()

    async def close(self) -> None:
        await self._transport.close()

    def _next(self, call: ApiCall, *, watch: bool) -> Fault | None:
        self.calls.append((self._clock.monotonic_ns(), call))
        for fault in self.faults:
            if fault.hits_call(call, watch=watch):
                fault.hits += 1
                return fault
        return None


class _NoLines:
    """The response to a watch that was refused."""

    def __init__(self, answer: ApiResponse) -> None:
        self.answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


class _FaultyLines:
    """A watch that ends as the fault says."""

    def __init__(self, lines: WatchLines, call: ApiCall, fault: Fault, clock: Clock) -> None:
        self.answer = lines.answer
        self._lines, self._call, self._fault, self._clock = aiter(lines), call, fault, clock
        self._left = fault.after_lines

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._left > 0:
            self._left -= 1
            return await anext(self._lines)
        if self._fault.what is Trouble.CLOSE:
            raise StopAsyncIteration
        if self._fault.what is Trouble.SILENCE:
            await self._clock.sleep(self._call.deadline_s)
        raise UnreachableError(self._call.title, Trouble.CUT.value)
