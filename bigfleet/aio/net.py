"""The network seam: dialling and serving, without naming a transport.

Why: shard, coordinator, operator and provider code is written against these protocols alone, so that it runs on gRPC
(`bigfleet.transport.grpc_net`) and, unchanged, inside one thread on virtual time (`bigfleet.testing.net.network`).
Services and methods are described in `bigfleet.aio.service`.
Must never: import a transport, or offer what one of the two forms cannot keep: order within a stream, back-pressure,
deadlines, message limits, status codes, trailing metadata, cancellation on disconnect.
Rules: `testing#constructor-seams`, `testing#message-fidelity`, `wire#conventions`, `wire#codes`, `shard#large-listings`.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeAlias, TypeVar

from bigfleet.aio.identity import Identity
from bigfleet.aio.service import BidiMethod, BoundService, ServerStreamMethod, UnaryMethod
from bigfleet.model.errors import BigFleetError, InvalidFieldError

MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
"""Limit of every edge, both directions, unless the caller says otherwise (`wire#conventions`)."""
PROVIDER_MAX_MESSAGE_BYTES: Final = 1024 * 1024 * 1024
"""Limit of provider edges: a listing of 500,000 bound machines is larger than 256 MiB (`shard#large-listings`)."""

CONNECTION_AGE_S: Final = 1800.0
"""A certificate that is renewed more than half an hour before its end is never shown on a connection after it."""

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
"""Keys in lower case; bytes only under keys that end in `-bin`."""

Request = TypeVar("Request")
Response = TypeVar("Response")
Out_contra = TypeVar("Out_contra", contravariant=True)
In_co = TypeVar("In_co", covariant=True)
T = TypeVar("T")


class Code(IntEnum):
    """The status codes of gRPC, by their numbers on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(BigFleetError):
    """A call ended with a status other than OK; what a client sees."""

    def __init__(self, code: Code, detail: str, trailing: Metadata = ()) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code, self.detail, self.trailing = code, detail, trailing


class NotConnectedError(RpcError):
    """A call ended because no connection could be made, so the peer did not receive it; always UNAVAILABLE."""

    def __init__(self, detail: str) -> None:
        super().__init__(Code.UNAVAILABLE, detail)


class RpcRefusedError(BigFleetError):
    """A handler ends its call with a status; what a service raises.

    It is no `RpcError` on purpose: an error that a handler received from another process must not be passed on as its own,
    as FAILED_PRECONDITION means "fenced" from a provider and "not leader" from a coordinator.
    """

    def __init__(self, code: Code, detail: str, trailing: Metadata = ()) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code, self.detail, self.trailing = code, detail, trailing


class IdentityRefusedError(RpcRefusedError):
    """A gate did not let the peer through; counted and logged apart from other refusals."""

    def __init__(self, detail: str) -> None:
        super().__init__(Code.PERMISSION_DENIED, detail)


class ListenError(BigFleetError):
    """An address cannot be listened on."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"cannot listen on {address}: {problem}")
        self.address, self.problem = address, problem


class ClosedError(BigFleetError):
    """A channel, server or stream of this process was used after it was closed here."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The far end of a call, in the three-way form of `wire#identity`.

    Not secured: plaintext, every gate is skipped. Secured with an identity: gates compare. Secured without one: every
    gate refuses, and `problem` says why.
    """

    address: str
    secured: bool = False
    identity: Identity | None = None
    problem: str = ""
    certificate_ends_ns: int | None = None
    """When the certificate ends, by the wall clock; None on plaintext and inside one process."""


class Call(Protocol):
    """What a handler may know and say about the call it serves."""

    @property
    def method(self) -> str:
        """The path, `/package.Service/Method`."""
        ...

    @property
    def peer(self) -> Peer: ...

    @property
    def metadata(self) -> Metadata: ...

    def time_remaining_s(self) -> float | None:
        """Seconds until the caller's deadline; None when the caller set none."""
        ...

    def set_trailing(self, metadata: Metadata) -> None:
        """Set the metadata that travels with the status, OK or not; the last call counts."""
        ...

    def cancelled(self) -> bool:
        """True once the caller has gone; the handler's task is cancelled too."""
        ...


class ServerStream(Protocol[Out_contra, In_co]):
    """The server's half of a bidirectional stream; one reader and one writer may work at the same time."""

    async def receive(self) -> In_co | None:
        """Return the next message in order, None after the peer's half-close. Giving up the wait loses nothing."""
        ...

    def __aiter__(self) -> AsyncIterator[In_co]: ...

    async def send(self, message: Out_contra) -> None:
        """Hand over one message; waits while the peer does not read."""
        ...


