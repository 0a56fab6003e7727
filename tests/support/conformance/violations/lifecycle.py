"""Violations of what a machine shows in each state: A15, A26, A27, B1xx, B7xx, B8xx.

Must never: be honest.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from bigfleet.aio.clock import Clock
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import (
    Mutation,
    ReferenceOperation,
    ReferenceOptions,
    ReferenceRecord,
    ReferenceStore,
    slot,
)
from bigfleet.provider.conformance.states import (
    CONFIGURING,
    CREATING,
    DELETING,
    DRAINING,
    C,
    F,
    I,
    S,
    State,
)
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.violation import Place, violation
from tests.support.conformance.violations.operations import CreateNewId


class _ShownAs(ReferenceProvider):
    real: ClassVar[State]
    shown_as: ClassVar[State]

    def shown(self, record: ReferenceRecord) -> pb.Machine:
        machine = super().shown(record)
        if machine.state == self.real:
            machine.state = self.shown_as
        return machine


@violation("create-shows-draining", "A15")
class CreateShowsDraining(_ShownAs):
    """While it is created a machine shows Draining."""

    real, shown_as = CREATING, DRAINING


@violation("configure-shows-creating", "B103")
class ConfigureShowsCreating(_ShownAs):
    """While it is configured a machine shows Creating."""

    real, shown_as = CONFIGURING, CREATING


@violation("drain-shows-deleting", "B104")
class DrainShowsDeleting(_ShownAs):
    """While it is drained a machine shows Deleting."""

    real, shown_as = DRAINING, DELETING


@violation("delete-shows-draining", "B109")
class DeleteShowsDraining(_ShownAs):
    """While it is deleted a machine shows Draining."""

    real, shown_as = DELETING, DRAINING


@violation("create-flickers", "B105")
class CreateFlickers(ReferenceProvider):
    """While it is created a machine looks like a slot for a moment."""

    async def substrate(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        await super().substrate(kind, record)
        if kind is ReferenceOperation.CREATE:
            record.machine.state = S
            await self.clock.sleep(0.01)
            record.machine.state = CREATING
            await self.clock.sleep(0.01)


@violation("third-binding-lost", "B101")
class ThirdBindingLost(ReferenceProvider):
    """The third binding of a machine has no cluster."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._bindings: Counter[str] = Counter()
        super().__init__(clock, options, store)

    def bind(self, record: ReferenceRecord, request: pb.ConfigureRequest) -> None:
        super().bind(record, request)
        self._bindings[record.machine.id] += 1
        if self._bindings[record.machine.id] == 3:
            record.machine.cluster = ""


@violation("late-cluster", "B106")
class LateCluster(ReferenceProvider):
    """The cluster is set when Configuring ends, not when it begins."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._late: dict[str, str] = {}
        super().__init__(clock, options, store)

    def bind(self, record: ReferenceRecord, request: pb.ConfigureRequest) -> None:
        super().bind(record, request)
        self._late[record.machine.id] = record.machine.cluster
        record.machine.cluster = ""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        if kind is ReferenceOperation.CONFIGURE:
            record.machine.cluster = self._late.get(record.machine.id, "")
        super().complete(kind, record, serial)


@violation("slot-has-host", "B107")
class SlotHasHost(ReferenceProvider):
    """Slots have a host."""

    def shown(self, record: ReferenceRecord) -> pb.Machine:
        machine = super().shown(record)
        if machine.state == S:
            machine.host.provider, machine.host.ref = "model", f"host-{machine.id}"
        return machine


@violation("host-early", "B803")
class HostEarly(ReferenceProvider):
    """Machines have their host while they are created; one of them never gets further."""

    def seed(self) -> Sequence[pb.Machine]:
        early = slot(0, "early")
        early.state = CREATING
        early.host.provider, early.host.ref = "model", "host-early"
        return [*super().seed(), early]


@violation("configured-flaps", "B108")
class ConfiguredFlaps(ReferenceProvider):
    """A tenth of a second after it was Configured a machine looks Configuring for a moment."""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        super().complete(kind, record, serial)
        if kind is ReferenceOperation.CONFIGURE:
            self.clock.call_later(0.1, lambda: self._show(record, serial, C, CONFIGURING))
            self.clock.call_later(0.15, lambda: self._show(record, serial, CONFIGURING, C))

    @staticmethod
    def _show(record: ReferenceRecord, serial: int, real: State, shown: State) -> None:
        if record.serial == serial and record.machine.state == real:
            record.machine.state = shown


@violation("self-early-configured", "A26", Place.SELF)
class EarlyConfigured(ReferenceProvider):
    """Configured is reported without waiting for the node."""

    async def substrate(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        if kind is not ReferenceOperation.CONFIGURE:
            await super().substrate(kind, record)


@violation("self-create-new-id", "A27", Place.SELF)
class SelfCreateNewId(CreateNewId.model):  # type: ignore[name-defined,misc]  # a class out of a table
    """The kit's own provider gives a repeated Create a new id."""


@violation("error-returns-to-idle", "B701")
class ErrorReturnsToIdle(ReferenceProvider):
    """A Configure that failed leaves the machine Idle, as if nothing had been."""

    def fail(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int, error: str) -> None:
        if kind is ReferenceOperation.CONFIGURE and error.startswith("injected"):
            record.machine.state = I
            self.unbind(record)
            self.touch(record)
        else:
            super().fail(kind, record, serial, error)


