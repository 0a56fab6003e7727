"""A provider in memory that keeps the contract, written as many small methods so that each rule can be broken alone.

Why: see `bigfleet.provider.conformance.reference`. Subclasses in the violations modules override one method each.
Must never: await between the checks of a mutating call and its effect: they are one critical section
(`providers#check-order`).
Rules: `providers#contract`, `providers#fault-convention`.
"""

# ruff: noqa: ARG002 - what a method does not need itself is there for those who override it

import asyncio
from collections.abc import Sequence
from typing import Final

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.provider.conformance.reference.values import (
    EDGES,
    FAULTS,
    Mutation,
    ReferenceOperation,
    ReferenceOptions,
    ReferenceRecord,
    ReferenceStore,
    ReferenceToken,
    slot,
)
from bigfleet.provider.conformance.states import REAL, TRANSITIONAL, F, I, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_LATE_S: Final = 1.0


class SubstrateError(Exception):
    """The imagined substrate failed."""


class ReferenceProvider:
    """The provider; handlers are named after the calls."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self.clock, self.options = clock, options
        self.store = store if store is not None else ReferenceStore()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._last_capped = ""
        if self.store.records:
            self.reload()
        else:
            for machine in self.seed():
                self.store.records[machine.id] = ReferenceRecord(machine)

    # The six calls.

    async def create(self, request: pb.CreateRequest, call: Call) -> pb.TransitionAck:
        return await self.mutate(ReferenceOperation.CREATE, request, call)

    async def configure(self, request: pb.ConfigureRequest, call: Call) -> pb.TransitionAck:
        return await self.mutate(ReferenceOperation.CONFIGURE, request, call)

    async def drain(self, request: pb.DrainRequest, call: Call) -> pb.TransitionAck:
        return await self.mutate(ReferenceOperation.DRAIN, request, call)

    async def delete(self, request: pb.DeleteRequest, call: Call) -> pb.TransitionAck:
        return await self.mutate(ReferenceOperation.DELETE, request, call)

    async def get(self, request: pb.MachineRef, _call: Call) -> pb.Machine:
        self.check_id(request.id)
        return self.shown(self.find(request.id))

    async def list(self, request: pb.ListFilter, _call: Call) -> pb.MachineList:
        for state in request.states:
            if state not in REAL:
                raise RpcRefusedError(Code.INVALID_ARGUMENT, f"states: found {state}, allowed is 1 to 8")
        since = self.read_cursor(request.since_revision)
        found = [record for record in self.store.records.values() if self.matches(record, request, since)]
        machines = [self.listed(record) for record in self.capped(found, request.max_results)]
        return pb.MachineList(machines=machines, revision=self.revision())

    # The order of checks of a mutating call.

    async def mutate(self, kind: ReferenceOperation, request: Mutation, call: Call) -> pb.TransitionAck:
        self.check_arguments(kind, request)
        if kind is ReferenceOperation.DELETE and not self.options.delete:
            raise RpcRefusedError(Code.UNIMPLEMENTED, "Delete is not offered")
        token = ReferenceToken(request.shard_id, request.shard_epoch, request.sequence_number)
        self.fence(kind, request.machine_id, token)
        record = self.find(request.machine_id)
        known = self.repeated(kind, record, token)
        if known is not None:
            return self.repeat_ack(kind, record, known)
        if not self.in_position(kind, record):
            raise RpcRefusedError(self.position_code(kind), self.told_position(kind, record))
        await self.hesitate(kind)
        record.operations[kind] = self.new_operation(kind, record)
        self.begin(kind, record, request)
        return self.ack(record, record.operations[kind])

    def check_arguments(self, kind: ReferenceOperation, request: Mutation) -> None:
        self.check_id(request.machine_id)

    def check_id(self, machine_id: str) -> None:
        if not machine_id:
            raise RpcRefusedError(Code.INVALID_ARGUMENT, "machine_id: found '', allowed is not empty")

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        if token.empty:
            return
        key = self.mark_key(kind, machine_id, token)
        if not self.newer(token, self.store.marks.get(key)):
            raise RpcRefusedError(Code.FAILED_PRECONDITION, "the token is stale")
        self.store.marks[key] = token.pair

    def mark_key(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> tuple[str, ...]:
        return token.shard, machine_id

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return mark is None or token.pair > mark

    def find(self, machine_id: str) -> ReferenceRecord:
        record = self.store.records.get(machine_id)
        if record is None:
            raise RpcRefusedError(Code.NOT_FOUND, f"machine {machine_id}: unknown")
        return record

    def repeated(
        self, kind: ReferenceOperation, record: ReferenceRecord, token: ReferenceToken
    ) -> str | None:
        edge = EDGES[kind]
        if record.machine.state in (edge.through, edge.target):
            return record.operations.get(kind)
        return None

    def repeat_ack(
        self, kind: ReferenceOperation, record: ReferenceRecord, operation_id: str
    ) -> pb.TransitionAck:
        return self.ack(record, operation_id)

    def in_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        return record.machine.state == EDGES[kind].source

    def position_code(self, kind: ReferenceOperation) -> Code:
        return Code.INTERNAL

    def told_position(self, kind: ReferenceOperation, record: ReferenceRecord) -> str:
        return f"{kind} is not possible in {state_name(record.machine.state)}"

    async def hesitate(self, kind: ReferenceOperation) -> None:
        """Do nothing: no other call may run between the checks and the effect."""

    def new_operation(self, kind: ReferenceOperation, record: ReferenceRecord) -> str:
        self.store.operations += 1
        return f"op-{self.store.operations:08d}"

    def ack(self, record: ReferenceRecord, operation_id: str) -> pb.TransitionAck:
        return pb.TransitionAck(operation_id=operation_id, machine=self.shown(record))

    # What happens once a call is accepted.

    def begin(self, kind: ReferenceOperation, record: ReferenceRecord, request: Mutation) -> None:
        record.serial += 1
        record.machine.state = EDGES[kind].through
        if isinstance(request, pb.ConfigureRequest):
            self.bind(record, request)
        self.touch(record)
        if self.options.latency_s or self.is_fault(kind, record) or self.options.staged:
            self.start_work(kind, record)
        else:
            self.complete(kind, record, record.serial)

    def start_work(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        task = asyncio.get_running_loop().create_task(self.work(kind, record, record.serial))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def bind(self, record: ReferenceRecord, request: pb.ConfigureRequest) -> None:
        record.machine.cluster = request.cluster_id
        record.machine.shard_metadata.update(request.shard_metadata)

    async def work(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        try:
            async with timeout(self.clock, self.options.timeout_s):
                await self.substrate(kind, record)
        except TimeoutError:
            self.fail(kind, record, serial, f"timed out: {kind} after {self.options.timeout_s:g} s")
            if record.machine.cluster == "fault-slow-ok":
                await self.clock.sleep(_LATE_S)
                self.complete(kind, record, serial)
        except SubstrateError as error:
            self.fail(kind, record, serial, str(error))
        else:
            self.complete(kind, record, serial)

    async def substrate(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        """Do the imagined work."""
        await self.clock.sleep(self.latency_s(kind, record))
        if self.is_fault(kind, record):
            await self.fault(kind, record)
        if kind is ReferenceOperation.CONFIGURE and self.options.staged:
            await self._ready.setdefault(record.machine.id, asyncio.Event()).wait()

    def latency_s(self, kind: ReferenceOperation, record: ReferenceRecord) -> float:
        return self.options.latency_s

    def is_fault(self, kind: ReferenceOperation, record: ReferenceRecord) -> bool:
        if not self.options.faults:
            return False
        if kind is ReferenceOperation.CREATE:
            return record.machine.labels.get("conformance.fault/create") == "error"
        trigger = record.machine.cluster
        return trigger in FAULTS[kind]

    async def fault(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        if kind is ReferenceOperation.CONFIGURE and record.machine.cluster != "fault-error":
            await asyncio.get_running_loop().create_future()  # until the timeout of the transition
        raise SubstrateError(f"injected: {kind}")

    def ready(self, machine_id: str) -> None:
        """Let the node of a machine become Ready, in a staged model."""
        self._ready.setdefault(machine_id, asyncio.Event()).set()

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        if record.serial != serial or record.machine.state != EDGES[kind].through:
            return  # its time ran out before
        record.machine.state = EDGES[kind].target
        if kind is ReferenceOperation.CREATE:
            record.machine.host.provider, record.machine.host.ref = "model", f"host-{record.machine.id}"
        elif kind is ReferenceOperation.DRAIN:
            self.unbind(record)
        elif kind is ReferenceOperation.DELETE:
            record.machine.ClearField("host")
        self.touch(record)

    def unbind(self, record: ReferenceRecord) -> None:
        record.machine.cluster = ""
        record.machine.shard_metadata.clear()

    def fail(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int, error: str) -> None:
        if record.serial == serial and record.machine.state in TRANSITIONAL:
            record.machine.state, record.machine.last_error = F, error
            self.touch(record)

    def touch(self, record: ReferenceRecord) -> None:
        self.store.revision += 1
        record.changed = self.store.revision

    # Reading.

    def shown(self, record: ReferenceRecord) -> pb.Machine:
        machine = pb.Machine()
        machine.CopyFrom(record.machine)
        return machine

    def listed(self, record: ReferenceRecord) -> pb.Machine:
        return self.shown(record)

    def matches(self, record: ReferenceRecord, request: pb.ListFilter, since: int | None) -> bool:
        in_state = not request.states or record.machine.state in request.states
        return in_state and (since is None or record.changed > since)

    def capped(self, records: Sequence[ReferenceRecord], limit: int) -> Sequence[ReferenceRecord]:
        """Cut a listing, and begin the next one that is cut after the last machine of this one."""
        if not 0 < limit < len(records):
            return records
        places = {machine_id: place for place, machine_id in enumerate(self.store.records)}
        last = places.get(self._last_capped, -1)
        later = [record for record in records if places[record.machine.id] > last]
        earlier = [record for record in records if places[record.machine.id] <= last]
        taken = [*later, *earlier][:limit]
        self._last_capped = taken[-1].machine.id
        return taken

    def read_cursor(self, cursor: bytes) -> int | None:
        if not self.options.cursor or not cursor.isdigit() or len(cursor) > 20:
            return None
        return int(cursor) if int(cursor) <= self.store.revision else None

    def revision(self) -> bytes:
        return str(self.store.revision).encode() if self.options.cursor else b""

    # Birth, death and resurrection.

    def seed(self) -> Sequence[pb.Machine]:
        machines = [slot(number) for number in range(self.options.slots)]
        for number in range(self.options.idle):
            machine = slot(number, "metal", pb.CAPACITY_TYPE_BARE_METAL)
            machine.state, machine.price_per_hour, machine.interruption_probability = I, 0.0, 0.0
            machine.host.provider, machine.host.ref = "model", f"host-{machine.id}"
            machines.append(machine)
        if self.options.faults:
            for number in range(8):
                machine = slot(number, "error")
                machine.labels["conformance.fault/create"] = "error"
                machines.append(machine)
        return machines

    def reload(self) -> None:
        """Go on with what an earlier process left behind."""
        kinds = {edge.through: kind for kind, edge in EDGES.items()}
        for record in self.store.records.values():
            kind = kinds.get(record.machine.state)
            if kind is not None:
                self.resume(kind, record)

    def resume(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        """Do the work again that a kill cut short; what was to fail anyway fails at once."""
        if self.is_fault(kind, record):
            self.fail(kind, record, record.serial, "interrupted by restart")
        else:
            self.start_work(kind, record)

    # What an operator of the substrate might do.

    async def reprice(self, machine_id: str) -> None:
        record = self.find(machine_id)
        record.machine.price_per_hour += 0.01
        self.touch(record)

    async def remove(self, machine_id: str) -> None:
        record = self.find(machine_id)
        record.machine.state, record.machine.last_error = F, "removed: gone from the substrate"
        record.machine.labels["bigfleet.lucy.sh/removed"] = "2030-01-01T00:00:00Z"
        self.touch(record)

    async def stop(self) -> None:
        """End all work, as the end of the process would."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
