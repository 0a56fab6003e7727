"""Group commit: commands of many callers share one log entry, readers share one barrier.

Why: every entry costs a sync on two replicas; one command each gave 338 commits a second, batches gave 2,243.
Must never: report that a command did not happen when it may have, nor let a reader share a batch that left before it asked.
Rules: `coordinator#commands`, `coordinator#write-outcomes`, `coordinator#serving`, `coordinator#apply-is-total`,
`coordinator#group-commit`, `coordinator#leadership`.
"""

import asyncio
import enum
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bigfleet.aio.clock import Clock
from bigfleet.coordinator.core.batch import (
    FRAME_BYTES,
    MAX_BATCH_BYTES,
    MAX_COMMANDS,
    encode_batch,
    encode_command,
)
from bigfleet.coordinator.core.commands import barrier
from bigfleet.coordinator.core.results import RefusalCode
from bigfleet.coordinator.log import (
    Command,
    CommandOutcomeUnknownError,
    FrozenError,
    LogError,
    NotLeaderError,
    Result,
    TooLargeError,
    UnavailableError,
)

_T = TypeVar("_T")

IN_FLIGHT = 2
_BARRIER = encode_command(barrier())


class BatchResult(enum.Enum):
    """The outcome of a submitted batch."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied, and never will be"
    BUSY = "the store takes nothing now"
    UNKNOWN = "unknown"


OnBatchResult = Callable[[BatchResult, str], None]
SubmitBatch = Callable[[str, OnBatchResult], None]
"""Passes a batch to the store; the callback runs on the loop, or never."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """One caller's command."""

    text: str
    size: int
    future: "asyncio.Future[Result]"
    sent: bool = False


@dataclass(eq=False, slots=True)
class _Batch:
    """One entry in flight; with readers its first result is the barrier's."""

    items: Sequence[_Waiting]
    readers: Sequence["asyncio.Future[None]"]


