"""A shard's client of its provider: sets the fencing token, applies timeouts, maps status codes to typed errors.

Every call announces that the epochs of this shard are exclusive.

Must never: retry a mutating call, reuse a sequence number, or log a blob.
Rules: `shard#provider-client`, `wire#provider`, `wire#codes`, `shard#unanswered-calls`, `shard#large-listings`,
`shard#provider-calls`, `wire#exclusive-epochs`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from bigfleet.aio.net import Channel, Code, NotConnectedError, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import Machine, MachineState
from bigfleet.provider.errors import (
    BadAnswerError,
    FencedError,
    ListTooLargeError,
    NeverSentError,
    NoSuchMachineError,
    NotOfferedError,
    OutcomeUnknownError,
    ProviderError,
)
from bigfleet.provider.exclusive_epochs import ANNOUNCED, announcement
from bigfleet.provider.methods import (
    CONFIGURE,
    CREATE,
    DELETE,
    DRAIN,
    ENCODED_LIST,
    GET,
    MutatingRequest,
)
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import machine_from_proto

CALL_TIMEOUT_S: Final = 30.0
LIST_TIMEOUT_S: Final = 30.0

_MEANINGS: Final[Mapping[Code, type[ProviderError]]] = {
    Code.NOT_FOUND: NoSuchMachineError,
    Code.UNIMPLEMENTED: NotOfferedError,
    Code.FAILED_PRECONDITION: FencedError,
    # After these three the caller cannot know whether the call took effect.
    Code.DEADLINE_EXCEEDED: OutcomeUnknownError,
    Code.UNAVAILABLE: OutcomeUnknownError,
    Code.CANCELLED: OutcomeUnknownError,
}
"""The error of each status code; every other code is a plain refusal."""


class ProviderClient:
    """Makes the six calls on behalf of one shard process."""

    def __init__(self, channel: Channel, *, shard_id: str, epoch: int) -> None:
        self._channel, self._shard_id, self._epoch = channel, shard_id, epoch
        self._announcement = announcement(shard_id, epoch)
        self._sequence = 0

    async def create(self, machine_id: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Machine:
        """Create a Speculative machine; return the record as the provider accepted it."""
        request = pb.CreateRequest(machine_id=machine_id)
        return await self._mutate("Create", CREATE, request, timeout_s)

    async def configure(
        self,
        machine_id: str,
        cluster: str,
        blob: bytes,
        metadata: Mapping[str, str],
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Machine:
        request = pb.ConfigureRequest(
            machine_id=machine_id, cluster_id=cluster, bootstrap_blob=blob, shard_metadata=metadata
        )
        return await self._mutate("Configure", CONFIGURE, request, timeout_s)

    async def drain(self, machine_id: str, grace_s: int, *, timeout_s: float = CALL_TIMEOUT_S) -> Machine:
        """Empty a Configured machine and take it out of its cluster."""
        request = pb.DrainRequest(machine_id=machine_id, grace_period_seconds=grace_s)
        return await self._mutate("Drain", DRAIN, request, timeout_s)

    async def delete(self, machine_id: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Machine:
        request = pb.DeleteRequest(machine_id=machine_id)
        return await self._mutate("Delete", DELETE, request, timeout_s)

    async def get(self, machine_id: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Machine:
        try:
            reply = await self._channel.unary(
                GET, pb.MachineRef(id=machine_id), timeout_s=timeout_s, metadata=self._announcement
            )
        except RpcError as error:
            raise _typed("Get", machine_id, error) from error
        return _record("Get", machine_id, reply.message)

    async def list(
        self, *, since: bytes = b"", states: Sequence[MachineState] = (), timeout_s: float = LIST_TIMEOUT_S
    ) -> bytes:
        """Return the encoded MachineList, for `bigfleet.wire.listing` to decode only what changed."""
        request = pb.ListFilter(
            states=[pb.MachineState.ValueType(int(state)) for state in states], since_revision=since
        )
        try:
            reply = await self._channel.unary(
                ENCODED_LIST, request, timeout_s=timeout_s, metadata=self._announcement
            )
        except RpcError as error:
            if error.code is Code.RESOURCE_EXHAUSTED:
                raise ListTooLargeError.from_detail(error.detail) from error
            raise _typed("List", "", error) from error
        return reply.message

    async def probe(self, *, timeout_s: float) -> None:
        """Return if the provider answers a listing of at most one machine, the cheapest call that needs no machine id."""
        try:
            await self._channel.unary(ENCODED_LIST, pb.ListFilter(max_results=1), timeout_s=timeout_s)
        except RpcError as error:
            raise _typed("List", "", error) from error

    def connectivity(self) -> AsyncIterator[bool]:
        """Yield each change of the connection; see `bigfleet.aio.net.Channel`."""
        return self._channel.connectivity()

    async def close(self) -> None:
        await self._channel.close()

    async def _mutate(
        self,
        call: str,
        method: UnaryMethod[MutatingRequest, pb.TransitionAck],
        request: MutatingRequest,
        timeout_s: float,
    ) -> Machine:
        self._sequence += 1
        request.shard_id, request.shard_epoch = self._shard_id, self._epoch
        request.sequence_number = self._sequence
        machine_id = request.machine_id
        try:
            reply = await self._channel.unary(method, request, timeout_s=timeout_s, metadata=ANNOUNCED)
        except RpcError as error:
            raise _typed(call, machine_id, error) from error
        if not reply.message.HasField("machine"):
            raise BadAnswerError(call, machine_id, "the answer has no machine")
        return _record(call, machine_id, reply.message.machine)


def _record(call: str, machine_id: str, message: pb.Machine) -> Machine:
    try:
        machine = machine_from_proto(message)
    except InvalidFieldError as error:
        raise BadAnswerError(call, machine_id, str(error), error) from error
    if machine.id != machine_id:
        raise BadAnswerError(call, machine_id, f"the answer is about machine {machine.id!r}")
    return machine


def _typed(call: str, machine_id: str, error: RpcError) -> ProviderError:
    if isinstance(error, NotConnectedError):
        return NeverSentError(call, machine_id, error.detail)
    return _MEANINGS.get(error.code, ProviderError)(call, machine_id, f"{error.code.name}: {error.detail}")
