"""An in-memory implementation of `bigfleet.aio.net`, for tests on virtual or real time.

Why: production code dials and serves on it unchanged, in one thread, with faults that real sockets rarely produce. Every
message is encoded and decoded; limits, deadlines, status codes, trailing metadata, order and back-pressure behave as on
gRPC (one test suite runs on both).
Must never: touch a socket, a thread or a clock other than the running loop's, or use randomness outside a link policy.
Rules: `testing#constructor-seams`, `testing#message-fidelity`, `testing#memory-network`.

Not modelled: the limit of concurrent streams per connection, reflection, and certificates. A host's identity is given when
the host is made, and the whole network is either secured or plaintext.

    network = Network(secured=True)
    shard = network.host("shard-a", Identity.shard("a"))
    operator = network.host("operator-1", Identity.cluster("one"))
    server = await shard.serve(":7780", [SHARD.bind(service)])
    channel = operator.dial("shard-a:7780")
    network.partition(["operator-1"], ["shard-a"])      # unnoticed by both, until a deadline or a ping
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from bigfleet.aio.identity import Identity
from bigfleet.aio.net import (
    ClosedError,
    Code,
    DialOptions,
    ListenError,
    Metadata,
    NotConnectedError,
    Peer,
    RpcError,
    RpcReply,
    ServeOptions,
    ServerHooks,
)
from bigfleet.aio.service import (
    BidiMethod,
    BoundMethod,
    BoundService,
    Method,
    RpcKind,
    ServerStreamMethod,
    UnaryMethod,
    encode,
)
from bigfleet.testing.net.calls import ClientEnd, ServerEnd
from bigfleet.testing.net.links import Connection, LinkPolicy, NetworkLink, SteadyLink
from bigfleet.transport.address import parse_listen
from bigfleet.transport.dispatch import Dispatcher, decode_answer, log_hooks
from bigfleet.transport.health import HEALTH, HealthService

_FIRST_FREE_PORT: Final = 40_000
_DIAL: Final = DialOptions()
_SERVE: Final = ServeOptions()
_LOOPBACK: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})

Request = TypeVar("Request")
Response = TypeVar("Response")


class Network:
    """All hosts and the links between them."""

    def __init__(self, *, secured: bool = False, policy: LinkPolicy | None = None) -> None:
        self._secured = secured
        self._policy = policy or SteadyLink()
        self._links: dict[tuple[str, str], NetworkLink] = {}
        self._servers: dict[tuple[str, int], MemoryServer] = {}
        self._names: dict[str, str] = {}
        self._connections: list[Connection] = []

    def host(
        self,
        name: str,
        identity: Identity | None = None,
        hooks: ServerHooks | None = None,
        *,
        certificate_ends_ns: int | None = None,
    ) -> "MemoryNet":
        """Return the network as a process on one host sees it; several processes may share a host."""
        problem = "" if identity or not self._secured else "no bigfleet:// URI"
        peer = Peer(name, self._secured, identity if self._secured else None, problem, certificate_ends_ns)
        return MemoryNet(self, peer, hooks or log_hooks())

    def add_name(self, name: str, host: str) -> None:
        """Let a name resolve to a host for later connections."""
        self._names[name] = host

    def link(self, source: str, target: str) -> NetworkLink:
        """Return one direction between two hosts."""
        return self._links.setdefault((source, target), NetworkLink(source, target, self._policy))

    def set_policy(self, source: str, target: str, policy: LinkPolicy) -> None:
        """Change the policy of one direction."""
        self.link(source, target).policy = policy

    def partition(self, one: Iterable[str], other: Iterable[str]) -> None:
        """Silence both directions between two groups of hosts."""
        others = list(other)
        for source in one:
            for target in others:
                self.link(source, target).silence()
                self.link(target, source).silence()

    def heal(self) -> None:
        """Restore every silent link."""
        for link in list(self._links.values()):
            link.restore()

    def reset(self, one: str, other: str) -> None:
        """Reset every connection between two hosts."""
        for connection in self._living():
            if set(connection.hosts) == {one, other}:
                connection.reset()

    def crash(self, host: str) -> None:
        """Remove a host's listeners and reset its connections, as when its processes are killed."""
        self._servers = {place: server for place, server in self._servers.items() if place[0] != host}
        for connection in self._living():
            if host in connection.hosts:
                connection.reset("the peer's process ended")

    # For hosts, channels and servers.

    def resolve(self, source: str, target: str) -> tuple[str, int]:
        address = parse_listen(target, "target")
        host = source if address.host in _LOOPBACK else self._names.get(address.host, address.host)
        return host, address.port

    def listen(self, host: str, port: int, server: "MemoryServer") -> int:
        free = next(p for p in range(_FIRST_FREE_PORT, 65536) if (host, p) not in self._servers)
        chosen = port or free
        if (host, chosen) in self._servers:
            raise ListenError(f"{host}:{chosen}", "the port is in use by another process")
        self._servers[host, chosen] = server
        return chosen

    def unlisten(self, server: "MemoryServer") -> None:
        self._servers = {place: other for place, other in self._servers.items() if other is not server}

    async def connect(self, peer: Peer, target: str, timeout_s: float) -> tuple[Connection, "MemoryServer"]:
        """Connect from a host to a target, or raise `NotConnectedError`."""
        host, port = self.resolve(peer.address, target)
        up, down = self.link(peer.address, host), self.link(host, peer.address)
        try:
            async with asyncio.timeout(timeout_s):
                for link in (up, down):  # one round trip, as a handshake has to
                    await link.until_open()
                    await asyncio.sleep(link.policy.delay_s(0))
                    await link.until_open()
        except TimeoutError:
            raise NotConnectedError(f"{target}: the attempt to connect timed out") from None
        server = self._servers.get((host, port))
        if server is None or not up.policy.accepts():
            raise NotConnectedError(f"{target}: connection refused")
        connection = Connection(peer, up, down)
        self._connections = [*self._living(), connection]
        server.connected(connection)
        return connection, server

    def _living(self) -> list[Connection]:
        return [
            connection
            for connection in self._connections
            if connection.client_alive or connection.server_alive
        ]


