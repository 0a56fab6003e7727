"""The send queue of one session: a slot for the newest roll-up and an outbox for answers.

Why: a newer roll-up replaces an older one, while each answer is needed. So they are queued by different rules.
Must never: be sent by two tasks, outlive its session, or let answers starve roll-ups.
Rules: `operator#outbox`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.options import OUTBOX, OUTBOX_BETWEEN_ROLLUPS


class FrameStream(Protocol):
    """The sending half of a stream."""

    async def send(self, message: bytes) -> None:
        """Send one encoded frame; waits while the peer does not read."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRollup:
    """An encoded roll-up, and what to call once it was sent."""

    frame: bytes
    rows: int
    sent: Callable[[], None]
    changed_s: float | None = None
    """When the oldest change in it was seen, by the monotonic clock; None if there was none."""


class Uplink:
    """The frames that wait to be sent in one session."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock, self._metrics = clock, metrics
        self._rollup: PreparedRollup | None = None
        self._outbox: deque[bytes] = deque()
        self._hello: bytes | None = None
        self._filled = asyncio.Event()
        self._freed = asyncio.Event()

    def offer_rollup(self, rollup: PreparedRollup) -> None:
        """Queue a roll-up in place of the one that waits, if any."""
        if self._rollup is not None and self._rollup.changed_s is not None:
            rollup = replace(rollup, changed_s=self._rollup.changed_s)
        self._rollup = rollup
        self._filled.set()

    def greet(self, frame: bytes) -> None:
        """Queue a hello before everything else."""
        self._hello = frame
        self._filled.set()

    def put(self, frame: bytes) -> bool:
        """Queue an answer; return False and count it when the outbox is full."""
        if len(self._outbox) >= OUTBOX:
            self._metrics.counter("bigfleet_operator_outbox_dropped_total").inc()
            return False
        self._outbox.append(frame)
        self._filled.set()
        return True

    async def put_within(self, frame: bytes, seconds: float) -> bool:
        """Queue an answer once there is room; return False and count it when there is none in time."""
        try:
            async with timeout(self._clock, max(seconds, 0.0)):
                while len(self._outbox) >= OUTBOX:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            pass
        return self.put(frame)

    async def run(self, stream: FrameStream) -> None:
        """Send until cancelled or until the stream breaks."""
        answers = 0
        while True:
            while self._hello is None and self._rollup is None and not self._outbox:
                self._filled.clear()
                await self._filled.wait()
            if self._hello is not None:
                frame, self._hello = self._hello, None
                await stream.send(frame)
            elif self._outbox and (self._rollup is None or answers < OUTBOX_BETWEEN_ROLLUPS):
                answers += 1
                frame = self._outbox.popleft()
                self._freed.set()
                await stream.send(frame)
            elif self._rollup is not None:
                answers = 0
                await self._send_rollup(stream)

    async def _send_rollup(self, stream: FrameStream) -> None:
        rollup, self._rollup = self._rollup, None
        if rollup is None:
            return
        began_s = monotonic_s(self._clock)
        await stream.send(rollup.frame)
        sent_s = monotonic_s(self._clock)
        self._metrics.histogram("bigfleet_operator_rollup_send_duration_seconds").observe(sent_s - began_s)
        if rollup.changed_s is not None:
            self._metrics.histogram("bigfleet_operator_rollup_delay_seconds").observe(
                sent_s - rollup.changed_s
            )
        self._metrics.gauge("bigfleet_operator_rollup_bytes").set(len(rollup.frame))
        self._metrics.gauge("bigfleet_operator_rollup_rows").set(rollup.rows)
        rollup.sent()
