"""The backend of the fake: steps take as long, and fail as often, as the injected faults say.

Must never: decide about states, tokens or operation ids, or keep a blob.
Rules: `providers#fake-flags`, `providers#fault-injection`; ADR-0056.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import TypeAlias

from bigfleet.aio.clock import Clock
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.fake.events import EventLog
from bigfleet.provider.fake.injected_faults import LATE_S, FailureMode, InjectedFaults, OperationFault
from bigfleet.provider.fake.nodes import FakeNodes, JoiningNode
from bigfleet.provider.fake.specs import READY
from bigfleet.provider.kit.backend import Op, Permanent, ResumeOutcome, StockOut, Transient
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord

Seeds: TypeAlias = Callable[[], Iterable[DescribedMachine]]
"""Generates the machines of a start."""


class FakeBackend:
    """All operations succeed at once unless a fault is injected."""

    def __init__(
        self,
        seeds: Seeds,
        faults: InjectedFaults,
        *,
        clock: Clock,
        events: EventLog,
        nodes: FakeNodes,
        skips_readiness: Callable[[], bool],
    ) -> None:
        self._seeds, self._faults, self._nodes = seeds, faults, nodes
        self._clock, self._events = clock, events
        self._skips_readiness = skips_readiness
        self.seeding = True
        """Whether `describe` yields the seeds; off when the state has the machines already."""
        self.added: list[DescribedMachine] = []
        """Further machines that `describe` yields."""

    async def describe(self) -> AsyncIterator[DescribedMachine]:
        if self.seeding:
            for slot in self._seeds():
                yield slot
        for slot in tuple(self.added):
            yield slot

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        await self._step(OperationKind.CREATE.value, machine)
        return CreatedHost(f"host-{op.id}")  # a new host for every Create

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        self._nodes.bound(machine.id)
        await self._step(OperationKind.CONFIGURE.value, machine)
        # Here and not in `node_ready`, which has no blob, so that the blob need not be kept.
        if self._nodes.until_joined and not self._skips_readiness():
            await self._nodes.join(JoiningNode(machine, cluster, op.id, blob))

    async def node_ready(self, machine: MachineRecord, _cluster: str, _op: Op) -> bool:
        """Wait for the node; the kit's polling would round every wait up to its interval."""
        if not self._skips_readiness():
            await self._step(READY, machine)
        return True

    async def drain(self, machine: MachineRecord, grace: timedelta, _op: Op) -> None:
        if self._nodes.until_empty:
            await self._nodes.empty(machine, grace.total_seconds())
        await self._step(OperationKind.DRAIN.value, machine)

    async def delete(self, machine: MachineRecord, _op: Op) -> None:
        await self._step(OperationKind.DELETE.value, machine)

    async def resume(self, machine: MachineRecord, op: Op) -> ResumeOutcome:
        """Repeat the step: the pretend cloud forgets what it was doing, as its process ended too."""
        match op.kind:
            case OperationKind.CREATE:
                return ResumeOutcome(await self.create(machine, op))
            case OperationKind.CONFIGURE:
                await self.configure(machine, machine.cluster, b"", op)
            case OperationKind.DRAIN:
                await self.drain(machine, op.grace, op)
            case OperationKind.DELETE:
                await self.delete(machine, op)
        return ResumeOutcome()

    async def _step(self, kind: str, machine: MachineRecord) -> None:
        fault = self._faults.take_operation_fault(kind, machine)
        wait_s = self._faults.wait_s(kind)
        if fault is not None:
            self._events.add("injected", id=machine.id, kind=kind, how=fault.how.value, message=fault.message)
        if fault is not None and fault.how is FailureMode.LATE:
            await self._ignore_cancellation()
            return
        if wait_s > 0:
            await self._clock.sleep(wait_s)
        await self._faults.until_released(kind, machine.id)
        if fault is not None:
            await self._inject(fault)

    async def _inject(self, fault: OperationFault) -> None:
        match fault.how:
            case FailureMode.STOCKOUT:
                raise StockOut(fault.message)
            case FailureMode.TRANSIENT:
                raise Transient(fault.message)
            case FailureMode.HANG:
                await asyncio.get_running_loop().create_future()  # until the kit's timeout
        raise Permanent(fault.message)

    async def _ignore_cancellation(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await self._clock.sleep(LATE_S)
