"""The service of the six calls: maps requests to core calls, and decisions to replies or status codes.

Must never: log or echo a bootstrap blob, decode a record to list it, or answer what is not durable.
Rules: `providers#check-order`, `providers#reads`, `providers#status-codes`, `providers#listing-size`,
`providers#transport`, `providers#epoch-per-shard`, `wire#provider`, `wire#identity`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.identity import Role
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.model.machine import MachineState
from bigfleet.provider.contract import STATES, OperationKind
from bigfleet.provider.errors import (
    BadArgumentError,
    FencedError,
    ListTooLargeError,
    NoSuchMachineError,
    NotOfferedError,
    OutOfPositionError,
    ProviderError,
    StoreUnavailableError,
)
from bigfleet.provider.exclusive_epochs import announced_epoch, is_announced
from bigfleet.provider.kit.core.calls import CallDecision, CallRefusal, CallRules, MutatingCall, decide
from bigfleet.provider.kit.core.changes import ShardEpoch
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.core.values import Timestamp
from bigfleet.provider.kit.encoding import ack, listing, listing_bytes
from bigfleet.provider.kit.observer import ProviderObserver
from bigfleet.provider.kit.state_writer import DecidedChanges, StateWriter
from bigfleet.provider.kit.workers import AcceptedOperation
from bigfleet.transport.gates import allow_exact
from bigfleet.v1alpha1 import provider_pb2 as pb

_ERRORS: Final[dict[CallRefusal, type[ProviderError]]] = {
    CallRefusal.BAD_ARGUMENT: BadArgumentError,
    CallRefusal.NOT_OFFERED: NotOfferedError,
    CallRefusal.FENCED: FencedError,
    CallRefusal.UNKNOWN: NoSuchMachineError,
    CallRefusal.OUT_OF_POSITION: OutOfPositionError,
}

Answer = bytes
_NO_MACHINE: Final = ""  # no machine has this id, so decisions about shards wait for each other only


class ProviderService:
    """Handles the six calls; every handler returns an encoded reply."""

    def __init__(
        self,
        writer: StateWriter,
        *,
        rules: CallRules,
        begin: Callable[[AcceptedOperation], "asyncio.Task[None]"],
        clock: Clock,
        now: Callable[[], Timestamp],
        observer: ProviderObserver,
        max_message_bytes: int,
        synchronous: bool = False,
    ) -> None:
        self._writer, self._rules, self._begin = writer, rules, begin
        self._clock, self._now, self._observer = clock, now, observer
        self._max_message_bytes, self._synchronous = max_message_bytes, synchronous

    async def create(self, request: pb.CreateRequest, call: Call) -> Answer:
        asked = MutatingCall(
            OperationKind.CREATE, request.machine_id, _token(request), exclusive=is_announced(call.metadata)
        )
        return await self._timed("Create", self._mutate(asked))

    async def configure(self, request: pb.ConfigureRequest, call: Call) -> Answer:
        asked = MutatingCall(
            OperationKind.CONFIGURE,
            request.machine_id,
            _token(request),
            cluster=request.cluster_id,
            shard_metadata=request.shard_metadata,
            blob_bytes=len(request.bootstrap_blob),
            exclusive=is_announced(call.metadata),
        )
        return await self._timed("Configure", self._mutate(asked, request.bootstrap_blob))

    async def drain(self, request: pb.DrainRequest, call: Call) -> Answer:
        asked = MutatingCall(
            OperationKind.DRAIN,
            request.machine_id,
            _token(request),
            grace_s=request.grace_period_seconds,
            grace_end_s=self._now().seconds + request.grace_period_seconds,
            exclusive=is_announced(call.metadata),
        )
        return await self._timed("Drain", self._mutate(asked))

    async def delete(self, request: pb.DeleteRequest, call: Call) -> Answer:
        asked = MutatingCall(
            OperationKind.DELETE, request.machine_id, _token(request), exclusive=is_announced(call.metadata)
        )
        return await self._timed("Delete", self._mutate(asked))

    async def get(self, request: pb.MachineRef, call: Call) -> Answer:
        return await self._timed("Get", self._get(request, call))

    async def list(self, request: pb.ListFilter, call: Call) -> Answer:
        return await self._timed("List", self._list(request, call))

    async def _mutate(self, call: MutatingCall, blob: bytes = b"") -> Answer:
        state = self._writer.state
        working: asyncio.Task[None] | None = None
        answer = b""

        def decide_call() -> DecidedChanges[CallDecision]:
            decision = decide(state, call, self._rules)
            return decision, decision.changes

        def take_effect(decision: CallDecision) -> None:
            nonlocal working, answer
            if decision.refusal is not None:
                return
            answer = self._ack(call.machine_id, decision.operation)
            if decision.begins:
                working = self._begin(self._operation(call, decision, blob))

        decision = await self._writer.decide(call.machine_id, decide_call, take_effect)
        if decision.refusal is not None:
            if decision.refusal is CallRefusal.FENCED:
                self._observer.fenced()
            raise _ERRORS[decision.refusal](call.kind.call, call.machine_id, decision.detail)
        if call.token.is_empty:
            self._observer.unfenced()
        if self._synchronous and working is not None:
            await asyncio.wait([working])
            answer = self._ack(call.machine_id, decision.operation)
        return answer

    def _operation(self, call: MutatingCall, decision: CallDecision, blob: bytes) -> AcceptedOperation:
        state = self._writer.state
        entry = state.entry(call.machine_id)
        if entry is None:
            raise NoSuchMachineError(call.kind.call, call.machine_id, "vanished as it was accepted")
        return AcceptedOperation(
            machine=entry.machine,
            kind=call.kind,
            number=decision.operation,
            operation_id=state.operation_id(decision.operation),
            blob=blob,
            grace_s=call.grace_s,
        )

    def _ack(self, machine_id: str, operation: int) -> Answer:
        state = self._writer.state
        row = state.table.row(machine_id)
        if row is None:
            raise NoSuchMachineError("ack", machine_id, "dropped while its call was answered")
        return ack(state.operation_id(operation), *state.table.record_bytes(row))

    async def _get(self, request: pb.MachineRef, call: Call) -> Answer:
        await self._learn_epoch(call)
        if not request.id:
            raise BadArgumentError("Get", "", "id: found '', allowed is an id")
        table = self._writer.state.table
        row = table.row(request.id)
        if row is None:
            raise NoSuchMachineError("Get", request.id, "this provider knows no such machine")
        own, shape = table.record_bytes(row)
        return own + shape

    async def _list(self, request: pb.ListFilter, call: Call) -> Answer:
        await self._learn_epoch(call)
        if request.max_results < 0:
            raise BadArgumentError(
                "List", "", f"max_results: found {request.max_results}, allowed is 0 or more"
            )
        state = self._writer.state
        rows = state.select(_states(request), request.since_revision, request.max_results)
        pieces, revision = state.table.pieces(rows), state.revision()
        size = listing_bytes(pieces, revision)
        if size > self._max_message_bytes:
            raise ListTooLargeError(size, self._max_message_bytes)
        return listing(pieces, revision)

    async def _learn_epoch(self, call: Call) -> None:
        """Record the epoch that a read announces, durably, if it is new; from then on lower ones are refused."""
        announced = announced_epoch(call.metadata)
        if announced is None or not self._speaks_for(announced[0], call):
            return
        fence = self._writer.state.fence
        if not fence.raises_epoch(*announced):
            return

        def decide_epoch() -> DecidedChanges[None]:
            return None, (ShardEpoch(*announced),) if fence.raises_epoch(*announced) else ()

        try:
            await self._writer.decide(_NO_MACHINE, decide_epoch)
        except StoreUnavailableError:
            return  # what the read shows is true all the same, and the process ends if the store has failed

    def _speaks_for(self, _shard_id: str, _call: Call) -> bool:
        """Return whether a caller may announce the epoch of a shard."""
        return True

    async def _timed(self, rpc: str, answering: Awaitable[Answer]) -> Answer:
        started_s = monotonic_s(self._clock)
        code = Code.INTERNAL
        try:
            answer = await answering
            code = Code.OK
        except ProviderError as error:
            code = error.code
            raise RpcRefusedError(error.code, str(error)) from error
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        finally:
            self._observer.call_ended(rpc, code, monotonic_s(self._clock) - started_s)
        return answer


class ShardOnlyService(ProviderService):
    """The same for callers whose certificate names the shard of their token; plaintext connections skip it (`wire#identity`)."""

    def _speaks_for(self, shard_id: str, call: Call) -> bool:
        who = call.peer.identity
        return not call.peer.secured or (who is not None and (who.role, who.id) == (Role.SHARD, shard_id))

    create = allow_exact(Role.SHARD, lambda request: str(request.shard_id))(ProviderService.create)
    configure = allow_exact(Role.SHARD, lambda request: str(request.shard_id))(ProviderService.configure)
    drain = allow_exact(Role.SHARD, lambda request: str(request.shard_id))(ProviderService.drain)
    delete = allow_exact(Role.SHARD, lambda request: str(request.shard_id))(ProviderService.delete)


def _token(
    request: pb.CreateRequest | pb.ConfigureRequest | pb.DrainRequest | pb.DeleteRequest,
) -> FencingToken:
    return FencingToken(request.shard_id, request.shard_epoch, request.sequence_number)


def _states(request: pb.ListFilter) -> tuple[MachineState, ...]:
    known = {int(state): state for state in STATES}
    unknown = sorted(number for number in set(request.states) if number not in known)
    if unknown:
        allowed = f"{min(known)} to {max(known)}"
        raise BadArgumentError("List", "", f"states: found {unknown[0]}, allowed is {allowed}")
    return tuple(known[number] for number in sorted(set(request.states)))
