"""The gRPC service that operators dial: one stream per cluster.

Why: a large roll-up takes long to read, and a bootstrap blob must never wait behind one. So roll-ups have a lane of their
own; every other frame is handled as it arrives.
Must never: let a frame of one session reach another cluster, or end the process because of what a peer sent.
Rules: `shard#session-opening`, `shard#two-lanes`, `shard#rollup-ingest`, `shard#session-closing`, `wire#session`,
`wire#codes`, `wire#identity`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from bigfleet.aio.identity import SCHEME, Role
from bigfleet.aio.net import Call, Code, IdentityRefusedError, RpcError, RpcRefusedError, ServerStream
from bigfleet.aio.service import BoundService, ServiceSpec
from bigfleet.model.errors import InvalidFieldError
from bigfleet.shard.context import ShardContext
from bigfleet.shard.session.operator_session import OperatorSession
from bigfleet.shard.session.rollup_intake import RollupIntake
from bigfleet.shard.session.sessions import Sessions
from bigfleet.v1alpha1 import shard_pb2 as pb
from bigfleet.wire import session_frames
from bigfleet.wire.session_frames import (
    Blob,
    Hello,
    OperatorFrame,
    ReclaimStarted,
    RollupBytes,
    read_operator_frame,
)

SHARD: Final = ServiceSpec(pb.DESCRIPTOR.services_by_name["Shard"])

READ_ASIDE_BYTES: Final = 256 * 1024
"""A larger roll-up is read in a thread, to keep the event loop free."""

REFUSAL_KEY: Final = "refusal"
"""Only the newest refusal waits for an operator that does not read."""

Stream = ServerStream[bytes, OperatorFrame]


class SessionService:
    """Serves `bigfleet.v1alpha1.Shard`."""

    def __init__(
        self,
        context: ShardContext,
        sessions: Sessions,
        intake: RollupIntake,
        *,
        may_open: Callable[[], bool],
    ) -> None:
        self._clock, self._ids, self._outbox_limit = context.clock, context.ids, context.options.outbox_limit
        self._metrics, self._log = context.metrics, context.log
        self._sessions, self._intake, self._may_open = sessions, intake, may_open

    def bound(self) -> BoundService:
        """The service to be served; its frames are decoded, except for roll-ups."""
        return SHARD.bind(self).decoded_by("Session", read_operator_frame)

    async def session(self, stream: Stream, call: Call) -> None:
        """Serve one operator until either side ends the stream."""
        cluster = await self._opening(stream, call)
        session = OperatorSession(cluster, clock=self._clock, ids=self._ids, outbox_limit=self._outbox_limit)
        self._sessions.install(session)
        lane = _RollupLane(session, self._intake, self._sessions)
        self._log.info("session_opened", cluster=cluster, peer=call.peer.address)
        loop = asyncio.get_running_loop()
        session.send(self._sessions.acknowledge(session_frames.HELLO_ECHO))
        parts = (
            loop.create_task(_send(session, stream), name=f"session {cluster} sender"),
            loop.create_task(self._receive(session, stream, lane), name=f"session {cluster} receiver"),
            loop.create_task(self._sessions.resync(session), name=f"session {cluster} resync"),
        )
        try:
            # Any: their results differ.
            until: list[asyncio.Future[Any]] = [*parts[:2], session.ended]
            await asyncio.wait(until, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First, so that no action begins to wait for an answer on it.
            self._sessions.remove(session)
            session.end(RpcRefusedError(Code.UNAVAILABLE, "the session ended"))
            for part in (*parts, *lane.tasks):
                part.cancel()
            await asyncio.wait(parts)
        self._raise_end(session, parts[:2])

    def _raise_end(self, session: OperatorSession, parts: "tuple[asyncio.Task[None], ...]") -> None:
        """Log how the session ended; raise the status for the peer, if any."""
        for part in parts:
            error = None if part.cancelled() else part.exception()
            if isinstance(error, RpcRefusedError):
                self._log.warning("session_refused", cluster=session.cluster, why=error.detail)
                raise error
            if error is not None and not isinstance(error, RpcError):
                raise error
        why = session.ended.result()
        if why.code is Code.RESOURCE_EXHAUSTED:
            self._metrics.counter("bigfleet_shard_session_overflows_total").inc()
            self._log.error("session_overflowed", cluster=session.cluster, why=why.detail)
        else:
            self._log.info("session_ended", cluster=session.cluster, why=why.detail)
        if why.code is not Code.UNAVAILABLE:
            raise why

    async def _opening(self, stream: Stream, call: Call) -> str:
        """The cluster of a stream, from its first frame, checked against the certificate."""
        first = await stream.receive()
        if not isinstance(first, Hello) or not first.cluster:
            raise RpcRefusedError(
                Code.INVALID_ARGUMENT, "the first frame of a session must be Hello with a cluster id"
            )
        cluster, peer = first.cluster, call.peer
        holder = None if peer.identity is None else (peer.identity.role, peer.identity.id)
        if peer.secured and holder != (Role.CLUSTER, cluster):
            self._metrics.counter("bigfleet_shard_session_identity_rejected_total").inc()
            presented = str(peer.identity) if peer.identity else peer.problem
            self._log.error(
                "session_identity_rejected", cluster=cluster, peer=peer.address, presented=presented
            )
            raise IdentityRefusedError(
                f"this session is for {SCHEME}cluster/{cluster}; presented: {presented}"
            )
        if not self._may_open():
            raise RpcRefusedError(Code.UNAVAILABLE, "the shard is stopping")
        return cluster

    async def _receive(self, session: OperatorSession, stream: Stream, lane: "_RollupLane") -> None:
        while (frame := await stream.receive()) is not None:
            match frame:
                case RollupBytes():
                    lane.put(frame.data)
                case Blob():
                    session.blob_arrived(frame)
                case ReclaimStarted():
                    took_s = session.reclaim_started(frame)
                    if took_s is not None:
                        self._log.debug(
                            "reclaim_started", cluster=session.cluster, nodes=frame.nodes, took_s=took_s
                        )
                case Hello():
                    if frame.cluster != session.cluster:
                        raise RpcRefusedError(
                            Code.INVALID_ARGUMENT,
                            f"Hello for {frame.cluster!r} on the session of {session.cluster!r}",
                        )
                    session.send(self._sessions.acknowledge(session_frames.HELLO_ECHO))
                case _:
                    self._log.warning("frame_without_payload", cluster=session.cluster)


async def _send(session: OperatorSession, stream: Stream) -> None:
    while True:
        await stream.send(await session.outbox.take())


class _RollupLane:
    """Reads roll-ups one at a time; a newer one replaces the waiting one, which then gets no acknowledgement."""

    def __init__(self, session: OperatorSession, intake: RollupIntake, sessions: Sessions) -> None:
        self._session, self._intake, self._sessions = session, intake, sessions
        self._reader = intake.reader(session.cluster)
        self._waiting: bytes | None = None
        self._working: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> "tuple[asyncio.Task[None], ...]":
        return () if self._working is None else (self._working,)

    def put(self, data: bytes) -> None:
        """Read a roll-up now, or queue it."""
        if self._working is not None and not self._working.done():
            self._waiting = data
        elif len(data) <= READ_ASIDE_BYTES:
            self._take(data)
        else:
            self._waiting = data
            self._working = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._waiting is not None and self._session.is_open:
            data, self._waiting = self._waiting, None
            try:
                rollup = await asyncio.to_thread(self._reader.read, data)
            except InvalidFieldError as error:
                self._refuse(error)
                continue
            if self._session.is_open:
                self._intake.take(rollup)
                self._session.send(self._sessions.acknowledge(session_frames.ROLLUP_ECHO))

    def _take(self, data: bytes) -> None:
        try:
            rollup = self._reader.read(data)
        except InvalidFieldError as error:
            self._refuse(error)
            return
        self._intake.take(rollup)
        self._session.send(self._sessions.acknowledge(session_frames.ROLLUP_ECHO))

    def _refuse(self, error: InvalidFieldError) -> None:
        self._intake.refused(self._session.cluster, error)
        self._session.send(self._sessions.refuse_rollup(str(error)), REFUSAL_KEY)