class Responses(Protocol[In_co]):
    """The client's half of a server stream. Leaving its context cancels what has not ended."""

    async def receive(self) -> In_co | None:
        """Return the next message in order, None after a good end; any other end raises `RpcError`.

        Giving up the wait loses no message and leaves the call as it is.
        """
        ...

    def __aiter__(self) -> AsyncIterator[In_co]: ...

    async def trailing(self) -> Metadata:
        """Return the trailing metadata; waits for the end of the call."""
        ...

    def cancel(self) -> None:
        """Give up the call; a waiting `receive` raises `RpcError` with CANCELLED."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class BidiStream(Responses[In_co], Protocol[Out_contra, In_co]):
    """The client's half of a bidirectional stream; one reader and one writer may work at the same time."""

    async def send(self, message: Out_contra) -> None:
        """Hand over one message; waits while the peer does not read; raises the call's `RpcError` once it has ended.

        A send that is cancelled half way ends the call: whether the message was sent is unknown.
        """
        ...

    async def done_sending(self) -> None:
        """Half-close: no more messages from here, answers still come."""
        ...


@dataclass(frozen=True, slots=True)
class RpcReply(Generic[T]):
    """The good answer to a unary call."""

    message: T
    trailing: Metadata = ()


class Channel(Protocol):
    """A way to one target; connects by itself, and again after a loss. Calls on it are independent."""

    async def unary(
        self,
        method: UnaryMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> RpcReply[Response]:
        """Ask once, answer or `RpcError` within the time given. Never repeats a call by itself."""
        ...

    def server_stream(
        self,
        method: ServerStreamMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float | None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> Responses[Response]: ...

    def bidi(
        self,
        method: BidiMethod[Request, Response],
        *,
        timeout_s: float | None = None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> BidiStream[Request, Response]: ...

    def connectivity(self) -> AsyncIterator[bool]:
        """Yield each change: True once connected, False once the connection was lost or could not be made.

        While it is read, a lost connection is dialled again without a call. It ends when the channel is closed. A reader
        that comes back late sees the newest state, not every state between.
        """
        ...

    async def close(self) -> None:
        """End every call on the channel; later calls raise `ClosedError`."""
        ...


class Health(Protocol):
    """The board behind grpc.health.v1 of one server."""

    def set_serving(self, service: str, serving: bool) -> None:
        """Set the status of one service by its full name and notify watchers."""
        ...


class RpcServer(Protocol):
    """A listener that serves."""

    @property
    def port(self) -> int:
        """The port really bound."""
        ...

    @property
    def health(self) -> Health: ...

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, let running ones finish within the grace, cancel the rest."""
        ...


@dataclass(frozen=True, slots=True)
class RedialPolicy:
    """How soon a channel dials a lost connection again: the first time, at most, and how long one dial may take.

    The defaults suit a peer with thousands of clients, which must not all come at once when it returns.
    """

    first_s: float = 0.5
    ceiling_s: float = 30.0
    """Before the scatter that the transport adds to every wait, up to a fifth."""
    connect_timeout_s: float = 20.0
    """A dial whose packets are lost is given up after this time, and the next one begins."""

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.ceiling_s:
            raise InvalidFieldError(
                "first_s", self.first_s, f"more than 0, at most ceiling_s ({self.ceiling_s})"
            )
        if self.connect_timeout_s <= 0:
            raise InvalidFieldError("connect_timeout_s", self.connect_timeout_s, "more than 0")


PROVIDER_REDIAL: Final = RedialPolicy(first_s=0.2, ceiling_s=1.0, connect_timeout_s=5.0)
"""For a peer with one client: connected again within 2 s of its return (`shard#provider-reconnect`)."""


@dataclass(frozen=True, slots=True)
class DialOptions:
    max_message_bytes: int = MAX_MESSAGE_BYTES
    redial: RedialPolicy = RedialPolicy()
    server_name: str = ""
    """Name the peer's certificate must carry, where it is not the host of the target."""
    fresh_ca: bool = False
    """Read the CA bundle again for this dial, as the operator does (`operator#reconnect-delays`); others read it once."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_concurrent_streams: int = 4096
    """Per connection. One operator needs one; a dashboard a few; a limit keeps one peer from taking all memory."""
    max_connection_idle_s: float | None = None
    """After how long a connection without calls is closed; None keeps it, as pings detect a dead peer."""
    max_connection_age_s: float | None = CONNECTION_AGE_S
    """At which age a secured connection takes no new calls, and its client connects again (`wire#tls-ended`); None for any."""
    reflection: bool = False
    statuses: Mapping[type[BigFleetError], Code] = field(default_factory=dict)
    """Rows of the process's own errors, added to the table of `bigfleet.transport.status`."""


class Net(Protocol):
    """The network of one process: its way out, its listeners, its certificate."""

    def dial(self, target: str, options: DialOptions = ...) -> Channel:
        """Return a channel to `host:port`; never waits and never fails for a peer that is away."""
        ...

    async def serve(
        self, address: str, services: Sequence[BoundService], options: ServeOptions = ...
    ) -> RpcServer:
        """Listen and serve, health included; `ListenError` when the address is not available."""
        ...


@dataclass(frozen=True, slots=True)
class ServerHooks:
    """Callbacks of a process for what its servers refuse or fail at, for metrics and logs."""

    on_identity_refused: Callable[[str, Peer, str], None]
    """(method path, peer, why): a gate refused."""
    on_defect: Callable[[str, BaseException], None]
    """(method path, exception): a handler raised an unexpected error; the peer got a generic text."""
