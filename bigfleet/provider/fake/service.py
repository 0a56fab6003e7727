"""The service of the fake: records calls, delays, refuses and falsifies them around the kit's honest service.

Must never: record a blob, or keep a full listing after it was sent.
Rules: `providers#fake-control`, `providers#fault-injection`, `providers#lies`, `providers#fake-flags`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bigfleet.aio.clock import Clock
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.fake.events import EventLog, SeenCall
from bigfleet.provider.fake.injected_faults import CallFaultKind, InjectedFaults
from bigfleet.provider.fake.lies.active import ActiveLies, with_revision
from bigfleet.provider.fake.lies.lie import InterceptedCall
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.v1alpha1 import provider_pb2 as pb

_CALL_KINDS: Final = {
    "Get": "get",
    "List": "list",
    **{kind.call: f"{kind.value}-call" for kind in OperationKind},
}


Handler = Callable[[Any, Call], Awaitable[bytes]]  # Any: one of the six requests


class FaultInjectingService:
    """Replaces the kit's `bigfleet.provider.kit.service.ProviderService` for callers."""

    def __init__(
        self,
        kit: Callable[[], ProviderKit],
        *,
        clock: Clock,
        faults: InjectedFaults,
        active_lies: ActiveLies,
        events: EventLog,
        cursor: str,
        reset_connections: Callable[[], None],
    ) -> None:
        self._kit, self._clock, self._faults = kit, clock, faults
        self._active_lies, self._events, self._cursor = active_lies, events, cursor
        self._reset_connections = reset_connections
        self._revision_before = b""
        self._hidden: dict[str, None] = {}  # a set in the order of arrival

    # The handlers, as `bigfleet.aio.service` wants them.

    async def create(self, request: pb.CreateRequest, call: Call) -> bytes:
        return await self._recorded(InterceptedCall("Create", request, call))

    async def configure(self, request: pb.ConfigureRequest, call: Call) -> bytes:
        return await self._recorded(InterceptedCall("Configure", request, call))

    async def drain(self, request: pb.DrainRequest, call: Call) -> bytes:
        return await self._recorded(InterceptedCall("Drain", request, call))

    async def delete(self, request: pb.DeleteRequest, call: Call) -> bytes:
        return await self._recorded(InterceptedCall("Delete", request, call))

    async def get(self, request: pb.MachineRef, call: Call) -> bytes:
        return await self._recorded(InterceptedCall("Get", request, call))

    async def list(self, request: pb.ListFilter, call: Call) -> bytes:
        return await self._recorded(InterceptedCall("List", request, call))

    # For the verbs.

    def hide(self, machine_id: str) -> None:
        self._hidden[machine_id] = None

    def forget_start(self) -> None:
        """Forget what belonged to the kit that has ended."""
        self._hidden.clear()
        self._revision_before = b""

    # From outside to inside.

    async def _recorded(self, intercepted: InterceptedCall) -> bytes:
        seen = self._events.call_began(_seen(intercepted))
        code, detail, answer = Code.CANCELLED, "", b""
        try:
            answer = await self._disturbed(intercepted)
            code = Code.OK
        except RpcRefusedError as error:
            code, detail = error.code, error.detail
            raise
        finally:
            operation_id = pb.TransitionAck.FromString(answer).operation_id if intercepted.mutating else ""
            self._events.call_ended(seen, code.name, detail, operation_id)
        return answer

    async def _disturbed(self, intercepted: InterceptedCall) -> bytes:
        rpc, faults = intercepted.rpc, self._faults
        self._kit().service.admit(
            intercepted.request, intercepted.call
        )  # strangers are refused before any planned lie
        wait_s = faults.paused_s(rpc) + faults.wait_s(_CALL_KINDS[rpc])
        if wait_s > 0:
            await self._clock.sleep(wait_s)
        refused = faults.take_call_fault(CallFaultKind.REFUSE, rpc)
        if refused is not None:
            raise RpcRefusedError(refused.code, refused.message)
        answer = await self._active_lies.answer(intercepted, self._honest)
        if faults.take_call_fault(CallFaultKind.RESET, rpc) is not None:
            self._reset_connections()
            await _never()
        if faults.take_call_fault(CallFaultKind.LOSE_ANSWER, rpc) is not None:
            await _never()
        return answer

    async def _honest(self, intercepted: InterceptedCall) -> bytes:
        service = self._kit().service
        if intercepted.machine_id in self._hidden:
            raise RpcRefusedError(
                Code.NOT_FOUND, f"{intercepted.rpc} {intercepted.machine_id}: no such machine"
            )
        if intercepted.rpc == "List":
            return await self._list(intercepted)
        handle: Handler = getattr(service, intercepted.rpc.lower())
        return await handle(intercepted.request, intercepted.call)

    async def _list(self, intercepted: InterceptedCall) -> bytes:
        request: pb.ListFilter = intercepted.request
        if self._cursor == "none" and request.since_revision:
            request = _without_cursor(request)
        answer = await self._kit().service.list(request, intercepted.call)
        if self._hidden:
            answer = _without(answer, self._hidden)
        if self._cursor == "none":
            return with_revision(answer, b"")
        if self._cursor == "stale":
            # The revision of the listing before, with which the next delta repeats changes and misses none.
            revision = self._kit().state.revision()
            before, self._revision_before = self._revision_before or revision, revision
            return with_revision(answer, before)
        return answer


async def _never() -> None:
    """Wait until the caller has gone."""
    await asyncio.get_running_loop().create_future()


def _without_cursor(request: pb.ListFilter) -> pb.ListFilter:
    bare = pb.ListFilter()
    bare.CopyFrom(request)
    bare.since_revision = b""
    return bare


def _without(answer: bytes, hidden: dict[str, None]) -> bytes:
    listing = pb.MachineList.FromString(answer)
    kept = pb.MachineList(
        machines=[machine for machine in listing.machines if machine.id not in hidden],
        revision=listing.revision,
    )
    return kept.SerializeToString(deterministic=True)


def _seen(intercepted: InterceptedCall) -> SeenCall:
    request: Any = intercepted.request  # one of six messages, as `rpc` says
    seen = SeenCall(0, 0.0, intercepted.rpc, intercepted.machine_id)
    if intercepted.mutating:
        seen.shard_id, seen.epoch, seen.sequence = (
            request.shard_id,
            request.shard_epoch,
            request.sequence_number,
        )
    match intercepted.rpc:
        case "Configure":
            blob, keys = len(request.bootstrap_blob), len(request.shard_metadata)
            seen.arguments = f"cluster={request.cluster_id} blob={blob}B metadata={keys}"
        case "Drain":
            seen.arguments = f"grace={request.grace_period_seconds}s"
        case "List":
            states = ",".join(str(int(state)) for state in request.states)
            since = request.since_revision[:32].decode("ascii", "replace")
            seen.arguments = f"states={states} since={since} max={request.max_results}"
    return seen
