"""Violations of listings, cursors, durability and speed: A08, A09, A12, B9xx, B10xx, B11xx.

Must never: be honest.
"""

from collections.abc import Sequence

from bigfleet.aio.clock import Clock
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import (
    EDGES,
    ReferenceOperation,
    ReferenceOptions,
    ReferenceRecord,
    ReferenceStore,
    ReferenceToken,
)
from bigfleet.provider.conformance.states import REAL, F, I, S, State
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.violation import violation


@violation("filter-lets-slots-through", "A08")
class FilterLetsSlotsThrough(ReferenceProvider):
    """A listing of Idle machines holds slots as well."""

    def matches(self, record: ReferenceRecord, request: pb.ListFilter, since: int | None) -> bool:
        slot = list(request.states) == [I] and record.machine.state == S
        return slot or super().matches(record, request, since)


@violation("cap-off-by-one", "A09")
class CapOffByOne(ReferenceProvider):
    """A cap of n yields n + 1."""

    def capped(self, records: Sequence[ReferenceRecord], limit: int) -> Sequence[ReferenceRecord]:
        return super().capped(records, limit + 1 if limit else 0)


@violation("cap-always-first", "B302")
class CapAlwaysFirst(ReferenceProvider):
    """A capped listing always begins with the first machine."""

    def capped(self, records: Sequence[ReferenceRecord], limit: int) -> Sequence[ReferenceRecord]:
        return records[:limit] if limit > 0 else records


@violation("revision-stuck", "A12")
class RevisionStuck(ReferenceProvider):
    """The revision never moves."""

    def revision(self) -> bytes:
        return b"1"


@violation("revision-backwards", "B903")
class RevisionBackwards(ReferenceProvider):
    """The revision counts down."""

    def revision(self) -> bytes:
        return str(10**6 - self.store.revision).encode()

    def read_cursor(self, cursor: bytes) -> int | None:
        return int(cursor) if cursor.isdigit() and len(cursor) < 20 else None


@violation("dup-list", "B901")
class DupList(ReferenceProvider):
    """A listing of several states holds its first machine twice."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        answer = await super().list(request, call)
        if len(request.states) > 1 and answer.machines:
            answer.machines.append(answer.machines[0])
        return answer


@violation("drop-list", "B901")
class DropList(ReferenceProvider):
    """A listing of several states omits a share of the machines."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        answer = await super().list(request, call)
        if len(request.states) > 1:
            del answer.machines[::4]
        return answer


@violation("empty-list", "B902")
class EmptyList(ReferenceProvider):
    """A capped listing is empty."""

    def capped(self, records: Sequence[ReferenceRecord], limit: int) -> Sequence[ReferenceRecord]:
        return () if limit else records


@violation("cap-of-three-empties", "B902")
class CapOfThreeEmpties(ReferenceProvider):
    """A cap of 3 yields nothing."""

    def capped(self, records: Sequence[ReferenceRecord], limit: int) -> Sequence[ReferenceRecord]:
        return () if limit == 3 else super().capped(records, limit)


@violation("stale-list", "A08")
class StaleList(ReferenceProvider):
    """Listings by state show the machines as they were half a second ago."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._shots: list[tuple[int, dict[str, State]]] = []
        super().__init__(clock, options, store)

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        now_ns = self.clock.monotonic_ns()
        fresh = {key: record.machine.state for key, record in self.store.records.items()}
        self._shots.append((now_ns, fresh))
        if not request.states:
            return await super().list(request, call)
        old = [shot for at_ns, shot in self._shots if at_ns <= now_ns - 500_000_000] or [self._shots[0][1]]
        machines = [
            self.listed(record)
            for key, record in self.store.records.items()
            if old[-1].get(key) in request.states
        ]
        return pb.MachineList(machines=machines, revision=self.revision())


@violation("delta-misses", "B903")
class DeltaMisses(ReferenceProvider):
    """A delta lacks machines that have just been created."""

    def matches(self, record: ReferenceRecord, request: pb.ListFilter, since: int | None) -> bool:
        created = since is not None and record.machine.state == I and len(record.operations) == 1
        return not created and super().matches(record, request, since)


@violation("delta-includes-head", "B904")
class DeltaIncludesHead(ReferenceProvider):
    """A delta holds the machine that changed last before it."""

    def matches(self, record: ReferenceRecord, request: pb.ListFilter, since: int | None) -> bool:
        return super().matches(record, request, None if since is None else since - 1)


@violation("delta-is-short", "B905")
class DeltaIsShort(ReferenceProvider):
    """A delta holds the two machines that changed last and no more."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        answer = await super().list(request, call)
        if self.read_cursor(request.since_revision) is not None:
            del answer.machines[:-2]
        return answer


