"""Violations of idempotency, position and critical section: A01 to A05, A13 to A16, B2xx, B4xx.

Must never: be honest.
"""

import asyncio
from typing import ClassVar

from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import (
    Mutation,
    ReferenceOperation,
    ReferenceRecord,
    ReferenceToken,
)
from bigfleet.provider.conformance.states import CONFIGURING, C, I, S
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.violation import violation


@violation("delete-never-ends", "A01")
class DeleteNeverEnds(ReferenceProvider):
    """Delete is accepted and never completes."""

    async def substrate(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        if kind is ReferenceOperation.DELETE:
            await asyncio.get_running_loop().create_future()
        await super().substrate(kind, record)


class _NewIdOnRepeat(ReferenceProvider):
    kind: ClassVar[ReferenceOperation]

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        if kind is self.kind:
            operation_id = self.new_operation(kind, record)
        return super().repeat_ack(kind, record, operation_id)


@violation("create-new-id", "A02")
class CreateNewId(_NewIdOnRepeat):
    """A repeated Create gets a new operation id."""

    kind = ReferenceOperation.CREATE


@violation("configure-new-id", "A03")
class ConfigureNewId(_NewIdOnRepeat):
    """A repeated Configure gets a new operation id."""

    kind = ReferenceOperation.CONFIGURE


@violation("drain-new-id", "A04")
class DrainNewId(_NewIdOnRepeat):
    """A repeated Drain gets a new operation id."""

    kind = ReferenceOperation.DRAIN


@violation("delete-new-id", "A05")
class DeleteNewId(_NewIdOnRepeat):
    """A repeated Delete gets a new operation id."""

    kind = ReferenceOperation.DELETE


@violation("drain-on-slot-accepted", "A13")
class DrainOnSlotAccepted(ReferenceProvider):
    """Drain of a slot is answered as if it had been done."""

    def repeated(
        self, kind: ReferenceOperation, record: ReferenceRecord, token: ReferenceToken
    ) -> str | None:
        if kind is ReferenceOperation.DRAIN and record.machine.state == S:
            return "op-nothing"
        return super().repeated(kind, record, token)


@violation("delete-while-bound", "A14")
class DeleteWhileBound(ReferenceProvider):
    """A Configured machine can be deleted."""

    def in_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        bound = kind is ReferenceOperation.DELETE and record.machine.state == C
        return bound or super().in_position(kind, record)


@violation("stuck", "A16")
class DrainWithoutGraceHangs(ReferenceProvider):
    """A drain without grace never ends."""

    _hasty = False

    def begin(self, kind: ReferenceOperation, record: ReferenceRecord, request: Mutation) -> None:
        self._hasty = isinstance(request, pb.DrainRequest) and request.grace_period_seconds == 0
        super().begin(kind, record, request)

    async def substrate(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        if kind is ReferenceOperation.DRAIN and self._hasty:
            await asyncio.get_running_loop().create_future()
        await super().substrate(kind, record)


@violation("drain-reverts", "A16")
class DrainReverts(ReferenceProvider):
    """A drain without grace falls back to Configured."""

    _hasty = False

    def begin(self, kind: ReferenceOperation, record: ReferenceRecord, request: Mutation) -> None:
        self._hasty = isinstance(request, pb.DrainRequest) and request.grace_period_seconds == 0
        super().begin(kind, record, request)

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        if kind is ReferenceOperation.DRAIN and self._hasty:
            record.machine.state = C
            self.touch(record)
        else:
            super().complete(kind, record, serial)


@violation("create-on-configured-accepted", "B201")
class CreateOnConfiguredAccepted(ReferenceProvider):
    """Create of a Configured machine is answered with its old operation."""

    def repeated(
        self, kind: ReferenceOperation, record: ReferenceRecord, token: ReferenceToken
    ) -> str | None:
        if kind is ReferenceOperation.CREATE and record.machine.state == C:
            return record.operations.get(kind)
        return super().repeated(kind, record, token)


@violation("configure-on-slot", "B202")
class ConfigureOnSlot(ReferenceProvider):
    """A slot can be configured."""

    def in_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        slot = kind is ReferenceOperation.CONFIGURE and record.machine.state == S
        return slot or super().in_position(kind, record)


@violation("drain-on-idle", "B203")
class DrainOnIdle(ReferenceProvider):
    """An Idle machine that was never bound can be drained."""

    def in_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        idle = kind is ReferenceOperation.DRAIN and record.machine.state == I
        return idle or super().in_position(kind, record)


@violation("delete-on-slot-moves", "B204")
class DeleteOnSlotMoves(ReferenceProvider):
    """Delete of a slot moves it through Deleting."""

    def in_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        slot = kind is ReferenceOperation.DELETE and record.machine.state == S
        return slot or super().in_position(kind, record)

    def repeated(
        self, kind: ReferenceOperation, record: ReferenceRecord, token: ReferenceToken
    ) -> str | None:
        if kind is ReferenceOperation.DELETE and record.machine.state == S:
            return None
        return super().repeated(kind, record, token)


@violation("repeat-restarts", "B205")
class RepeatRestarts(ReferenceProvider):
    """A repeated Configure of a Configured machine configures it once more, under the old id."""

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        if kind is ReferenceOperation.CONFIGURE and record.machine.state == C:
            self.begin(kind, record, pb.CreateRequest())
        return super().repeat_ack(kind, record, operation_id)


@violation("one-id-per-machine", "B206")
class OneIdPerMachine(ReferenceProvider):
    """All operations of a machine share one id."""

    def new_operation(self, kind: ReferenceOperation, record: ReferenceRecord) -> str:
        return f"op-{record.machine.id}"


@violation("implicit-create", "B207")
class ImplicitCreate(ReferenceProvider):
    """A mutating call on an unknown machine makes it up."""

    async def mutate(self, kind: ReferenceOperation, request: Mutation, call: Call) -> pb.TransitionAck:
        if request.machine_id and request.machine_id not in self.store.records:
            machine = pb.Machine(id=request.machine_id, state=S, instance_type="made-up", zone="made-up")
            self.store.records[request.machine_id] = ReferenceRecord(machine)
        return await super().mutate(kind, request, call)


@violation("empty-id-not-found", "B208")
class EmptyIdNotFound(ReferenceProvider):
    """An empty id is looked up like any other."""

    def check_id(self, machine_id: str) -> None:
        pass


@violation("negative-grace-internal", "B210")
class NegativeGraceInternal(ReferenceProvider):
    """A negative grace is an internal error."""

    def check_arguments(self, kind: ReferenceOperation, request: Mutation) -> None:
        super().check_arguments(kind, request)
        if isinstance(request, pb.DrainRequest) and request.grace_period_seconds < 0:
            raise RpcRefusedError(Code.INTERNAL, "negative timer")


@violation("large-blob-internal", "B213")
class LargeBlobInternal(ReferenceProvider):
    """A blob of more than a megabyte is an internal error."""

    def check_arguments(self, kind: ReferenceOperation, request: Mutation) -> None:
        super().check_arguments(kind, request)
        if isinstance(request, pb.ConfigureRequest) and len(request.bootstrap_blob) > 1_000_000:
            raise RpcRefusedError(Code.INTERNAL, "too long for a column")


@violation("id-of-first-configure", "B214")
class IdOfFirstConfigure(ReferenceProvider):
    """A second binding gets the id of the first."""

    def new_operation(self, kind: ReferenceOperation, record: ReferenceRecord) -> str:
        if kind is ReferenceOperation.CONFIGURE and kind in record.operations:
            return record.operations[kind]
        return super().new_operation(kind, record)


class _Race(ReferenceProvider):
    kind: ClassVar[ReferenceOperation]

    async def hesitate(self, kind: ReferenceOperation) -> None:
        if kind is self.kind:
            await self.clock.sleep(0.005)


@violation("create-race", "B401")
class CreateRace(_Race):
    """Between checks and effect of Create others come in."""

    kind = ReferenceOperation.CREATE


@violation("configure-race", "B402")
class ConfigureRace(_Race):
    """Between checks and effect of Configure others come in."""

    kind = ReferenceOperation.CONFIGURE


@violation("drain-race", "B403")
class DrainRace(_Race):
    """Between checks and effect of Drain others come in."""

    kind = ReferenceOperation.DRAIN


@violation("delete-race", "B409")
class DeleteRace(_Race):
    """Between checks and effect of Delete others come in."""

    kind = ReferenceOperation.DELETE


@violation("drain-and-configure-mix", "B404")
class DrainAndConfigureMix(ReferenceProvider):
    """A drain that comes right after a repeated Configure leaves the machine Configured without a cluster."""

    _repeated_ns = -1

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        if kind is ReferenceOperation.CONFIGURE and record.machine.state == C:
            self._repeated_ns = self.clock.monotonic_ns()
        return super().repeat_ack(kind, record, operation_id)

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        since_ns = self.clock.monotonic_ns() - self._repeated_ns
        if kind is ReferenceOperation.DRAIN and self._repeated_ns >= 0 and since_ns < 50_000_000:
            record.machine.state = C
            self.unbind(record)
            self.touch(record)
        else:
            super().complete(kind, record, serial)


@violation("repeat-id-changes-at-rest", "B406")
class RepeatIdChangesAtRest(ReferenceProvider):
    """Once a machine is Configured, a repeat gets another id than while it was Configuring."""

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        if kind is ReferenceOperation.CONFIGURE and record.machine.state == C:
            operation_id += "-done"
        return super().repeat_ack(kind, record, operation_id)


@violation("ids-by-the-millisecond", "B407")
class IdsByTheMillisecond(ReferenceProvider):
    """Operation ids are made of the time in milliseconds."""

    def new_operation(self, kind: ReferenceOperation, record: ReferenceRecord) -> str:
        return f"op-{kind}-{self.clock.monotonic_ns() // 1_000_000}"


@violation("ack-shows-idle", "B408")
class AckShowsIdle(ReferenceProvider):
    """Acks of repeated Configures show the machine as it was before."""

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        ack = super().repeat_ack(kind, record, operation_id)
        if kind is ReferenceOperation.CONFIGURE and record.machine.state == CONFIGURING:
            ack.machine.state = I
        return ack


@violation("ack-early", "B105")
class AckEarly(ReferenceProvider):
    """The ack of Configure shows Configured while the machine is still Configuring."""

    def ack(self, record: ReferenceRecord, operation_id: str) -> pb.TransitionAck:
        ack = super().ack(record, operation_id)
        if ack.machine.state == CONFIGURING:
            ack.machine.state = C
        return ack


@violation("fp-for-position", "B1203")
class FencedForPosition(ReferenceProvider):
    """A call out of position is answered with the code that means fenced."""

    def position_code(self, kind: ReferenceOperation) -> Code:
        return Code.FAILED_PRECONDITION


@violation("new-id-each-time", "B206")
class NewIdEachTime(ReferenceProvider):
    """Every repeat of every call gets a new operation id."""

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        return super().repeat_ack(kind, record, self.new_operation(kind, record))


@violation("get-unknown-invalid", "A06")
class GetUnknownInvalid(ReferenceProvider):
    """Get of an unknown machine is answered as a bad argument."""

    async def get(self, request: pb.MachineRef, call: Call) -> pb.Machine:
        if request.id and request.id not in self.store.records:
            raise RpcRefusedError(Code.INVALID_ARGUMENT, "no such id")
        return await super().get(request, call)


@violation("delete-unknown-internal", "A07")
class DeleteUnknownInternal(ReferenceProvider):
    """Delete of an unknown machine is an internal error."""

    async def delete(self, request: pb.DeleteRequest, call: Call) -> pb.TransitionAck:
        try:
            return await super().delete(request, call)
        except RpcRefusedError as error:
            code = Code.INTERNAL if error.code is Code.NOT_FOUND else error.code
            raise RpcRefusedError(code, error.detail) from None


@violation("delete-makes-ghost", "B215")
class DeleteMakesGhost(ReferenceProvider):
    """After Delete of an unknown machine there is a record of it."""

    async def delete(self, request: pb.DeleteRequest, call: Call) -> pb.TransitionAck:
        try:
            return await super().delete(request, call)
        except RpcRefusedError as error:
            if error.code is Code.NOT_FOUND:
                machine = pb.Machine(id=request.machine_id, state=S, instance_type="ghost", zone="ghost")
                self.store.records[request.machine_id] = ReferenceRecord(machine)
            raise
