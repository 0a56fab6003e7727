"""One stream to the shard, from hello to its end.

Why: everything between cluster and shard rides on it. Three activities share it; the first to fail ends it.
Must never: wait in the receiver for anything but the stream, end for a frame nobody understands or a handler that failed, or be
ended because a roll-up was not acknowledged: it would be rejected again.
Rules: operator 3.2, 3.4 and 3.5; ADR-0074.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn, Protocol

import structlog

from bigfleet.aio.backoff import Attempt
from bigfleet.aio.clock import NANOSECONDS, Clock, monotonic_s
from bigfleet.aio.net import BidiStream, DialOptions, Net
from bigfleet.model.errors import BigFleetError
from bigfleet.model.frames import BlobRequest, CapacityHint, MachineNews, ReclaimOrder, ShardAck
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.core.bootstrap import Renderer
from bigfleet.operator.demand import Demand
from bigfleet.operator.options import BLOB_DEADLINE_S, OperatorOptions
from bigfleet.operator.sending import Uplink
from bigfleet.operator.sweeps import Sweep
from bigfleet.transport.shard_session import SESSION
from bigfleet.v1alpha1 import shard_pb2
from bigfleet.wire.operator_frames import answer_frame, frame_from_proto, hello_frame

_Stream = BidiStream[bytes, shard_pb2.ShardMessage]


class SessionEndedError(BigFleetError):
    """The shard closed the stream, or fell silent."""


class Work(Protocol):
    """Where frames go; none of these waits."""

    def news(self, news: MachineNews) -> None:
        """File how a machine stands."""

    def reclaim(self, order: ReclaimOrder, uplink: Uplink) -> None:
        """File an instruction; its ack goes out on this session."""

    def hint(self, hint: CapacityHint) -> None:
        """File a hint."""

    def sweep(self) -> Sweep | None:
        """Begin to take note of what a new session names; None where nothing is to be swept."""


class SessionState:
    """What the rest of the process may know of the sessions."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock, self._metrics = clock, metrics
        self.is_up = False
        self.down_since_s: float | None = None
        self.last_rollup_ack_s = 0.0
        self.last_error = "not connected yet"

    def greeted(self) -> None:
        """The shard has accepted our hello."""
        self.is_up = True
        self._metrics.gauge("bigfleet_operator_session_up").set(1)

    def rollup_acked(self) -> None:
        """The shard has taken a roll-up."""
        self.last_rollup_ack_s = self._clock.wall_ns() / NANOSECONDS
        self._metrics.gauge("bigfleet_operator_last_ack_timestamp_seconds").set(self.last_rollup_ack_s)

    def ended(self, why: str) -> None:
        """The session is over."""
        if self.is_up:
            self.down_since_s = monotonic_s(self._clock)
        self.is_up, self.last_error = False, why
        self._metrics.gauge("bigfleet_operator_session_up").set(0)


class Session:
    """Runs one session."""

    def __init__(
        self,
        options: OperatorOptions,
        net: Net,
        *,
        work: Work,
        demand: Demand,
        renderer: Renderer,
        state: SessionState,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._options, self._net, self._work, self._demand = options, net, work, demand
        self._renderer, self._state, self._clock, self._metrics = renderer, state, clock, metrics
        self._uplink = Uplink(clock, metrics)
        self._greeted = asyncio.Event()
        self._heard_s, self._frames = monotonic_s(clock), 0
        self._answers: dict[asyncio.Task[None], None] = {}
        self._sweep = work.sweep()
        self._log = structlog.get_logger("bigfleet.operator")

    async def run(self, attempt: Attempt) -> None:
        """Dial, say hello, and work until something ends it, which is raised."""
        channel = self._net.dial(self._options.shard_addr, DialOptions(fresh_ca=True))
        try:
            async with channel.bidi(SESSION) as stream:
                await stream.send(hello_frame(self._options.cluster))
                await self._work_on(stream, attempt)
        finally:
            for task in list(self._answers):
                task.cancel()
            await channel.close()

    async def _work_on(self, stream: _Stream, attempt: Attempt) -> None:
        activities: list[Coroutine[Any, Any, object]] = [
            self._receive(stream, attempt),
            self._uplink.run(stream),
            self._demand.run(self._uplink),
            self._stay_alive(),
        ]
        tasks = [asyncio.ensure_future(activity) for activity in activities]
        sweeping = asyncio.ensure_future(self._sweep.run(self._greeted)) if self._sweep is not None else None
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # In the order of the list: where two failed at once, the receiver's word says most.
            for task in tasks:
                if task in done:
                    await task
        finally:
            everything = [*tasks, *([sweeping] if sweeping is not None else [])]
            for task in everything:
                task.cancel()
            await asyncio.wait(everything)

    async def _receive(self, stream: _Stream, attempt: Attempt) -> NoReturn:
        while True:
            message = await stream.receive()
            if message is None:
                raise SessionEndedError("closed by the shard")
            self._heard_s, self._frames = monotonic_s(self._clock), self._frames + 1
            self._take(message, attempt)

    def _take(self, message: shard_pb2.ShardMessage, attempt: Attempt) -> None:
        """Hand a frame on; whatever is wrong with it, the session goes on."""
        frame = frame_from_proto(message)
        match frame:
            case ShardAck():
                self._acked(frame, attempt)
            case BlobRequest():
                self._answer_soon(frame)
            case MachineNews():
                if self._sweep is not None:
                    self._sweep.named(frame.machine_id)
                self._work.news(frame)
            case ReclaimOrder():
                self._work.reclaim(frame, self._uplink)
            case CapacityHint():
                self._work.hint(frame)
            case str():
                self._log.warning("frame_dropped", why=frame)

    def _acked(self, ack: ShardAck, attempt: Attempt) -> None:
        match ack.echo:
            case "hello":
                attempt.established()
                if not self._greeted.is_set():
                    self._log.info("session_up", shard_epoch=ack.shard_epoch)
                self._greeted.set()
                self._state.greeted()
            case "rollup":
                self._state.rollup_acked()
            case "resync":
                if self._sweep is not None:
                    self._sweep.marker()

    def _answer_soon(self, request: BlobRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(request, monotonic_s(self._clock)))
        self._answers[task] = None
        task.add_done_callback(self._answers.pop)

    async def _answer(self, request: BlobRequest, arrived_s: float) -> None:
        answer = self._renderer.answer(request)
        if answer.error:
            self._log.error("bootstrap_failed", request=request.request_id, why=answer.error)
        left_s = arrived_s + BLOB_DEADLINE_S - monotonic_s(self._clock)
        if not await self._uplink.put_within(answer_frame(answer), left_s):
            self._log.warning("bootstrap_answer_dropped", request=request.request_id)

    async def _stay_alive(self) -> NoReturn:
        """Ask for a sign of life after silence, and end the session when none comes."""
        silence_s = self._options.silence_s
        while True:
            quiet_s = monotonic_s(self._clock) - self._heard_s
            if quiet_s < silence_s:
                await self._clock.sleep(silence_s - quiet_s)
                continue
            frames = self._frames
            self._uplink.greet(hello_frame(self._options.cluster))
            await self._clock.sleep(silence_s)
            if self._frames == frames:
                raise SessionEndedError(f"the shard was silent for {quiet_s + silence_s:.0f} s")
