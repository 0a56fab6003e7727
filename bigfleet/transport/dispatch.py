"""Runs handlers: bytes in, bytes out, and every exception as a status for the peer.

Why: decoding, error mapping, refusal counting and defect reporting must be the same on every form of the network, so
both forms pass their bytes through this module.
Must never: let the text of an unexpected exception reach the peer, or swallow a cancellation.
Rules: `wire#codes`, `testing#message-fidelity`.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import structlog
from google.protobuf.message import DecodeError

from bigfleet.aio.net import Call, Code, IdentityRefusedError, Peer, RpcError, ServerHooks
from bigfleet.aio.service import BoundMethod, Method, encode
from bigfleet.model.errors import BigFleetError
from bigfleet.transport.status import GENERIC_DETAIL, STATUSES, status_of

MAX_DETAIL: Final = 1000

Answer = TypeVar("Answer")


class RawStream(Protocol):
    """The server's half of a stream, before decoding."""

    async def receive(self) -> bytes | None: ...

    async def send(self, data: bytes) -> None: ...


class MessageStream:
    """A raw stream with messages on it; what a handler gets as `bigfleet.aio.net.ServerStream`."""

    def __init__(self, raw: RawStream, method: BoundMethod, *, deterministic: bool) -> None:
        self._raw, self._method, self._deterministic = raw, method, deterministic

    async def receive(self) -> Any:
        data = await self._raw.receive()
        return None if data is None else _decode(self._method, data)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.receive()) is not None:
            yield message

    async def send(self, message: object) -> None:
        await self._raw.send(encode(message, deterministic=self._deterministic))


class Dispatcher:
    """Runs the handlers of one server."""

    def __init__(
        self, hooks: ServerHooks, statuses: Mapping[type[BigFleetError], Code], *, deterministic: bool = False
    ) -> None:
        self._hooks = hooks
        self._statuses: Final = {**STATUSES, **statuses}
        self._deterministic = deterministic

    async def unary(self, method: BoundMethod, data: bytes, call: Call) -> bytes:
        """Answer one unary call; raises nothing but `RpcError` and cancellation."""
        try:
            answer = await method.handler(_decode(method, data), call)
            return encode(answer, deterministic=self._deterministic)
        except Exception as error:
            raise self._status(error, call) from error

    async def server_stream(
        self, method: BoundMethod, data: bytes, call: Call
    ) -> AsyncGenerator[bytes, None]:
        """Answer one server stream; raises nothing but `RpcError` and cancellation."""
        try:
            answers = method.handler(_decode(method, data), call)
            async with contextlib.aclosing(answers):  # the handler's own clean-up runs before the call ends
                async for answer in answers:
                    yield encode(answer, deterministic=self._deterministic)
        except Exception as error:
            raise self._status(error, call) from error

    async def bidi(self, method: BoundMethod, raw: RawStream, call: Call) -> None:
        """Serve one bidirectional stream; raises nothing but `RpcError` and cancellation."""
        try:
            await method.handler(MessageStream(raw, method, deterministic=self._deterministic), call)
        except Exception as error:
            raise self._status(error, call) from error

    def _status(self, error: Exception, call: Call) -> RpcError:
        if isinstance(error, IdentityRefusedError):
            self._hooks.on_identity_refused(call.method, call.peer, error.detail)
        if isinstance(error, UndecodableError):
            return RpcError(Code.INTERNAL, str(error))
        status = status_of(error, self._statuses)
        if status is None:
            self._hooks.on_defect(call.method, error)
            return RpcError(Code.INTERNAL, GENERIC_DETAIL)
        return RpcError(status.code, _shortened(status.detail), status.trailing)


class UndecodableError(BigFleetError):
    """The bytes of a request are no message of its type; INTERNAL, as gRPC libraries of other languages answer."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: the request cannot be decoded")


def decode_answer(method: Method[Any, Answer], data: bytes) -> Answer:
    """Read the answer to a call on its client's side."""
    try:
        return method.decode(data)
    except DecodeError as error:
        raise RpcError(Code.INTERNAL, f"{method.path}: the answer cannot be decoded") from error


def log_hooks() -> ServerHooks:
    """Return hooks that write to the log and count nothing."""
    log = structlog.get_logger("bigfleet.transport")

    def refused(method: str, peer: Peer, why: str) -> None:
        log.error(
            "identity_refused", method=method, peer=peer.address, identity=str(peer.identity or ""), why=why
        )

    def defect(method: str, error: BaseException) -> None:
        log.error("rpc_defect", method=method, exc_info=error)

    return ServerHooks(on_identity_refused=refused, on_defect=defect)


def _shortened(detail: str) -> str:
    # The text travels in a header, and a header too large for the peer would replace the code by another.
    return detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]} ..."


def _decode(method: BoundMethod, data: bytes) -> Any:  # Any: what the method's own reader makes
    try:
        return method.decode(data)
    except DecodeError as error:
        raise UndecodableError(method.path) from error
