"""Channels on grpc.aio, rebuilt when the certificate files change.

Why: the system form of `Net.dial`. A channel of the library holds static credentials, so a rotated certificate needs a
new one; calls and streams that are under way must not notice.
Must never: repeat a call, or turn a lost call into a cancellation of
the task that waits for it.
Rules: `wire#conventions`, `shard#tls`, `shard#large-listings`, `operator#reconnect-delays`, `wire#keepalive`, `wire#redial`,
`wire#connectivity`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc
import grpc.aio

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.net import (
    ClosedError,
    Code,
    DialOptions,
    Metadata,
    NotConnectedError,
    RpcError,
    RpcReply,
)
from bigfleet.aio.service import BidiMethod, Method, ServerStreamMethod, UnaryMethod, encode
from bigfleet.transport.dispatch import decode_answer
from bigfleet.transport.keepalive import Keepalive
from bigfleet.transport.pending import PendingRead
from bigfleet.transport.tls import TlsPair, TlsStore

Request = TypeVar("Request")
Response = TypeVar("Response")


_Start = Callable[
    ..., Any
]  # Any: without (de)serialisers the library's types do not know that these are bytes


class _Line:
    """One channel of the library, with the number of calls on it; a retired one closes after its last call."""

    def __init__(self, channel: grpc.aio.Channel, pair: TlsPair | None) -> None:
        self.channel, self.pair = channel, pair
        self._calls = 0
        self._retired = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None

    def enter(self, call: Any) -> None:  # Any: the library's call types share no base that has this method
        self._calls += 1
        call.add_done_callback(self._leave)

    def retire(self) -> None:
        self._retired.set()
        self._close_if_idle()

    async def close(self) -> None:
        self._retired.set()
        await self.channel.close()

    async def changes(self, state: grpc.ChannelConnectivity) -> bool:
        """Wait until the connection is in another state; False when the line was retired first."""
        tasks = [
            asyncio.ensure_future(self._retired.wait()),
            asyncio.ensure_future(self.channel.wait_for_state_change(state)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return not self._retired.is_set()

    @property
    def closed(self) -> bool:
        return self._closing is not None and self._closing.done()

    def _leave(self, _call: object) -> None:
        self._calls -= 1
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._retired.is_set() and not self._calls and self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.channel.close())


class GrpcChannel:
    """A way to one target; see `bigfleet.aio.net.Channel`."""

    def __init__(
        self, target: str, options: DialOptions, tls: TlsStore | None, keepalive: Keepalive, clock: Clock
    ) -> None:
        self._target, self._options, self._tls, self._keepalive = target, options, tls, keepalive
        self._clock = clock
        self._ca_pem = b"" if tls is None else tls.fresh_ca_pem() if options.fresh_ca else tls.ca_pem
        self._lines: list[_Line] = []  # the last one takes new calls, the others finish theirs
        self._closed = False

    async def unary(
        self,
        method: UnaryMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> RpcReply[Response]:
        line = self._line()
        start: _Start = line.channel.unary_unary(method.path)
        call = start(
            encode(request), timeout=timeout_s, metadata=_sent(metadata), wait_for_ready=wait_for_ready
        )
        line.enter(call)
        with _translated():
            data = await call
            trailing = await call.trailing_metadata()
        return RpcReply(decode_answer(method, data), _received(trailing))

    def server_stream(
        self,
        method: ServerStreamMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float | None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> "_Responses[Response]":
        line = self._line()
        start: _Start = line.channel.unary_stream(method.path)
        call = start(
            encode(request), timeout=timeout_s, metadata=_sent(metadata), wait_for_ready=wait_for_ready
        )
        line.enter(call)
        return _Responses(call, method)

    def bidi(
        self,
        method: BidiMethod[Request, Response],
        *,
        timeout_s: float | None = None,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
    ) -> "_Bidi[Request, Response]":
        line = self._line()
        start: _Start = line.channel.stream_stream(method.path)
        call = start(timeout=timeout_s, metadata=_sent(metadata), wait_for_ready=wait_for_ready)
        line.enter(call)
        return _Bidi(call, method)

    async def connectivity(self) -> AsyncIterator[bool]:
        connected: bool | None = None
        while not self._closed:
            line = self._line()
            state = line.channel.get_state(try_to_connect=True)
            ready = state is grpc.ChannelConnectivity.READY
            if ready is not connected and (ready or state is grpc.ChannelConnectivity.TRANSIENT_FAILURE):
                connected = ready
                yield ready
            # A retired line says nothing about the new one, which is connecting.
            if await line.changes(state) and ready and not await _is_back(line, self._clock):
                connected = False
                yield False

    async def close(self) -> None:
        self._closed = True
        for line in self._lines:
            await line.close()
        self._lines.clear()

    def _line(self) -> _Line:
        if self._closed:
            raise ClosedError(f"the channel to {self._target} is closed")
        pair = self._tls.pair() if self._tls else None
        if not self._lines or self._lines[-1].pair is not pair:
            if self._lines:
                self._lines[-1].retire()
            self._lines = [line for line in self._lines if not line.closed]
            self._lines.append(_Line(self._connect(pair), pair))
        return self._lines[-1]

    def _connect(self, pair: TlsPair | None) -> grpc.aio.Channel:
        options = [*_channel_options(self._options), *self._keepalive.channel_options()]
        if pair is None:
            return grpc.aio.insecure_channel(self._target, options)
        credentials = grpc.ssl_channel_credentials(self._ca_pem, pair.key_pem, pair.cert_pem)
        return grpc.aio.secure_channel(self._target, credentials, options)


async def _is_back(line: _Line, clock: Clock) -> bool:
    """Whether a connection that has just ended is there again: a server ends one well for its age (`wire#tls-ended`)."""
    try:
        async with timeout(clock, _BACK_WITHIN_S):
            while True:
                state = line.channel.get_state(try_to_connect=True)
                if state is grpc.ChannelConnectivity.READY:
                    return True
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE or not await line.changes(state):
                    return False
    except TimeoutError:
        return False


class _Responses(Generic[Response]):
    """The client's half of a stream; see `bigfleet.aio.net.Responses`."""

    def __init__(
        self, call: Any, method: Method[Any, Response]
    ) -> None:  # Any: two call types without a common base
        self._call, self._method = call, method
        self._reading = PendingRead(self._read)

    async def receive(self) -> Response | None:
        data = await self._reading.next()
        return None if data is None else decode_answer(self._method, data)

    async def _read(self) -> bytes | None:
        with _translated():
            data = await self._call.read()
        return data if isinstance(data, bytes) else None  # else the library's mark of the end

    async def __aiter__(self) -> AsyncIterator[Response]:
        while (message := await self.receive()) is not None:
            yield message

    async def trailing(self) -> Metadata:
        with _translated():
            return _received(await self._call.trailing_metadata())

    def cancel(self) -> None:
        self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