@violation("create-error-without-reason", "B702")
class CreateErrorWithoutReason(ReferenceProvider):
    """A Create that failed leaves no reason."""

    def fail(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int, error: str) -> None:
        super().fail(kind, record, serial, "" if kind is ReferenceOperation.CREATE else error)


@violation("no-timeout", "B703")
class NoTimeout(ReferenceProvider):
    """A transition that hangs is left to hang."""

    async def work(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        if record.machine.cluster == "fault-timeout":
            await asyncio.get_running_loop().create_future()
        await super().work(kind, record, serial)


@violation("late-success-counts", "B704")
class LateSuccessCounts(ReferenceProvider):
    """A success that comes after the timeout makes the machine Configured."""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        if record.machine.state == F and kind is ReferenceOperation.CONFIGURE:
            record.machine.state, record.machine.last_error = CONFIGURING, ""
        super().complete(kind, record, serial)


@violation("failed-can-be-configured", "B705")
class FailedCanBeConfigured(ReferenceProvider):
    """A Failed machine can be configured."""

    def in_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        failed = kind is ReferenceOperation.CONFIGURE and record.machine.state == F
        return failed or super().in_position(kind, record)


@violation("drain-error-stays-draining", "B706")
class DrainErrorStaysDraining(ReferenceProvider):
    """A drain that failed leaves the machine in Draining."""

    def fail(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int, error: str) -> None:
        if kind is not ReferenceOperation.DRAIN:
            super().fail(kind, record, serial, error)


@violation("reason-hidden-in-list", "B707")
class ReasonHiddenInList(ReferenceProvider):
    """Listings do not say why a machine failed."""

    def listed(self, record: ReferenceRecord) -> pb.Machine:
        machine = super().listed(record)
        machine.last_error = ""
        return machine


@violation("early-configured", "B708")
class ConfiguredWithoutNode(ReferenceProvider):
    """Configured is reported without waiting for the node."""

    async def fault(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        if record.machine.cluster != "fault-readiness-block":
            await super().fault(kind, record)


class _BadRecord(ReferenceProvider):
    """One record of the seed is spoilt."""

    def seed(self) -> Sequence[pb.Machine]:
        machines = list(super().seed())
        self.spoil(machines[-1])
        return machines

    def spoil(self, machine: pb.Machine) -> None:
        raise TypeError("a violation says what is spoilt")


@violation("no-instance-type", "A10")
class NoInstanceType(_BadRecord):
    """One record has no instance type."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.instance_type = ""


@violation("nan-price", "A11")
class NanPrice(_BadRecord):
    """One record has a price that is no number."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.price_per_hour = math.nan


@violation("bad-probability", "A11")
class BadProbability(_BadRecord):
    """One record is interrupted more often than always."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.interruption_probability = 1.5


@violation("alien-state", "A10")
class AlienState(_BadRecord):
    """One record has a state number that does not exist."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.state = pb.MachineState.ValueType(42)


@violation("zone-label", "B801")
class ZoneLabel(_BadRecord):
    """One record hides its zone in a label."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.labels["availability-zone"] = "model-zone-a"


@violation("spot-without-risk", "B802")
class SpotWithoutRisk(_BadRecord):
    """One spot machine is never interrupted."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.capacity_type, machine.interruption_probability = pb.CAPACITY_TYPE_SPOT, 0.0


@violation("bound-without-cluster", "B803")
class BoundWithoutCluster(_BadRecord):
    """One machine is Configured for no cluster."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.state = C
        machine.host.provider, machine.host.ref = "model", "host-bound"


@violation("unreadable-quantity", "B804")
class UnreadableQuantity(_BadRecord):
    """One record has a resource that is no quantity."""

    def spoil(self, machine: pb.Machine) -> None:
        machine.resources.resources["memory"] = "plenty"


@violation("two-hosts", "X09")
class TwoHosts(ReferenceProvider):
    """All machines that were created name the same host."""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        super().complete(kind, record, serial)
        if kind is ReferenceOperation.CREATE:
            record.machine.host.ref = "host-twin"


@violation("host-provider-by-state", "B805")
class HostProviderByState(ReferenceProvider):
    """The provider of a host has another name while the machine is bound."""

    def shown(self, record: ReferenceRecord) -> pb.Machine:
        machine = super().shown(record)
        if machine.state == C:
            machine.host.provider = "bound-model"
        return machine


@violation("no-zone-with-host", "B806")
class NoZoneWithHost(ReferenceProvider):
    """A machine that exists has no zone."""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        super().complete(kind, record, serial)
        if kind is ReferenceOperation.CREATE:
            record.machine.zone = ""


@violation("delete-keeps-host", "B807")
class DeleteKeepsHost(ReferenceProvider):
    """A deleted machine keeps its host."""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        host = pb.HostRef(provider=record.machine.host.provider, ref=record.machine.host.ref)
        super().complete(kind, record, serial)
        if kind is ReferenceOperation.DELETE and record.machine.state == S:
            record.machine.host.CopyFrom(host)


@violation("leak-blob", "X03")
class LeakBlob(ReferenceProvider):
    """The bootstrap blob shows up as a label."""

    def begin(self, kind: ReferenceOperation, record: ReferenceRecord, request: Mutation) -> None:
        if isinstance(request, pb.ConfigureRequest):
            record.machine.labels["user-data"] = request.bootstrap_blob.decode("utf-8", "replace")
        super().begin(kind, record, request)
