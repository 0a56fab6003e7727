"""The gRPC service that operators dial: one stream per cluster.

Why: a large roll-up takes long to read, and a bootstrap blob must never wait behind one. So roll-ups have a lane of their
own (`rollup_lanes`); every other frame is handled as it arrives.
Must never: let a frame of one session reach another cluster, end the process because of what a peer sent, or look into a frame
before the certificate.
Rules: `shard#session-opening`, `shard#two-lanes`, `shard#rollup-ingest`, `shard#ingest-share`, `shard#session-age`,
`shard#session-closing`, `wire#session`, `wire#codes`, `wire#identity`.
"""

import asyncio
from collections.abc import Callable
from traceback import clear_frames
from typing import Any, Final, NoReturn

from google.protobuf.message import DecodeError

from bigfleet.aio.clock import monotonic_s
from bigfleet.aio.identity import SCHEME, Role
from bigfleet.aio.net import Call, Code, IdentityRefusedError, Peer, RpcError, RpcRefusedError, ServerStream
from bigfleet.aio.service import BoundService, ServiceSpec
from bigfleet.model.errors import InvalidFieldError, cut
from bigfleet.obs.limited_log import LimitedLog
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.ingest_shares import IngestShares
from bigfleet.shard.session.openings import CrowdedOutError, Openings
from bigfleet.shard.session.operator_session import OperatorSession
from bigfleet.shard.session.refusals import SessionRefusal, SessionRefusedError
from bigfleet.shard.session.rollup_intake import RollupIntake
from bigfleet.shard.session.rollup_lanes import RollupLane, RollupLanes
from bigfleet.shard.session.session_life import SessionLife
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

FIRST_FRAME_BYTES: Final = 64 * 1024
"""A Hello is a cluster id and a version, some dozens of bytes; what is longer is none, and is not read."""
CLUSTER_ID_CHARACTERS: Final = 253
"""What Kubernetes allows for a name; the id is a key of tables and a label of metrics."""
OPENED_ASIDE_BYTES: Final = 1024 * 1024
"""A larger frame is opened in a thread: copying it takes milliseconds in which no other cluster would be served."""

_FRAME_S, _BYTE_S = 0.0002, 1e-9
"""What it costs to take a frame from the gRPC library, which cannot be measured around a wait."""
_OPENING_S = 0.05
"""What a session costs beside its frames: the states of its machines are written and sent again."""