class MemoryNet:
    """The network of one process; see `bigfleet.aio.net.Net`."""

    def __init__(self, network: Network, peer: Peer, hooks: ServerHooks) -> None:
        self._network, self._peer, self._hooks = network, peer, hooks

    def dial(self, target: str, options: DialOptions = _DIAL) -> "MemoryChannel":
        return MemoryChannel(self._network, self._peer, target, options)

    async def serve(
        self,
        address: str,
        services: Sequence[BoundService],
        options: ServeOptions = _SERVE,
    ) -> "MemoryServer":
        place = parse_listen(address)
        dispatcher = Dispatcher(self._hooks, options.statuses, deterministic=True)
        server = MemoryServer(self._network, services, options, dispatcher)
        server.port = self._network.listen(self._peer.address, place.port, server)
        return server


class MemoryServer:
    """A listener that serves; see `bigfleet.aio.net.RpcServer`."""

    port: int

    def __init__(
        self,
        network: Network,
        services: Sequence[BoundService],
        options: ServeOptions,
        dispatcher: Dispatcher,
    ) -> None:
        self._network, self._dispatcher, self._limit = network, dispatcher, options.max_message_bytes
        self._health = HealthService(service.name for service in services)
        every = (*services, HEALTH.bind(self._health))
        self._methods = {method.path: method for service in every for method in service.methods.values()}
        self._running: dict[asyncio.Task[None], None] = {}
        self._connections: list[Connection] = []

    @property
    def health(self) -> HealthService:
        return self._health

    async def stop(self, grace_s: float) -> None:
        self._health.shut_down()
        self._network.unlisten(self)
        for connection in self._connections:
            connection.go_away()
        if self._running and grace_s > 0:
            await asyncio.wait(list(self._running), timeout=grace_s)
        left = list(self._running)
        for connection in self._connections:
            connection.close_from_server("the server has stopped")
        if left:
            await asyncio.wait(left)

    def connected(self, connection: Connection) -> None:
        self._connections = [*(other for other in self._connections if other.server_alive), connection]

    def accept(
        self,
        connection: Connection,
        client: ClientEnd,
        path: str,
        metadata: Metadata,
        timeout_s: float | None,
    ) -> ServerEnd:
        """Make the server side of a call; its handler starts when the opening frame arrives."""
        end = ServerEnd(connection, path, metadata, timeout_s, self._limit)
        connection.up.put(lambda: self._begin(end, client, connection))
        return end

    def _begin(self, end: ServerEnd, client: ClientEnd, connection: Connection) -> None:
        if not connection.server_alive:
            return  # the client does not know yet
        task = end.begin(client, self._serve)
        self._running[task] = None
        task.add_done_callback(lambda done: self._running.pop(done, None))

    async def _serve(self, end: ServerEnd) -> None:
        method = self._methods.get(end.method)
        if not end.accepted:
            raise RpcError(Code.UNAVAILABLE, "the server is stopping")
        if method is None:
            raise RpcError(Code.UNIMPLEMENTED, f"no method {end.method} here")
        if method.kind is RpcKind.BIDI:
            await self._dispatcher.bidi(method, end, end)
            return
        await self._answer(method, end)

    async def _answer(self, method: BoundMethod, end: ServerEnd) -> None:
        data = await end.receive()
        if data is None:
            raise RpcError(Code.INTERNAL, "the call has no request")
        if method.kind is RpcKind.UNARY:
            await end.send(await self._dispatcher.unary(method, data, end))
            return
        async with contextlib.aclosing(self._dispatcher.server_stream(method, data, end)) as answers:
            async for answer in answers:
                await end.send(answer)


