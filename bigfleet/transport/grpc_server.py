"""Servers on grpc.aio: listening, credentials, and calls handed to the dispatcher.

Why: the system form of `Net.serve`.
Must never: share a port with another process unnoticed, trust a property of the peer other than its certificate, or wait
for never-ending streams beyond the grace of a stop.
Rules: `wire#conventions`, `wire#identity`, `shard#tls`, `shard#large-listings`, `shard#grpc-health`, `shard#start-and-stop`, `wire#keepalive`,
`packaging#connection-limits`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import grpc
import grpc.aio

from bigfleet.aio.clock import Clock
from bigfleet.aio.connection_report import ConnectionReport, Listener
from bigfleet.aio.net import ListenError, Metadata, Peer, RpcError, ServeOptions
from bigfleet.aio.service import BoundMethod, BoundService, RpcKind
from bigfleet.transport.address import ListenAddress, listen_problem
from bigfleet.transport.connections import GrpcLimits
from bigfleet.transport.descriptors import DescriptorShares
from bigfleet.transport.dispatch import Dispatcher
from bigfleet.transport.grpc_warden import CallingPeers, Warden, WardenLimits
from bigfleet.transport.health import HEALTH, HealthService
from bigfleet.transport.identity import peer_of_certificate
from bigfleet.transport.keepalive import Keepalive
from bigfleet.transport.pending import PendingRead
from bigfleet.transport.tls import TlsStore

_Context = grpc.aio.ServicerContext[Any, Any]  # Any: bytes go both ways, which the library's types cannot say


class GrpcServer:
    """A listening server; see `bigfleet.aio.net.RpcServer`."""

    def __init__(
        self, server: grpc.aio.Server, port: int, health: HealthService, watching: asyncio.Task[None]
    ) -> None:
        self._server, self._port, self._health, self._watching = server, port, health, watching

    @property
    def port(self) -> int:
        return self._port

    @property
    def health(self) -> HealthService:
        return self._health

    async def stop(self, grace_s: float) -> None:
        self._health.shut_down()
        try:
            await self._server.stop(grace_s)
        finally:
            self._watching.cancel()


async def start_server(
    address: ListenAddress,
    services: Sequence[BoundService],
    options: ServeOptions,
    dispatcher: Dispatcher,
    *,
    tls: TlsStore | None,
    keepalive: Keepalive,
    limits: GrpcLimits,
    report: ConnectionReport,
    clock: Clock,
) -> GrpcServer:
    """Listen and serve; `ListenError` when the address is not available."""
    connections = min(limits.max_connections, DescriptorShares.of_process().grpc)
    server = grpc.aio.server(
        options=[
            *_server_options(options, keepalive),
            *_connection_options(connections, limits),
            *_ageing(options, tls),
        ]
    )
    peers = CallingPeers()
    health = HealthService(service.name for service in services)
    for service in (*services, HEALTH.bind(health)):
        handlers = {
            name: _handler(method, dispatcher, peers, clock if tls else None)
            for name, method in service.methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.name, handlers),))
    if options.reflection:
        _add_reflection(server, [*(service.name for service in services), HEALTH.name])
    port = _bind(server, address, tls)
    await server.start()
    report.on_open(Listener.GRPC, 0, connections)
    warden = Warden(port, WardenLimits(connections, limits.unproven_per_address), peers, report)
    return GrpcServer(server, port, health, asyncio.create_task(warden.run(), name="grpc warden"))


def server_credentials(tls: TlsStore) -> grpc.ServerCredentials:
    """Return credentials that require a client certificate and look for a newer pair on each handshake."""
    served = tls.pair()

    def configuration() -> grpc.ServerCertificateConfiguration:
        pairs = [(served.key_pem, served.cert_pem)]
        return grpc.ssl_server_certificate_configuration(pairs, root_certificates=tls.ca_pem)

    def fetch() -> Any:  # Any: the library's types do not know that None is allowed
        nonlocal served
        newest = tls.pair()
        if newest is served:
            return None  # the library goes on with what it has
        served = newest
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), fetch, require_client_authentication=True)


def _server_options(options: ServeOptions, keepalive: Keepalive) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", options.max_message_bytes),
        ("grpc.max_concurrent_streams", options.max_concurrent_streams),
        # Else a second process on the same port would silently get half of the connections.
        ("grpc.so_reuseport", 0),
        *keepalive.server_options(),
        *_idle_close(options),
    ]


def _connection_options(connections: int, limits: GrpcLimits) -> list[tuple[str, int]]:
    return [
        # The library accepts and at once closes what is beyond; so the process keeps descriptors for everything else.
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", round(limits.handshake_s * 1000)),
    ]


def _idle_close(options: ServeOptions) -> list[tuple[str, int]]:
    if options.max_connection_idle_s is None:
        return []
    return [("grpc.max_connection_idle_ms", round(options.max_connection_idle_s * 1000))]


def _ageing(options: ServeOptions, tls: TlsStore | None) -> list[tuple[str, int]]:
    """Let a client connect again now and then, well before its certificate ends; running calls and streams end by themselves."""
    if tls is None or options.max_connection_age_s is None:
        return []
    return [("grpc.max_connection_age_ms", round(options.max_connection_age_s * 1000))]


def _bind(server: grpc.aio.Server, address: ListenAddress, tls: TlsStore | None) -> int:
    spelled = (
        f"[::]:{address.port}" if not address.host else str(address)
    )  # the library's spelling of all interfaces
    try:
        port = (
            server.add_secure_port(spelled, server_credentials(tls))
            if tls
            else server.add_insecure_port(spelled)
        )
    except RuntimeError as error:
        raise ListenError(str(address), _why_not(address)) from error
    if port == 0:
        raise ListenError(str(address), _why_not(address))
    return port


def _why_not(address: ListenAddress) -> str:
    """Find the reason with a plain socket, as the gRPC library only says that it failed."""
    try:
        found = socket.getaddrinfo(
            address.host or "::", address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in found:
            with contextlib.closing(socket.socket(family, kind, protocol)) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
                probe.listen()
    except OSError as error:
        return listen_problem(error)
    return "the gRPC library could not bind it"


def _add_reflection(server: grpc.aio.Server, names: list[str]) -> None:
    # Imported only where asked for: it loads a descriptor database.
    from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]  # noqa: PLC0415

    reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)


class _GrpcCall:
    """A call as a handler sees it."""

    def __init__(self, method: str, context: _Context, clock: Clock | None) -> None:
        """The clock tells whether a certificate has ended; None on plaintext."""
        self._method, self._context, self._clock = method, context, clock
        self._peer: Peer | None = None
        self._trailing: Metadata = ()

    @property
    def method(self) -> str:
        return self._method

    @property
    def peer(self) -> Peer:
        if self._peer is None:
            self._peer = self._find_peer()
        return self._peer

    @property
    def metadata(self) -> Metadata:
        return tuple((key, value) for key, value in self._context.invocation_metadata() or ())

    def time_remaining_s(self) -> float | None:
        remaining: float | None = self._context.time_remaining()
        return remaining

    def set_trailing(self, metadata: Metadata) -> None:
        self._trailing = metadata
        self._context.set_trailing_metadata(metadata)

    def cancelled(self) -> bool:
        return bool(self._context.cancelled())

    async def end(self, status: RpcError) -> NoReturn:
        """End the call with a status, together with what the handler had said should trail."""
        code = next(code for code in grpc.StatusCode if code.value[0] == int(status.code))
        await self._context.abort(code, status.detail, (*self._trailing, *status.trailing))

    def _find_peer(self) -> Peer:
        address = self._context.peer()
        if self._clock is None:
            return Peer(address)
        properties = self._context.auth_context()
        pem = b"".join(properties.get("x509_pem_cert", ()))
        version = b"".join(properties.get("ssl_tls_version", ())).decode("ascii", "replace")
        return peer_of_certificate(address, pem, version, now_ns=self._clock.wall_ns())


class _GrpcStream:
    """The raw half of a bidirectional stream."""

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._reading = PendingRead(self._read)

    async def receive(self) -> bytes | None:
        return await self._reading.next()

    def end(self) -> None:
        self._reading.abandon()

    async def _read(self) -> bytes | None:
        data = await self._context.read()
        return data if isinstance(data, bytes) else None  # else the library's mark of the end

    async def send(self, data: bytes) -> None:
        await self._context.write(data)


def _handler(
    method: BoundMethod, dispatcher: Dispatcher, peers: CallingPeers, clock: Clock | None
) -> "grpc.RpcMethodHandler[Any, Any]":
    async def unary(data: bytes, context: _Context) -> bytes:
        call = _GrpcCall(method.path, context, clock)
        try:
            with peers.calling(context.peer()):
                return await dispatcher.unary(method, data, call)
        except RpcError as status:
            await call.end(status)

    async def server_stream(data: bytes, context: _Context) -> None:
        call = _GrpcCall(method.path, context, clock)
        try:
            with peers.calling(context.peer()):
                async with contextlib.aclosing(dispatcher.server_stream(method, data, call)) as answers:
                    async for answer in answers:
                        await context.write(answer)
        except RpcError as status:
            await call.end(status)

    async def bidi(_requests: object, context: _Context) -> None:
        call, stream = _GrpcCall(method.path, context, clock), _GrpcStream(context)
        try:
            with peers.calling(context.peer()):
                await dispatcher.bidi(method, stream, call)
        except RpcError as status:
            await call.end(status)
        finally:
            stream.end()

    # No (de)serialisers: bytes go to the dispatcher. Any: the library's types speak of its synchronous form.
    wrap: Callable[[Callable[..., Awaitable[Any]]], Any]
    chosen: Callable[..., Awaitable[Any]]
    match method.kind:
        case RpcKind.UNARY:
            wrap, chosen = grpc.unary_unary_rpc_method_handler, unary
        case RpcKind.SERVER_STREAM:
            wrap, chosen = grpc.unary_stream_rpc_method_handler, server_stream
        case RpcKind.BIDI:
            wrap, chosen = grpc.stream_stream_rpc_method_handler, bidi
    made: grpc.RpcMethodHandler[Any, Any] = wrap(chosen)
    return made