class _Bidi(_Responses[Response], Generic[Request, Response]):
    """The client's half of a bidirectional stream; see `bigfleet.aio.net.BidiStream`."""

    def __init__(self, call: Any, method: Method[Any, Response]) -> None:
        super().__init__(call, method)
        self._done_sending = False

    async def send(self, message: Request) -> None:
        if self._done_sending:
            raise ClosedError("send after done_sending")
        data = encode(message)
        try:
            with _translated():
                await self._call.write(data)
        except asyncio.InvalidStateError:  # raised by the library for a stream that has ended well
            raise RpcError(Code.CANCELLED, "the peer has ended the stream") from None

    async def done_sending(self) -> None:
        self._done_sending = True
        if not self._call.done():
            with _translated():
                await self._call.done_writing()


def _channel_options(options: DialOptions) -> list[tuple[str, Any]]:
    redial = options.redial
    chosen: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", options.max_message_bytes),
        # Else two channels to one target share a connection, and a re-dial the back-off of the one before.
        ("grpc.use_local_subchannel_pool", 1),
        # Never by an ambient proxy variable: it would see, or end, every session of the fleet.
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.initial_reconnect_backoff_ms", _milliseconds(redial.first_s)),
        ("grpc.max_reconnect_backoff_ms", _milliseconds(redial.ceiling_s)),
        # The library's name misleads: it is how long one dial may take.
        ("grpc.min_reconnect_backoff_ms", _milliseconds(redial.connect_timeout_s)),
        # A peer may return under another address; its name is looked up again as often as it is dialled.
        ("grpc.dns_min_time_between_resolutions_ms", _milliseconds(redial.ceiling_s)),
    ]
    if options.server_name:
        chosen.append(("grpc.ssl_target_name_override", options.server_name))
    return chosen


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


_BACK_WITHIN_S = 1.0
"""A handshake takes hundredths of a second; what takes longer is a loss."""

_NOT_CONNECTED = ("failed to connect to all addresses", "DNS resolution failed")
"""How the library words the end of a call that it never handed to a connection; it has no other way of saying so."""


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        code = Code(error.code().value[0])
        if code is Code.UNAVAILABLE and (error.details() or "").startswith(_NOT_CONNECTED):
            raise NotConnectedError(error.details() or "") from None
        raise RpcError(code, error.details() or "", _received(error.trailing_metadata())) from None
    except asyncio.CancelledError:
        # The library raises this for a call that was given up here, too. Only a task that was cancelled may see it.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RpcError(Code.CANCELLED, "the call was given up on this side") from None


def _sent(metadata: Metadata) -> grpc.aio.Metadata:
    return grpc.aio.Metadata(*metadata)


def _received(metadata: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
    return tuple((key, value) for key, value in metadata or ())