class MemoryChannel:
    """A channel to one target; see `bigfleet.aio.net.Channel`."""

    def __init__(self, network: Network, peer: Peer, target: str, options: DialOptions) -> None:
        self._network, self._peer, self._target = network, peer, target
        self._limit, self._redial = options.max_message_bytes, options.redial
        self._connection: tuple[Connection, MemoryServer] | None = None
        self._connecting = asyncio.Lock()
        self._calls: dict[ClientEnd, None] = {}
        self._closed = asyncio.Event()

    async def unary(
        self,
        method: UnaryMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> RpcReply[Response]:
        end = self._start(
            method.path, encode(request, deterministic=True), timeout_s, metadata, wait_for_ready
        )
        try:
            data = await end.receive()
            trailing = await end.trailing()
            if data is None or await end.receive() is not None:
                raise RpcError(Code.INTERNAL, f"{method.path}: not exactly one answer")
            return RpcReply(decode_answer(method, data), trailing)
        finally:
            end.cancel()  # no effect after a status; otherwise the caller was cancelled

    def server_stream(
        self,
        method: ServerStreamMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float | None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> "_Responses[Response]":
        data = encode(request, deterministic=True)
        return _Responses(self._start(method.path, data, timeout_s, metadata, wait_for_ready), method)

    def bidi(
        self,
        method: BidiMethod[Request, Response],
        *,
        timeout_s: float | None = None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> "_Bidi[Request, Response]":
        return _Bidi(self._start(method.path, None, timeout_s, metadata, wait_for_ready), method)

    async def connectivity(self) -> AsyncIterator[bool]:
        connected: bool | None = None
        delay_s = self._redial.first_s
        while not self._closed.is_set():
            try:
                connection, _ = await self._connect(wait=False)
            except RpcError:
                if connected is not False:
                    connected = False
                    yield False
                await self._until_closed(delay_s)
                delay_s = min(2 * delay_s, self._redial.ceiling_s)
                continue
            delay_s = self._redial.first_s
            if self._closed.is_set():
                connection.close_from_client()
                return
            if not connected:
                connected = True
                yield True
            await connection.lost.wait()
            if not self._closed.is_set():
                connected = False
                yield False

    async def close(self) -> None:
        self._closed.set()
        for end in list(self._calls):
            end.cancel()
        if self._connection is not None:
            self._connection[0].close_from_client()

    async def _until_closed(self, at_most_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._closed.wait()

    def _start(
        self, path: str, request: bytes | None, timeout_s: float | None, metadata: Metadata, wait: bool
    ) -> ClientEnd:
        if self._closed.is_set():
            raise ClosedError(f"the channel to {self._target} is closed")
        end = ClientEnd(self._limit, timeout_s)
        self._calls[end] = None
        end.on_end(lambda: self._calls.pop(end, None))
        end.open_by(self._open(end, path, request, metadata, wait))
        return end

    async def _open(
        self, end: ClientEnd, path: str, request: bytes | None, metadata: Metadata, wait: bool
    ) -> None:
        try:
            connection, server = await self._connect(wait)
            end.connected(connection, server.accept(connection, end, path, metadata, end.time_remaining_s()))
            if request is not None:
                await end.send(request)
                await end.done_sending()
        except RpcError as error:
            end.fail(error, inform_peer=False)

    async def _connect(self, wait: bool) -> tuple[Connection, MemoryServer]:
        delay_s = self._redial.first_s
        while True:
            async with self._connecting:  # concurrent calls share the attempt
                if self._connection is not None and self._connection[0].takes_calls:
                    return self._connection
                try:
                    self._connection = await self._network.connect(
                        self._peer, self._target, self._redial.connect_timeout_s
                    )
                except RpcError:
                    if not wait:
                        raise
                else:
                    return self._connection
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, self._redial.ceiling_s)


class _Responses(Generic[Response]):
    """The client's half of a stream; see `bigfleet.aio.net.Responses`."""

    def __init__(self, end: ClientEnd, method: Method[Any, Response]) -> None:
        self._end, self._method = end, method

    async def receive(self) -> Response | None:
        data = await self._end.receive()
        return None if data is None else decode_answer(self._method, data)

    async def __aiter__(self) -> AsyncIterator[Response]:
        while (message := await self.receive()) is not None:
            yield message

    async def trailing(self) -> Metadata:
        return await self._end.trailing()

    def cancel(self) -> None:
        self._end.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


class _Bidi(_Responses[Response], Generic[Request, Response]):
    """The client's half of a bidirectional stream; see `bigfleet.aio.net.BidiStream`."""

    async def send(self, message: Request) -> None:
        await self._end.send(encode(message, deterministic=True))

    async def done_sending(self) -> None:
        await self._end.done_sending()