class Batches:
    """The proposals of the serving leader."""

    def __init__(
        self,
        clock: Clock,
        observe_batch: Callable[[int], object] = lambda _commands: None,
        *,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        """At most `in_flight` batches are with the store at a time."""
        self._clock, self._observe_batch, self._most = clock, observe_batch, in_flight
        self._queue: deque[_Waiting] = deque()
        self._readers: list[asyncio.Future[None]] = []
        self._in_flight: list[_Batch] = []
        self._epoch: int | None = None
        self._submit: SubmitBatch | None = None
        self._hint: str | None = None
        self._frozen = False
        self._idle: asyncio.Future[None] | None = None

    def begin(self, epoch: int, submit: SubmitBatch) -> None:
        """Accept proposals under a committed epoch."""
        self._epoch, self._submit = epoch, submit

    def end(self, hint: str | None = None) -> None:
        """Accept no more: waiting commands were not proposed, those in flight may still commit."""
        self._epoch, self._submit, self._hint = None, None, hint
        queue, self._queue = self._queue, deque()
        readers, self._readers = self._readers, []
        batches, self._in_flight = self._in_flight, []
        for waiting in queue:
            _fail(waiting.future, NotLeaderError(hint))
        for reader in readers:
            _fail(reader, NotLeaderError(hint))
        for batch in batches:
            self._fail_batch(
                batch, CommandOutcomeUnknownError("leadership was lost; the command may still commit")
            )
        self._resolve_idle()

    def freeze(self) -> None:
        """Refuse new proposals while the voters change; those in flight finish."""
        self._frozen = True

    def unfreeze(self) -> None:
        """Accept proposals again."""
        self._frozen = False

    async def idle(self) -> None:
        """Return once nothing waits and nothing is in flight."""
        while self._queue or self._readers or self._in_flight:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    async def propose(self, command: Command, timeout_s: float) -> Result:
        """Return the result of one command; see `ReplicatedLog.propose`."""
        text = encode_command(command)
        size = len(text.encode())
        if size + FRAME_BYTES > MAX_BATCH_BYTES:
            raise TooLargeError(size)
        self._refuse_unless_open()
        waiting = _Waiting(text, size, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._send_soon()
        return await self._within(waiting.future, timeout_s, lambda: waiting.sent)

    async def barrier(self, timeout_s: float) -> None:
        """Return once a batch sent after this call is applied under this epoch."""
        self._refuse_unless_open()
        reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(reader)
        self._send_soon()
        await self._within(reader, timeout_s, lambda: False)

    async def _within(
        self, future: "asyncio.Future[_T]", timeout_s: float, is_sent: Callable[[], bool]
    ) -> "_T":
        def expire() -> None:
            error: LogError = UnavailableError(f"not proposed within {timeout_s:g} s; nothing was replicated")
            if is_sent():
                error = CommandOutcomeUnknownError(
                    f"no answer within {timeout_s:g} s; the command may still commit"
                )
            _fail(future, error)

        timer = self._clock.call_later(timeout_s, expire)
        try:
            return await future
        finally:
            timer.cancel()

    def _refuse_unless_open(self) -> None:
        if self._epoch is None:
            raise NotLeaderError(self._hint)
        if self._frozen:
            raise FrozenError("the voters are about to change; try again in a moment")

    def _send_soon(self) -> None:
        if len(self._in_flight) < self._most:
            # In the next turn of the loop, so that all callers of this turn share the batch.
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        if self._epoch is None or self._submit is None:
            return
        while len(self._in_flight) < self._most and (self._queue or self._readers):
            readers, self._readers = [reader for reader in self._readers if not reader.done()], []
            items = self._take(MAX_COMMANDS - bool(readers))
            if not items and not readers:
                break
            texts = [_BARRIER] * bool(readers) + [waiting.text for waiting in items]
            batch = _Batch(items, readers)
            self._in_flight.append(batch)
            self._observe_batch(len(texts))
            self._submit(encode_batch(self._epoch, texts), partial(self._on_end, batch))
        self._resolve_idle()

    def _take(self, most: int) -> list[_Waiting]:
        """Take what fits into one batch, without commands whose callers have given up."""
        items: list[_Waiting] = []
        room = MAX_BATCH_BYTES - FRAME_BYTES - len(_BARRIER) - 1
        while self._queue and len(items) < most:
            waiting = self._queue[0]
            if waiting.future.done():
                self._queue.popleft()
                continue
            if items and waiting.size + 1 > room:
                break
            room -= waiting.size + 1
            waiting.sent = True
            items.append(self._queue.popleft())
        return items

    def _on_end(self, batch: _Batch, end: BatchResult, results: str) -> None:
        if batch not in self._in_flight:
            return  # leadership was lost meanwhile, and all callers have their error
        self._in_flight.remove(batch)
        match end:
            case BatchResult.APPLIED:
                self._deliver(batch, json.loads(results))
            case BatchResult.NOT_APPLIED:
                self._fail_batch(batch, NotLeaderError(self._hint))
            case BatchResult.BUSY:
                self._fail_batch(batch, UnavailableError("the log takes nothing now; nothing was replicated"))
            case BatchResult.UNKNOWN:
                self._fail_batch(
                    batch, CommandOutcomeUnknownError("leadership changed; the command may still commit")
                )
        self._send()

    def _deliver(self, batch: _Batch, results: list[Result]) -> None:
        expected = bool(batch.readers) + len(batch.items)
        if results and results[0].get("refusal") == RefusalCode.STALE_EPOCH:
            # Refused whole: another leader's epoch was committed first, so nothing happened.
            self._fail_batch(batch, NotLeaderError(self._hint))
            return
        if len(results) != expected:
            self._fail_batch(batch, UnavailableError(f"the batch was refused: {results[:1]}"))
            return
        for reader in batch.readers:
            if not reader.done():
                reader.set_result(None)
        for waiting, result in zip(batch.items, results[len(results) - len(batch.items) :], strict=True):
            if not waiting.future.done():
                waiting.future.set_result(result)

    def _fail_batch(self, batch: _Batch, error: LogError) -> None:
        for waiting in batch.items:
            _fail(waiting.future, error)
        # A barrier changes nothing, so an unknown one simply failed.
        for reader in batch.readers:
            _fail(reader, error)

    def _resolve_idle(self) -> None:
        if self._idle is not None and not (self._queue or self._readers or self._in_flight):
            self._idle.set_result(None)
            self._idle = None


def _fail(future: "asyncio.Future[_T]", error: LogError) -> None:
    if not future.done():
        future.set_exception(error)
