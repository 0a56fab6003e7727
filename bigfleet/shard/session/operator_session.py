"""One operator's session: its outbox, and the requests that wait for an answer.

Why: no part of the shard may wait for an operator to read. Frames go into the outbox; a blob request waits under a
deadline, and fails at once when the session ends.
Must never: block a caller, answer one request twice, or outlive its stream.
Rules: `shard#bootstrap-request`, `shard#reclaim-instruction`, `shard#outbox`, `shard#session-closing`.
"""

import asyncio
from dataclasses import dataclass

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.ids import Ids
from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.aio.outbox import Outbox, OutboxFullError
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import Machine
from bigfleet.model.profile import Profile
from bigfleet.wire import session_frames
from bigfleet.wire.session_frames import Blob, ReclaimStarted


class SessionGoneError(BigFleetError):
    """The session ended before the answer came."""


@dataclass(frozen=True, slots=True)
class _Instructed:
    at_s: float
    forget_at_s: float


class OperatorSession:
    """One stream of one cluster."""

    def __init__(self, cluster: str, *, clock: Clock, ids: Ids, outbox_limit: int) -> None:
        self.cluster, self._clock, self._ids = cluster, clock, ids
        self.outbox = Outbox(outbox_limit)
        self.ended: asyncio.Future[RpcRefusedError] = asyncio.get_running_loop().create_future()
        self.resync_due = True
        """Whether the operator still has to get the states of all its machines."""
        self._waiting: dict[str, asyncio.Future[Blob]] = {}
        self._instructed: dict[str, _Instructed] = {}

    @property
    def is_open(self) -> bool:
        return not self.ended.done()

    @property
    def awaits_answers(self) -> bool:
        """Whether requests wait for the operator."""
        return bool(self._waiting)

    def end(self, why: RpcRefusedError) -> None:
        """End the stream with a status, and fail the waiting requests. The first reason counts."""
        if not self.ended.done():
            self.ended.set_result(why)
        self.give_up_waiting(why.detail)

    def give_up_waiting(self, why: str) -> None:
        """Fail the requests that wait for an answer."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(SessionGoneError(why))

    def send(self, frame: bytes, supersedes: str = "") -> None:
        """Queue a frame without waiting. A peer whose outbox is full loses its session."""
        if not self.is_open:
            return
        try:
            self.outbox.put(frame, supersedes)
        except OutboxFullError as error:
            self.end(RpcRefusedError(Code.RESOURCE_EXHAUSTED, str(error)))

    def send_node_state(self, machine: Machine) -> None:
        """Queue the state of a machine; it replaces an older queued one."""
        frame = session_frames.node_state(machine, self.cluster)
        self.send(frame, session_frames.node_state_key(machine.id))

    async def request_blob(self, profile: Profile, machine_id: str, timeout_s: float) -> Blob:
        """Request a machine's bootstrap blob; raises `TimeoutError` or `SessionGoneError` when it does not come."""
        if not self.is_open:
            raise SessionGoneError("the session ended")
        request_id = self._ids.request()
        answer: asyncio.Future[Blob] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        self.send(session_frames.bootstrap_request(request_id, profile, self.cluster, machine_id))
        try:
            async with timeout(self._clock, timeout_s):
                return await answer
        finally:
            self._waiting.pop(request_id, None)
            answer.cancel()

    def blob_arrived(self, blob: Blob) -> bool:
        """Pass an answer to its request; False for a late or second answer."""
        answer = self._waiting.pop(blob.request_id, None)
        if answer is None or answer.done():
            return False
        answer.set_result(blob)
        return True

    def instruct(self, machine: Machine, grace_s: int, preemptor_priority: int) -> None:
        """Queue an instruction to drain the node of a machine; no caller waits for the acknowledgement."""
        now_s, instruction_id = monotonic_s(self._clock), self._ids.instruction()
        expired = [name for name, sent in self._instructed.items() if sent.forget_at_s <= now_s]
        for name in expired:
            del self._instructed[name]
        self._instructed[instruction_id] = _Instructed(now_s, now_s + grace_s)
        self.send(
            session_frames.reclaim_instruction(
                instruction_id, [machine], grace_s=grace_s, preemptor_priority=preemptor_priority
            )
        )

    def reclaim_started(self, ack: ReclaimStarted) -> float | None:
        """How long the operator took to begin; None for an unknown instruction."""
        sent = self._instructed.pop(ack.instruction_id, None)
        return None if sent is None else monotonic_s(self._clock) - sent.at_s
