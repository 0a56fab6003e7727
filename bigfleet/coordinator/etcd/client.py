"""A client of etcd: one member at a time, the next one after a failure, and an honest word on what may have happened.

Why: the log needs to know whether a refused write was certainly not carried out; client libraries repeat calls or hide that
(ADR-0290).
Must never: repeat a write by itself, put a password or token into an error or a log, or go on after etcd has lost revisions
that this process has seen: then it was restored from a backup, and acknowledged writes are missing.
Rules: `coordinator#etcd-client`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.net import (
    Channel,
    Code,
    DialOptions,
    Metadata,
    Net,
    NotConnectedError,
    RedialPolicy,
    RpcError,
)
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.etcd.calls import (
    ALARMS,
    AUTHENTICATE,
    GRANT,
    KEEP_ALIVE,
    RANGE,
    REVOKE,
    STATUS,
    TXN,
    WATCH,
)
from bigfleet.coordinator.log import FatalLogError
from bigfleet.etcd.v3 import etcd_pb2 as pb
from bigfleet.model.errors import BigFleetError

Request = TypeVar("Request")
Response = TypeVar("Response")

CALL_S: Final = 1.0
"""How long one member may take to answer before the next one is asked; a healthy one takes milliseconds."""
# One client per replica, and a member that returns is needed at once.
_REDIAL: Final = RedialPolicy(first_s=0.1, ceiling_s=1.0, connect_timeout_s=2.0)
# Answers: 16 entries of 256 KiB, or what etcd tells of a watch in one piece.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024

_ELSEWHERE: Final = frozenset(
    {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN, Code.INTERNAL}
)
"""Ends of a call after which another member may know more; after a write they leave open whether it was carried out."""
_OLD_TOKEN: Final = ("etcdserver: invalid auth token", "etcdserver: revision of auth store is old")
_FULL: Final = "etcdserver: mvcc: database space exceeded"
_LEASE_GONE: Final = "etcdserver: requested lease not found"


class EtcdError(BigFleetError):
    """A call to etcd failed; `in_doubt` says that a write may have been carried out, or may yet be."""

    def __init__(self, member: str, code: Code, detail: str, *, in_doubt: bool = False) -> None:
        super().__init__(f"etcd at {member}: {code.name}: {detail}")
        self.member, self.code, self.detail, self.in_doubt = member, code, detail, in_doubt

    @property
    def is_full(self) -> bool:
        """Whether etcd takes no writes because its quota is used up."""
        return self.detail == _FULL

    @property
    def lease_is_gone(self) -> bool:
        """Whether the call named a lease that has ended."""
        return self.detail == _LEASE_GONE


class WrongStoreError(FatalLogError):
    """etcd is not the store that this process has worked with, or an older state of it; only a person can decide."""

    exit_code = 71


class StoreUser:
    """User and password; the password is read at each use, as its file may be replaced, and never shown."""

    def __init__(self, user: str, password: Callable[[], str]) -> None:
        self.user, self._password = user, password

    def __repr__(self) -> str:
        return f"StoreUser(user={self.user!r})"

    def request(self) -> pb.AuthenticateRequest:
        """Return the request for a token."""
        return pb.AuthenticateRequest(name=self.user, password=self._password())


class EtcdClient:
    """Calls to the members of one etcd cluster."""

    def __init__(
        self,
        net: Net,
        members: Sequence[str],
        clock: Clock,
        *,
        credentials: StoreUser | None = None,
        first: int = 0,
        call_s: float = CALL_S,
    ) -> None:
        """`first` is the member to begin with; replicas that begin with different ones spread their load."""
        self.members, self._net, self._clock = tuple(members), net, clock
        self._credentials, self._call_s = credentials, call_s
        self._channels: dict[str, Channel] = {}
        self._at = first % len(self.members)
        self._token: Metadata = ()
        self.cluster_id = 0
        """The id of the etcd cluster; 0 before the first answer."""
        self.revision = 0
        """The highest revision that an answer has named."""

    @property
    def member(self) -> str:
        """The member that is asked now."""
        return self.members[self._at]

    async def range(
        self, key: bytes, range_end: bytes = b"", *, limit: int = 0, revision: int = 0, within_s: float = 0.0
    ) -> pb.RangeResponse:
        """Read; linearizable unless a revision is given. Asks every member in turn, for `within_s` at least."""
        request = pb.RangeRequest(key=key, range_end=range_end, limit=limit, revision=revision)
        seen, answer = await self._read(RANGE, request, within_s)
        self._check(answer.header, seen if revision == 0 else 0)
        return answer

    async def look(self, request: pb.TxnRequest, *, within_s: float = 0.0) -> pb.TxnResponse:
        """Carry out a transaction without writes, which may therefore be asked of every member in turn."""
        seen, answer = await self._read(TXN, request, within_s)
        self._check(answer.header, seen)
        return answer

    async def write(self, request: pb.TxnRequest, *, timeout_s: float | None = None) -> pb.TxnResponse:
        """Carry out a transaction once; raises `EtcdError`, whose `in_doubt` matters."""
        seen = self.revision
        answer = await self._once(TXN, request, timeout_s or self._call_s)
        self._check(answer.header, seen)
        return answer

    async def grant(self, ttl_s: int) -> pb.LeaseGrantResponse:
        """Ask for a lease."""
        return await self._once(GRANT, pb.LeaseGrantRequest(ttl=ttl_s), self._call_s)

    async def keep_alive(self, lease: int) -> int:
        """Renew a lease; return its seconds from now, 0 if it has ended."""
        return await self._authenticated(lambda: self._keep_alive(lease))

    async def revoke(self, lease: int) -> None:
        """End a lease and with it its keys."""
        await self._once(REVOKE, pb.LeaseRevokeRequest(id=lease), self._call_s)

    async def watch(self, creates: Sequence[pb.WatchCreateRequest]) -> AsyncGenerator[pb.WatchResponse, None]:
        """Yield what etcd tells of these watches; ends with `EtcdError` when the member is lost."""
        await self._log_in()
        member = self.member
        async with self._channel(member).bidi(WATCH, metadata=self._token) as stream:
            try:
                for create in creates:
                    await stream.send(pb.WatchRequest(create_request=create))
                while (response := await stream.receive()) is not None:
                    self._check(response.header, 0)
                    yield response
            except RpcError as error:
                raise self._failed(member, error) from None
        raise self._failed(member, RpcError(Code.UNAVAILABLE, "the watch ended"))

    async def status(self, member: str) -> pb.StatusResponse:
        """Ask one member about itself."""
        channel = self._channel(member)
        try:
            reply = await channel.unary(
                STATUS, pb.StatusRequest(), timeout_s=self._call_s, metadata=self._token
            )
        except RpcError as error:
            raise EtcdError(member, error.code, error.detail) from None
        return reply.message

    async def alarms(self) -> pb.AlarmResponse:
        """Ask for the alarms of the cluster."""
        _, answer = await self._read(ALARMS, pb.AlarmRequest(), 0.0)
        return answer

    def elsewhere(self) -> None:
        """Ask the next member from now on."""
        self._at = (self._at + 1) % len(self.members)

    async def close(self) -> None:
        """Close all connections."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _read(
        self, method: UnaryMethod[Request, Response], request: Request, within_s: float
    ) -> tuple[int, Response]:
        """Ask the members in turn until one answers: each at least once, and for as long as given."""
        give_up_s = monotonic_s(self._clock) + within_s
        asked = 0
        while True:
            seen = self.revision
            try:
                return seen, await self._once(method, request, self._call_s)
            except EtcdError as error:
                asked += 1
                late = monotonic_s(self._clock) >= give_up_s
                if error.code not in _ELSEWHERE or (late and asked >= len(self.members)):
                    raise
            if asked % len(self.members) == 0:
                await self._clock.sleep(0.05)

    async def _once(
        self, method: UnaryMethod[Request, Response], request: Request, timeout_s: float
    ) -> Response:
        async def call() -> Response:
            member = self.member
            try:
                reply = await self._channel(member).unary(
                    method, request, timeout_s=timeout_s, metadata=self._token
                )
            except RpcError as error:
                raise self._failed(member, error) from None
            return reply.message

        return await self._authenticated(call)

    async def _authenticated(self, call: Callable[[], Awaitable[Response]]) -> Response:
        """Call with a token, once again with a new one if etcd has forgotten it: it refuses before it does anything."""
        await self._log_in()
        try:
            return await call()
        except EtcdError as error:
            if self._credentials is None or error.detail not in _OLD_TOKEN:
                raise
        self._token = ()
        await self._log_in()
        return await call()

    async def _log_in(self) -> None:
        if self._credentials is None or self._token:
            return
        member = self.member
        try:
            reply = await self._channel(member).unary(
                AUTHENTICATE, self._credentials.request(), timeout_s=self._call_s
            )
        except RpcError as error:
            failed = self._failed(member, error)
            raise EtcdError(member, failed.code, failed.detail) from None  # nothing was written yet
        self._token = (("token", reply.message.token),)

    async def _keep_alive(self, lease: int) -> int:
        member = self.member
        try:
            async with (
                timeout(self._clock, self._call_s),
                self._channel(member).bidi(KEEP_ALIVE, metadata=self._token) as stream,
            ):
                await stream.send(pb.LeaseKeepAliveRequest(id=lease))
                answer = await stream.receive()
        except RpcError as error:
            raise self._failed(member, error) from None
        except TimeoutError:
            late = RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {self._call_s:g} s")
            raise self._failed(member, late) from None
        return 0 if answer is None else answer.ttl

    def _failed(self, member: str, error: RpcError) -> EtcdError:
        if error.code in _ELSEWHERE and member == self.member:
            self.elsewhere()
        in_doubt = error.code in _ELSEWHERE and not isinstance(error, NotConnectedError)
        return EtcdError(member, error.code, error.detail, in_doubt=in_doubt)

    def _check(self, header: pb.ResponseHeader, seen: int) -> None:
        """Compare an answer with what was known when the call began; raises `WrongStoreError`."""
        if self.cluster_id and header.cluster_id != self.cluster_id:
            raise WrongStoreError(
                f"etcd cluster: found {header.cluster_id:x} at one of {', '.join(self.members)}, "
                f"allowed is {self.cluster_id:x}, that of the others"
            )
        self.cluster_id = header.cluster_id
        if header.revision < seen:
            raise WrongStoreError(
                f"etcd revision: found {header.revision}, allowed is at least {seen}, which this process has seen; "
                "etcd was restored from an older backup"
            )
        self.revision = max(self.revision, header.revision)

    def _channel(self, member: str) -> Channel:
        channel = self._channels.get(member)
        if channel is None:
            options = DialOptions(max_message_bytes=MAX_ANSWER_BYTES, redial=_REDIAL)
            channel = self._channels[member] = self._net.dial(member, options)
        return channel