@violation("junk-cursor-refused", "B906")
class JunkCursorRefused(ReferenceProvider):
    """A cursor that cannot be read is an error."""

    def read_cursor(self, cursor: bytes) -> int | None:
        if cursor and not cursor.isascii():
            raise RpcRefusedError(Code.INVALID_ARGUMENT, "since_revision cannot be read")
        return super().read_cursor(cursor)


@violation("page-ignores-cap", "B907")
class PageIgnoresCap(ReferenceProvider):
    """With a cursor the cap does not count."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        if self.read_cursor(request.since_revision) is not None:
            request.max_results = 0
        return await super().list(request, call)


@violation("idle-bump", "B908")
class IdleBump(ReferenceProvider):
    """Every 200 ms some record is touched for no reason."""

    _bumped_ns = 0

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        now_ns = self.clock.monotonic_ns()
        if now_ns - self._bumped_ns > 200_000_000:
            self._bumped_ns = now_ns
            self.touch(next(iter(self.store.records.values())))
        return await super().list(request, call)


@violation("lenient-cursor", "B909")
class LenientCursor(ReferenceProvider):
    """Of a cursor only the digits are read."""

    def read_cursor(self, cursor: bytes) -> int | None:
        digits = bytes(byte for byte in cursor if 48 <= byte <= 57)
        return super().read_cursor(digits)


@violation("alien-state-matches-all", "X01")
class AlienStateMatchesAll(ReferenceProvider):
    """A state number that does not exist matches every machine."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        known = [state for state in request.states if state in REAL]
        if len(known) < len(request.states):
            del request.states[:]
        return await super().list(request, call)


@violation("marks-forgotten", "B1001")
class MarksForgotten(ReferenceProvider):
    """Marks do not survive a restart."""

    def reload(self) -> None:
        super().reload()
        self.store.marks.clear()


@violation("operations-forgotten", "B1002")
class OperationsForgotten(ReferenceProvider):
    """Operation ids change after a restart."""

    def reload(self) -> None:
        super().reload()
        for record in self.store.records.values():
            record.operations = {kind: f"{old}-again" for kind, old in record.operations.items()}


@violation("binding-forgotten", "B1003")
class BindingForgotten(ReferenceProvider):
    """The map of a binding does not survive a restart."""

    def reload(self) -> None:
        super().reload()
        for record in self.store.records.values():
            record.machine.shard_metadata.clear()


@violation("idle-becomes-slot", "B1004")
class IdleBecomesSlot(ReferenceProvider):
    """Idle machines are slots again after a restart."""

    def reload(self) -> None:
        super().reload()
        for record in self.store.records.values():
            if record.machine.state == I:
                record.machine.state = S
                record.machine.ClearField("host")


@violation("reuse-id", "B1005")
class ReuseId(ReferenceProvider):
    """The counter of operation ids starts again after a restart."""

    def reload(self) -> None:
        super().reload()
        self.store.operations = 0


