"""The service of the six calls: maps requests to core calls, and decisions to replies or status codes.

Must never: log or echo a bootstrap blob, decode a record to list it, answer what is not durable, or look at a call before
its caller was admitted.
Rules: `providers#check-order`, `providers#reads`, `providers#status-codes`, `providers#listing-size`,
`providers#transport`, `providers#shard-san`, `providers#epoch-per-shard`, `providers#epoch-step`, `wire#provider`,
`wire#identity`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Call, Code, IdentityRefusedError, RpcRefusedError
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
from bigfleet.provider.kit.admission import CallerRules
from bigfleet.provider.kit.core.calls import CallDecision, CallRefusal, CallRules, MutatingCall, decide
from bigfleet.provider.kit.core.changes import ShardEpoch
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.core.values import Timestamp
from bigfleet.provider.kit.encoding import ack, listing, listing_bytes
from bigfleet.provider.kit.observer import ProviderObserver
from bigfleet.provider.kit.state_writer import NO_MACHINE, DecidedChanges, StateWriter
from bigfleet.provider.kit.workers import AcceptedOperation
from bigfleet.v1alpha1 import provider_pb2 as pb

_ERRORS: Final[dict[CallRefusal, type[ProviderError]]] = {
    CallRefusal.BAD_ARGUMENT: BadArgumentError,
    CallRefusal.UNFENCED: BadArgumentError,
    CallRefusal.IMPLAUSIBLE_EPOCH: BadArgumentError,
    CallRefusal.NOT_OFFERED: NotOfferedError,
    CallRefusal.FENCED: FencedError,
    CallRefusal.UNKNOWN: NoSuchMachineError,
    CallRefusal.OUT_OF_POSITION: OutOfPositionError,
}

_COUNTED: Final = {CallRefusal.UNFENCED: "no_token", CallRefusal.IMPLAUSIBLE_EPOCH: "epoch"}
"""Refusals that have a limit or requirement as their reason, by their label in the metric."""

Answer = bytes
MutatingRequest = pb.CreateRequest | pb.ConfigureRequest | pb.DrainRequest | pb.DeleteRequest
Request = MutatingRequest | pb.MachineRef | pb.ListFilter


class ProviderService:
    """Handles the six calls; every handler returns an encoded reply."""

    def __init__(
        self,
        writer: StateWriter,
        *,
        rules: CallRules,
        admission: CallerRules,
        begin: Callable[[AcceptedOperation], "asyncio.Task[None]"],
        clock: Clock,
        now: Callable[[], Timestamp],
        observer: ProviderObserver,
        max_message_bytes: int,
        synchronous: bool = False,
    ) -> None:
        self._writer, self._begin, self._admission = writer, begin, admission
        self._rules = {needed: replace(rules, require_fencing=needed) for needed in (False, True)}
        self._clock, self._now, self._observer = clock, now, observer
        self._max_message_bytes, self._synchronous = max_message_bytes, synchronous

    def admit(self, request: Request, call: Call) -> None:
        """Raise `IdentityRefusedError` unless the caller may make this call; the first thing that every handler does."""
        try:
            self._admission.admit(
                call.peer, "" if isinstance(request, pb.MachineRef | pb.ListFilter) else request.shard_id
            )
        except IdentityRefusedError:
            self._observer.refused("identity")
            raise

    async def create(self, request: pb.CreateRequest, call: Call) -> Answer:
        asked = MutatingCall(OperationKind.CREATE, request.machine_id, _token(request))
        return await self._timed("Create", self._mutate(request, call, asked))

    async def configure(self, request: pb.ConfigureRequest, call: Call) -> Answer:
        asked = MutatingCall(
            OperationKind.CONFIGURE,
            request.machine_id,
            _token(request),
            cluster=request.cluster_id,
            shard_metadata=request.shard_metadata,
            blob_bytes=len(request.bootstrap_blob),
        )
        return await self._timed("Configure", self._mutate(request, call, asked, request.bootstrap_blob))

    async def drain(self, request: pb.DrainRequest, call: Call) -> Answer:
        asked = MutatingCall(
            OperationKind.DRAIN,
            request.machine_id,
            _token(request),
            grace_s=request.grace_period_seconds,
            grace_end_s=self._now().seconds + request.grace_period_seconds,
        )
        return await self._timed("Drain", self._mutate(request, call, asked))

    async def delete(self, request: pb.DeleteRequest, call: Call) -> Answer:
        asked = MutatingCall(OperationKind.DELETE, request.machine_id, _token(request))
        return await self._timed("Delete", self._mutate(request, call, asked))

    async def get(self, request: pb.MachineRef, call: Call) -> Answer:
        return await self._timed("Get", self._get(request, call))

    async def list(self, request: pb.ListFilter, call: Call) -> Answer:
        return await self._timed("List", self._list(request, call))

    async def _mutate(
        self, request: MutatingRequest, rpc: Call, asked: MutatingCall, blob: bytes = b""
    ) -> Answer:
        self.admit(request, rpc)
        call = replace(asked, exclusive=is_announced(rpc.metadata))
        rules = self._rules[self._admission.needs_token(rpc.peer)]
        state = self._writer.state
        working: asyncio.Task[None] | None = None
        answer = b""

        def decide_call() -> DecidedChanges[CallDecision]:
            decision = decide(state, call, rules)
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
            elif decision.refusal in _COUNTED:
                self._observer.refused(_COUNTED[decision.refusal])
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
        self.admit(request, call)
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
        self.admit(request, call)
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
        if announced is None or not self._admission.speaks_for(call.peer, announced[0]):
            return
        fence = self._writer.state.fence
        highest = fence.highest_plausible(announced[0], self._rules[False].max_epoch_step, announced=True)
        if highest is not None and announced[1] > highest:
            self._observer.refused(
                "epoch"
            )  # the listing is harmless; the shard's mutating calls get the reason
            return
        if not fence.raises_epoch(*announced):
            return

        def decide_epoch() -> DecidedChanges[None]:
            return None, (ShardEpoch(*announced),) if fence.raises_epoch(*announced) else ()

        try:
            await self._writer.decide(NO_MACHINE, decide_epoch)
        except StoreUnavailableError:
            return  # what the read shows is true all the same, and the process ends if the store has failed

    async def _timed(self, rpc: str, answering: Awaitable[Answer]) -> Answer:
        started_s = monotonic_s(self._clock)
        code = Code.INTERNAL
        try:
            answer = await answering
            code = Code.OK
        except ProviderError as error:
            code = error.code
            raise RpcRefusedError(error.code, str(error)) from error
        except RpcRefusedError as refused:
            code = refused.code
            raise
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        finally:
            self._observer.call_ended(rpc, code, monotonic_s(self._clock) - started_s)
        return answer


def _token(request: MutatingRequest) -> FencingToken:
    return FencingToken(request.shard_id, request.shard_epoch, request.sequence_number)


def _states(request: pb.ListFilter) -> tuple[MachineState, ...]:
    known = {int(state): state for state in STATES}
    unknown = sorted(number for number in set(request.states) if number not in known)
    if unknown:
        allowed = f"{min(known)} to {max(known)}"
        raise BadArgumentError("List", "", f"states: found {unknown[0]}, allowed is {allowed}")
    return tuple(known[number] for number in sorted(set(request.states)))
