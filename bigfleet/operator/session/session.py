"""One session with the shard: a stream, from hello to its end.

The receiver, the sender, the roll-up loop and the liveness check share the stream; the first of them to fail ends the session.
Must never: wait in the receiver for anything but the stream, or end because of an unknown frame, a handler that failed, or a
roll-up without an ack, which would be rejected again.
Rules: `operator#session`, `operator#outbox`, `operator#frame-dispatch`; ADR-0074.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

import structlog

from bigfleet.aio.backoff import Attempt
from bigfleet.aio.clock import NANOSECONDS, Clock, monotonic_s, timeout
from bigfleet.aio.net import BidiStream, DialOptions, Net
from bigfleet.model.errors import BigFleetError
from bigfleet.model.frames import BlobRequest, CapacityHint, NodeStateUpdate, ReclaimOrder, ShardAck
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.core.bootstrap import Renderer
from bigfleet.operator.dispatch import TaskDispatcher
from bigfleet.operator.options import BLOB_DEADLINE_S, GREETING_S, OperatorOptions
from bigfleet.operator.rollup_loop import RollupLoop
from bigfleet.operator.session.uplink import Uplink
from bigfleet.transport.shard_session import SESSION
from bigfleet.v1alpha1 import shard_pb2
from bigfleet.wire.operator_frames import answer_frame, frame_from_proto, hello_frame

_Stream = BidiStream[bytes, shard_pb2.ShardMessage]


class SessionEndedError(BigFleetError):
    """The shard closed the stream, or fell silent."""


class SessionState:
    """What the rest of the process knows about the session."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock, self._metrics = clock, metrics
        self.is_up = False
        self.down_since_s: float | None = None
        self.last_error = "not connected yet"

    def greeted(self) -> None:
        """Record that the shard has accepted our hello."""
        self.is_up = True
        self._metrics.gauge("bigfleet_operator_session_up").set(1)

    def rollup_acked(self) -> None:
        """Record that the shard has accepted a roll-up."""
        self._metrics.gauge("bigfleet_operator_last_ack_timestamp_seconds").set(
            self._clock.wall_ns() / NANOSECONDS
        )

    def ended(self, why: str) -> None:
        """Record that the session is over."""
        if self.is_up:
            self.down_since_s = monotonic_s(self._clock)
        self.is_up, self.last_error = False, why
        self._metrics.gauge("bigfleet_operator_session_up").set(0)


class ShardSession:
    """Runs one session."""

    def __init__(
        self,
        options: OperatorOptions,
        net: Net,
        *,
        dispatch: TaskDispatcher,
        rollups: RollupLoop,
        renderer: Renderer,
        state: SessionState,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._options, self._net, self._dispatch, self._rollups = options, net, dispatch, rollups
        self._renderer, self._state, self._clock, self._metrics = renderer, state, clock, metrics
        self._uplink = Uplink(clock, metrics)
        self._greeted = asyncio.Event()
        self._heard_s, self._frames = monotonic_s(clock), 0
        self._answers: dict[asyncio.Task[None], None] = {}
        self._sweep = dispatch.sweep()
        self._log = structlog.get_logger("bigfleet.operator")

    async def run(self, attempt: Attempt) -> None:
        """Dial, send hello, and run until an error ends the session; the error is raised."""
        channel = self._net.dial(self._options.shard_addr, DialOptions(fresh_ca=True))
        try:
            async with channel.bidi(SESSION) as stream:
                await stream.send(hello_frame(self._options.cluster))
                await self._exchange(stream, attempt)
        finally:
            for task in list(self._answers):
                task.cancel()
            await channel.close()

    async def _exchange(self, stream: _Stream, attempt: Attempt) -> None:
        activities: list[Coroutine[Any, Any, object]] = [
            self._receive(stream, attempt),
            self._uplink.run(stream),
            self._send_rollups(),
            self._stay_alive(),
        ]
        tasks = [asyncio.ensure_future(activity) for activity in activities]
        sweeping = asyncio.ensure_future(self._sweep.run(self._greeted)) if self._sweep is not None else None
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # In the order of the list: if two failed at once, the error of the receiver says most.
            for task in tasks:
                if task in done:
                    await task
        finally:
            everything = [*tasks, *([sweeping] if sweeping is not None else [])]
            for task in everything:
                task.cancel()
            await asyncio.wait(everything)

    async def _send_rollups(self) -> NoReturn:
        # What the shard understands decides what is told; told otherwise first, demand would change twice with each session.
        try:
            async with timeout(self._clock, GREETING_S):
                await self._greeted.wait()
        except TimeoutError:
            pass
        await self._rollups.run(self._uplink)

    async def _receive(self, stream: _Stream, attempt: Attempt) -> NoReturn:
        while True:
            message = await stream.receive()
            if message is None:
                raise SessionEndedError("closed by the shard")
            self._heard_s, self._frames = monotonic_s(self._clock), self._frames + 1
            self._handle(message, attempt)

    def _handle(self, message: shard_pb2.ShardMessage, attempt: Attempt) -> None:
        """Pass a frame on; a bad one is logged and the session goes on."""
        frame = frame_from_proto(message)
        match frame:
            case ShardAck():
                self._acked(frame, attempt)
            case BlobRequest():
                self._answer_soon(frame)
            case NodeStateUpdate():
                if self._sweep is not None:
                    self._sweep.named(frame.machine_id)
                self._dispatch.node_state(frame)
            case ReclaimOrder():
                self._dispatch.reclaim(frame, self._uplink)
            case CapacityHint():
                self._dispatch.hint(frame)
            case str():
                self._log.warning("frame_dropped", why=frame)

    def _acked(self, ack: ShardAck, attempt: Attempt) -> None:
        match ack.echo:
            case "hello":
                if not self._greeted.is_set():
                    self._log.info("session_up", shard_epoch=ack.shard_epoch)
                    self._rollups.understood(ack.features)
                self._greeted.set()
                self._state.greeted()
            case "rollup":
                attempt.established()
                self._state.rollup_acked()
                self._rollups.accepted()
            case "rollup-refused":
                self._rollups.refused(ack.problem)
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
        """Send a hello after silence, and end the session if the shard stays silent."""
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