@violation("transitional-after-restart", "B1006")
class TransitionalAfterRestart(ReferenceProvider):
    """A transition that a kill cut short is never ended."""

    def resume(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        pass


@violation("lost-after-restart", "X07")
class LostAfterRestart(ReferenceProvider):
    """A transition that a kill cut short is forgotten: the machine is where it was before."""

    def resume(self, kind: ReferenceOperation, record: ReferenceRecord) -> None:
        record.machine.state = EDGES[kind].source
        if kind is ReferenceOperation.CONFIGURE:
            self.unbind(record)
        self.touch(record)


@violation("wary-after-restart", "B1007")
class WaryAfterRestart(ReferenceProvider):
    """After a restart a shard that never called is fenced."""

    _reloaded = False

    def reload(self) -> None:
        super().reload()
        self._reloaded = True

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return not (self._reloaded and mark is None) and super().newer(token, mark)


@violation("seed-is-short", "B1101")
class SeedIsShort(ReferenceProvider):
    """The fleet lacks a machine."""

    def seed(self) -> Sequence[pb.Machine]:
        return list(super().seed())[1:]


@violation("delta-at-most-ten", "B1102")
class DeltaAtMostTen(ReferenceProvider):
    """A delta holds ten machines at most."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        answer = await super().list(request, call)
        if self.read_cursor(request.since_revision) is not None:
            del answer.machines[10:]
        return answer


@violation("large-page-repeats", "B1103")
class LargePageRepeats(ReferenceProvider):
    """A page of a hundred or more holds a machine twice."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        answer = await super().list(request, call)
        if request.max_results >= 100 and answer.machines:
            answer.machines.append(answer.machines[0])
        return answer


@violation("deleted-machines-vanish", "B1105")
class DeletedMachinesVanish(ReferenceProvider):
    """A machine that was deleted is no longer listed."""

    def matches(self, record: ReferenceRecord, request: pb.ListFilter, since: int | None) -> bool:
        gone = record.machine.state == S and ReferenceOperation.DELETE in record.operations
        return not gone and super().matches(record, request, since)


@violation("slow-get", "B1106")
class SlowGet(ReferenceProvider):
    """Get takes 300 ms."""

    async def get(self, request: pb.MachineRef, call: Call) -> pb.Machine:
        await self.clock.sleep(0.3)
        return await super().get(request, call)


@violation("slow-list", "B1107")
class SlowList(ReferenceProvider):
    """List takes 3.5 s."""

    async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
        await self.clock.sleep(3.5)
        return await super().list(request, call)


@violation("creates-one-at-a-time", "B1108")
class CreatesOneAtATime(ReferenceProvider):
    """Creations wait for each other, 2.5 s each."""

    _free_ns = 0

    def latency_s(self, kind: ReferenceOperation, record: ReferenceRecord) -> float:
        if kind is not ReferenceOperation.CREATE:
            return super().latency_s(kind, record)
        now_ns = self.clock.monotonic_ns()
        self._free_ns = max(self._free_ns, now_ns) + 2_500_000_000
        return (self._free_ns - now_ns) / 1e9


@violation("idle-fails-after-a-while", "B1109")
class IdleFailsAfterAWhile(ReferenceProvider):
    """A machine that was Idle for 400 ms is given up."""

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        super().complete(kind, record, serial)
        if kind in (ReferenceOperation.CREATE, ReferenceOperation.DRAIN):
            self.clock.call_later(0.4, lambda: self._give_up(record, serial))

    def _give_up(self, record: ReferenceRecord, serial: int) -> None:
        if record.serial == serial and record.machine.state == I:
            record.machine.state, record.machine.last_error = F, "nobody wanted it"
            self.touch(record)


@violation("slow-acks", "X06")
class SlowAcks(ReferenceProvider):
    """Configure answers when the substrate is done."""

    async def configure(self, request: pb.ConfigureRequest, call: Call) -> pb.TransitionAck:
        ack = await super().configure(request, call)
        await self.clock.sleep(1.5)
        return ack


@violation("price-change-unseen", "X10")
class PriceChangeUnseen(ReferenceProvider):
    """A new price does not move the revision."""

    async def reprice(self, machine_id: str) -> None:
        self.find(machine_id).machine.price_per_hour += 0.01


@violation("removed-without-a-word", "X11")
class RemovedWithoutAWord(ReferenceProvider):
    """A machine that is gone disappears at once."""

    async def remove(self, machine_id: str) -> None:
        self.store.records.pop(machine_id)
