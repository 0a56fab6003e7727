"""Methods and services, derived from protobuf service descriptors.

Why: a service is a plain class whose methods are named after the RPCs in snake case, a client names an RPC by a typed
value; neither needs generated gRPC code, so both run on any form of the network seam.
Must never: import a transport. A wrong name, kind or message class is found when the value is made, not at the call.
Rules: `wire#conventions`, `testing#message-fidelity`.

    PROVIDER = ServiceSpec(provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"])
    LIST = PROVIDER.unary("List", provider_pb2.ListFilter, provider_pb2.MachineList)
    RAW_LIST = LIST.decoded_by(my_reader)     # the answer reaches `my_reader` as bytes
    bound = PROVIDER.bind(MyProvider())       # needs async def list(self, request, call) and its five siblings

Handlers, by kind: unary `async def m(self, request, call) -> response`; server stream `async def m(self, request, call)`
that yields; bidirectional `async def m(self, stream, call)` on a `bigfleet.aio.net.ServerStream`. Where a handler owes a
message it may give bytes that are encoded already.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from bigfleet.model.errors import BigFleetError

Req = TypeVar("Req")
Resp = TypeVar("Resp")
T = TypeVar("T")
M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=Message)

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ServiceDefinitionError(BigFleetError):
    """A method or service was declared otherwise than its descriptor says."""


class RpcKind(Enum):
    """Which side streams; a stream from the client alone is not used by any of our services."""

    UNARY = "unary"
    SERVER_STREAM = "server stream"
    BIDI = "bidirectional stream"


@dataclass(frozen=True, slots=True)
class Method(Generic[Req, Resp]):
    """One RPC as its caller sees it."""

    path: str
    decode: Callable[[bytes], Resp]


class UnaryMethod(Method[Req, Resp]):
    __slots__ = ()

    def decoded_by(self, decode: Callable[[bytes], T]) -> "UnaryMethod[Req, T]":
        """Return the same RPC with its answer read by another reader."""
        return UnaryMethod(self.path, decode)


class ServerStreamMethod(Method[Req, Resp]):
    __slots__ = ()

    def decoded_by(self, decode: Callable[[bytes], T]) -> "ServerStreamMethod[Req, T]":
        """Return the same RPC with each answer read by another reader."""
        return ServerStreamMethod(self.path, decode)


class BidiMethod(Method[Req, Resp]):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """One RPC as its server sees it."""

    path: str
    kind: RpcKind
    decode: Callable[[bytes], Any]  # Any: a message, or what a reader of the room's own makes of the bytes
    handler: Callable[..., Any]  # Any: its arguments depend on the kind, which `bind` has checked


@dataclass(frozen=True, slots=True)
class BoundService:
    """A service together with the object that answers for it."""

    name: str
    methods: Mapping[str, BoundMethod]

    def decoded_by(self, rpc: str, decode: Callable[[bytes], object]) -> "BoundService":
        """Return the same service with the requests of one RPC read by another reader."""
        method = replace(self.methods[rpc], decode=decode)
        return BoundService(self.name, {**self.methods, rpc: method})


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service as its proto file declares it."""

    descriptor: ServiceDescriptor

    @property
    def name(self) -> str:
        """The full name, with its package."""
        return str(self.descriptor.full_name)

    def unary(self, rpc: str, request: type[M], response: type[N]) -> UnaryMethod[M, N]:
        return UnaryMethod(self._path(rpc, RpcKind.UNARY, request, response), response.FromString)

    def server_stream(self, rpc: str, request: type[M], response: type[N]) -> ServerStreamMethod[M, N]:
        return ServerStreamMethod(
            self._path(rpc, RpcKind.SERVER_STREAM, request, response), response.FromString
        )

    def bidi(self, rpc: str, request: type[M], response: type[N]) -> BidiMethod[M, N]:
        return BidiMethod(self._path(rpc, RpcKind.BIDI, request, response), response.FromString)

    def bind(self, implementation: object) -> BoundService:
        """Join the service with its implementation, which must have a method of the right kind for every RPC."""
        methods = {rpc.name: self._bind(rpc, implementation) for rpc in self.descriptor.methods}
        return BoundService(self.name, methods)

    def _path(self, rpc: str, kind: RpcKind, request: type[Message], response: type[Message]) -> str:
        descriptor = self.descriptor.methods_by_name.get(rpc)
        if descriptor is None:
            known = ", ".join(method.name for method in self.descriptor.methods)
            raise ServiceDefinitionError(f"{self.name} has no RPC {rpc!r}, it has {known}")
        declared = (_kind(descriptor), descriptor.input_type.full_name, descriptor.output_type.full_name)
        given = (kind, request.DESCRIPTOR.full_name, response.DESCRIPTOR.full_name)
        if declared != given:
            raise ServiceDefinitionError(
                f"{self.name}/{rpc} is declared as {_spell(declared)}, not as {_spell(given)}"
            )
        return f"/{self.name}/{rpc}"

    def _bind(self, rpc: MethodDescriptor, implementation: object) -> BoundMethod:
        attribute = handler_name(rpc.name)
        handler = getattr(implementation, attribute, None)
        kind = _kind(rpc)
        if kind is RpcKind.SERVER_STREAM:
            fits, wanted = inspect.isasyncgenfunction(handler), "an async generator method"
        else:
            fits, wanted = inspect.iscoroutinefunction(handler), "an async method"
        if not callable(handler) or not fits:
            name = type(implementation).__name__
            raise ServiceDefinitionError(
                f"{name} must have {wanted} {attribute!r} to serve {self.name}/{rpc.name}"
            )
        decode = GetMessageClass(rpc.input_type).FromString
        return BoundMethod(f"/{self.name}/{rpc.name}", kind, decode, handler)


def handler_name(rpc: str) -> str:
    """Return the name of the method that serves an RPC: `InspectNeeds` is served by `inspect_needs`."""
    return _WORD_START.sub("_", rpc).lower()


def encode(message: object, *, deterministic: bool = False) -> bytes:
    """Encode a message; bytes count as encoded already. Deterministic output costs a sort of every map."""
    if isinstance(message, bytes):
        return message
    if isinstance(message, Message):
        return message.SerializeToString(deterministic=deterministic)
    raise ServiceDefinitionError(f"a {type(message).__name__} is no protobuf message")


def _kind(rpc: MethodDescriptor) -> RpcKind:
    match (rpc.client_streaming, rpc.server_streaming):
        case (False, False):
            return RpcKind.UNARY
        case (False, True):
            return RpcKind.SERVER_STREAM
        case (True, True):
            return RpcKind.BIDI
    raise ServiceDefinitionError(f"{rpc.full_name} streams from the client alone, which nothing here serves")


def _spell(shape: tuple[RpcKind, str, str]) -> str:
    return f"{shape[0].value} from {shape[1]} to {shape[2]}"