Stream = ServerStream[bytes, bytes]


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
        options = context.options
        self._clock, self._ids, self._outbox_limit = context.clock, context.ids, options.outbox_limit
        self._metrics, self._log = context.metrics, LimitedLog(context.log, context.clock, about="cluster")
        self._sessions, self._may_open, self._max_sessions = sessions, may_open, options.max_sessions
        self._openings = Openings(
            context.clock, within_s=options.hello_timeout_s, limit=options.max_silent_streams
        )
        self._frames = IngestShares(options.ingest_share)
        self._lanes = RollupLanes(
            intake,
            sessions,
            share=options.ingest_share,
            clock=context.clock,
            metrics=context.metrics,
            log=self._log,
        )
        self._life = SessionLife(
            options.max_session_age_s,
            clock=context.clock,
            stream=context.rng.stream("session ages"),
            metrics=context.metrics,
        )

    def bound(self) -> BoundService:
        """The service to be served; its frames come as bytes, since the certificate is looked at first."""
        return SHARD.bind(self).decoded_by("Session", bytes)

    async def session(self, stream: Stream, call: Call) -> None:
        """Serve one operator until either side ends the stream."""
        try:
            cluster = await self._opening(stream, call)
        except SessionRefusedError as error:
            self._count(error)
            self._log.warning("session_refused", error.cluster, peer=call.peer.address, why=error.detail)
            _forget_frames(error)
            raise
        session = OperatorSession(cluster, clock=self._clock, ids=self._ids, outbox_limit=self._outbox_limit)
        self._sessions.install(session)
        lane = self._lanes.lane(session)
        self._log.info("session_opened", cluster, peer=call.peer.address)
        loop = asyncio.get_running_loop()
        session.send(self._sessions.acknowledge(session_frames.HELLO_ECHO))
        parts = (
            loop.create_task(_send(session, stream), name=f"session {cluster} sender"),
            loop.create_task(self._receive(session, stream, lane), name=f"session {cluster} receiver"),
            loop.create_task(self._sessions.resync(session), name=f"session {cluster} resync"),
            loop.create_task(
                self._life.run(session, call.peer.certificate_ends_ns), name=f"session {cluster} life"
            ),
        )
        try:
            # Any: their results differ.
            until: list[asyncio.Future[Any]] = [*parts[:2], session.ended]
            await asyncio.wait(until, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First, so that no action begins to wait for an answer on it.
            self._sessions.remove(session)
            session.end(RpcRefusedError(Code.UNAVAILABLE, "the session ended"))
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
        self._raise_end(session, parts[:2])

    def _raise_end(self, session: OperatorSession, parts: "tuple[asyncio.Task[None], ...]") -> None:
        """Log how the session ended; raise the status for the peer, if any."""
        for part in parts:
            error = None if part.cancelled() else part.exception()
            if isinstance(error, SessionRefusedError):
                self._count(error)
                self._log.warning("session_refused", session.cluster, why=error.detail)
                _forget_frames(error)
                raise error
            if error is not None and not isinstance(error, RpcError):
                raise error
        why = session.ended.result()
        if why.code is Code.RESOURCE_EXHAUSTED:
            self._metrics.counter("bigfleet_shard_session_overflows_total").inc()
            self._log.error("session_overflowed", session.cluster, why=why.detail)
        else:
            self._log.info("session_ended", session.cluster, why=why.detail)
        if why.code is not Code.UNAVAILABLE:
            raise why

    def _count(self, refused: SessionRefusedError) -> None:
        self._metrics.counter("bigfleet_shard_sessions_refused_total", reason=refused.reason).inc()

    # Opening

    async def _opening(self, stream: Stream, call: Call) -> str:
        """The cluster of a stream: certificate first, then the first frame, then whether there is room."""
        peer = call.peer
        if peer.secured and (peer.identity is None or peer.identity.role is not Role.CLUSTER):
            self._refuse_identity("", peer)
        identity = str(peer.identity) if peer.secured else ""
        try:
            async with self._openings.one(identity):
                self._show_silent()
                cluster = self._cluster_of(await stream.receive(), peer)
                await self._pay(cluster, _OPENING_S)
        except CrowdedOutError:
            raise SessionRefusedError(
                SessionRefusal.CROWDED_OUT,
                "",
                "too many streams without Hello; this one was silent for longest",
            ) from None
        except TimeoutError:
            raise SessionRefusedError(
                SessionRefusal.NO_HELLO, "", "a session opens with Hello, and this one did not open in time"
            ) from None
        finally:
            self._show_silent()
        if not self._may_open():
            raise SessionRefusedError(SessionRefusal.STOPPING, cluster, "the shard is stopping")
        if self._sessions.get(cluster) is None and len(self._sessions) >= self._max_sessions:
            raise SessionRefusedError(
                SessionRefusal.FULL, cluster, f"this shard serves at most {self._max_sessions} sessions"
            )
        return cluster

    def _show_silent(self) -> None:
        self._metrics.gauge("bigfleet_shard_silent_streams").set(len(self._openings))

    def _cluster_of(self, data: bytes | None, peer: Peer) -> str:
        """The cluster that the first frame names, which must be that of the certificate."""
        if data is not None and len(data) > FIRST_FRAME_BYTES:
            raise SessionRefusedError(
                SessionRefusal.FIRST_FRAME_LARGE,
                "",
                f"the first frame of a session has {len(data)} bytes, allowed are {FIRST_FRAME_BYTES}",
            )
        first = None if data is None else self._opened(data, "")
        if not isinstance(first, Hello) or not first.cluster:
            raise SessionRefusedError(
                SessionRefusal.NOT_HELLO, "", "the first frame of a session must be Hello with a cluster id"
            )
        cluster = first.cluster
        if len(cluster) > CLUSTER_ID_CHARACTERS:
            raise SessionRefusedError(
                SessionRefusal.CLUSTER_ID,
                cluster,
                f"the cluster id has {len(cluster)} characters, allowed are {CLUSTER_ID_CHARACTERS}",
            )
        holder = None if peer.identity is None else (peer.identity.role, peer.identity.id)
        if peer.secured and holder != (Role.CLUSTER, cluster):
            self._refuse_identity(cluster, peer)
        return cluster

    def _refuse_identity(self, cluster: str, peer: Peer) -> NoReturn:
        self._metrics.counter("bigfleet_shard_session_identity_rejected_total").inc()
        self._metrics.counter("bigfleet_shard_sessions_refused_total", reason=SessionRefusal.IDENTITY).inc()
        presented = str(peer.identity) if peer.identity else peer.problem
        self._log.error("session_identity_rejected", cluster, peer=peer.address, presented=presented)
        raise IdentityRefusedError(
            f"this session is for {SCHEME}cluster/{cluster or '<cluster id>'}; presented: {presented}"
        )

    # Receiving

    async def _receive(self, session: OperatorSession, stream: Stream, lane: RollupLane) -> None:
        while (data := await stream.receive()) is not None:
            began_s = monotonic_s(self._clock)
            if len(data) > OPENED_ASIDE_BYTES:
                frame = await asyncio.to_thread(self._opened, data, session.cluster)
            else:
                frame = self._opened(data, session.cluster)
            self._handle(frame, session, lane)
            took_s = monotonic_s(self._clock) - began_s
            cost_s = _FRAME_S + len(data) * _BYTE_S + took_s
            del data, frame  # they may have 256 MiB, and the wait may be long
            await self._pay(session.cluster, cost_s)

    def _opened(self, data: bytes, cluster: str) -> OperatorFrame:
        try:
            return read_operator_frame(data)
        except DecodeError:
            raise SessionRefusedError(
                SessionRefusal.UNDECODABLE, cluster, "the frame cannot be decoded"
            ) from None
        except InvalidFieldError as error:
            raise SessionRefusedError(SessionRefusal.FIELDS, cluster, str(error)) from None

    def _handle(self, frame: OperatorFrame, session: OperatorSession, lane: RollupLane) -> None:
        match frame:
            case RollupBytes():
                lane.put(frame.data)
            case Blob():
                session.blob_arrived(frame)
            case ReclaimStarted():
                took_s = session.reclaim_started(frame)
                if took_s is not None:
                    self._log.debug("reclaim_started", session.cluster, nodes=frame.nodes, took_s=took_s)
            case Hello():
                if frame.cluster != session.cluster:
                    raise SessionRefusedError(
                        SessionRefusal.OTHER_CLUSTER,
                        session.cluster,
                        f"Hello for {cut(frame.cluster)!r} on the session of {session.cluster!r}",
                    )
                session.send(self._sessions.acknowledge(session_frames.HELLO_ECHO))
            case _:
                self._metrics.counter("bigfleet_shard_frames_without_payload_total").inc()
                self._log.warning("frame_without_payload", session.cluster)

    async def _pay(self, cluster: str, cost_s: float) -> None:
        """Charge a cluster for a frame, and let it wait with the next one while it is over its share."""
        now_s = monotonic_s(self._clock)
        self._frames.charge(cluster, cost_s, now_s)
        wait_s = self._frames.wait_s(cluster, now_s)
        if wait_s > 0:
            self._metrics.counter("bigfleet_shard_ingest_waits_total", what="frame").inc()
            await self._clock.sleep(wait_s)


def _forget_frames(error: BaseException | None) -> None:
    """Drop the local variables of the calls that ended with a refusal.

    They hold what was refused, many megabytes, and tasks and errors form cycles with them. Cycles among objects that are older
    than a second are collected once an hour only (`bigfleet.app.garbage`).
    """
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__


async def _send(session: OperatorSession, stream: Stream) -> None:
    while True:
        await stream.send(await session.outbox.take())
