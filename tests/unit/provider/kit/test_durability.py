"""A whole provider killed at every operation of its disk (`providers#durable-state`): no accepted operation, mark or
binding is lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO

import pytest

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.aio.rng import SeededRng
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState as S
from bigfleet.obs.logs import build_logger
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.state_files import write_snapshot
from bigfleet.providerkit.scripted import ScriptedBackend
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, Operation, ProcessKilledError
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process
from bigfleet.transport.inside import InsideCall
from bigfleet.v1alpha1 import provider_pb2 as pb

MakeSlots = Callable[..., list[DescribedMachine]]
Answered = list[tuple[OperationKind, str, str]]  # kind, machine, operation id
HERE = InsideCall("/test")


def provider(disk: MemoryDisk, slots: list[DescribedMachine]) -> ProviderKit:
    process = virtual_process("provider")
    store = Journal("/state", disk=disk, clock=process.clock, rng=process.rng)
    return ProviderKit(
        ScriptedBackend(slots),
        store=store,
        name="acme",
        clock=process.clock,
        rng=process.rng,
        ids=process.ids,
        log=build_logger(
            level="error", form="json", stream=StringIO(), now=lambda: datetime(2030, 1, 1, tzinfo=UTC)
        ),
        limits=Limits(refresh=0),
        synchronous=True,
    )


async def call(kit: ProviderKit, kind: OperationKind, machine_id: str, sequence: int) -> str:
    """Make one call as shard s, in epoch 1, and return its operation id."""
    service = kit.service
    made: bytes
    match kind:
        case OperationKind.CREATE:
            made = await service.create(
                pb.CreateRequest(
                    machine_id=machine_id, shard_id="s", shard_epoch=1, sequence_number=sequence
                ),
                HERE,
            )
        case OperationKind.CONFIGURE:
            request = pb.ConfigureRequest(
                machine_id=machine_id,
                shard_id="s",
                shard_epoch=1,
                sequence_number=sequence,
                cluster_id="c",
                shard_metadata={"k": "\0"},
            )
            made = await service.configure(request, HERE)
        case OperationKind.DRAIN:
            made = await service.drain(
                pb.DrainRequest(machine_id=machine_id, shard_id="s", shard_epoch=1, sequence_number=sequence),
                HERE,
            )
        case OperationKind.DELETE:
            made = await service.delete(
                pb.DeleteRequest(
                    machine_id=machine_id, shard_id="s", shard_epoch=1, sequence_number=sequence
                ),
                HERE,
            )
    return str(pb.TransitionAck.FromString(made).operation_id)


STORY = (
    (OperationKind.CREATE, "m-0"),
    (OperationKind.CONFIGURE, "m-0"),
    (OperationKind.CREATE, "m-1"),
    (OperationKind.DRAIN, "m-0"),
    (OperationKind.DELETE, "m-1"),
    (OperationKind.CONFIGURE, "m-0"),
)


def run_story(disk: MemoryDisk, slots: list[DescribedMachine], answered: Answered) -> None:
    async def run() -> None:
        kit = provider(disk, slots)
        await kit.start()
        for sequence, (kind, machine_id) in enumerate(STORY, start=1):
            if sequence == 4:
                await write_snapshot(kit._store, kit.state)
            answered.append((kind, machine_id, await call(kit, kind, machine_id, sequence)))
        await kit.stop(0)

    run_virtual(run())


def check(disk: MemoryDisk, slots: list[DescribedMachine], answered: Answered) -> None:
    """Start on what is left, and hold the provider to everything it had answered."""

    async def run() -> None:
        kit = provider(disk, slots)
        await kit.start()
        while kit.state.transitional():  # resumed, or failed where that is impossible
            await kit.clock.sleep(0.1)
        for sequence, (_kind, machine_id, _) in enumerate(answered, start=1):
            with pytest.raises(RpcRefusedError) as fenced:  # no mark is lost
                await call(kit, OperationKind.CREATE, machine_id, sequence)
            assert fenced.value.code is Code.FAILED_PRECONDITION
        for kind, machine_id, operation in {
            (kind, machine): (kind, machine, op) for kind, machine, op in answered
        }.values():
            entry = kit.state.entry(machine_id)
            assert entry is not None
            # The last answered operation of a kind is on record; at most the cut-off call itself came after it.
            later = [op for k, m, op in answered if (k, m) == (kind, machine_id)][-1]
            recorded = kit.state.operation_id(entry.operation(kind))
            assert recorded == later or int(recorded.rsplit("-", 1)[1]) > int(later.rsplit("-", 1)[1]), (
                operation
            )
        bound = [machine for kind, machine, _ in answered if kind is OperationKind.CONFIGURE]
        drained = [machine for kind, machine, _ in answered if kind is OperationKind.DRAIN]
        if len(bound) > len(drained) and len(answered) < len(STORY):
            machine = kit.machine("m-0")
            assert machine is not None
            if machine.state is S.CONFIGURED:
                assert (machine.cluster, dict(machine.shard_metadata)) == ("c", {"k": "\0"})
            else:  # only the Drain that was cut off can have changed that
                assert (machine.state, machine.last_error) in (
                    (S.IDLE, ""),
                    (
                        S.FAILED,
                        "interrupted by restart: the blob is not stored, and the backend has neither resume nor node_ready",
                    ),
                )
        await kit.stop(0)

    run_virtual(run())


@pytest.mark.rule("providers#durable-state")
def test_nothing_that_was_answered_is_lost_wherever_the_process_is_killed(slots: MakeSlots) -> None:
    seen: list[Operation] = []
    run_story(MemoryDisk(DiskImage(), seen.append), slots(2), [])
    for operation in seen:
        parts = (0, operation.length // 2) if operation.kind == "write" else (0,)
        for part in parts:
            image, answered = DiskImage(), Answered()
            disk = MemoryDisk(image, KillAt(operation.number, part))
            # At the very end everything may have been answered before the kill.
            with suppress(ProcessKilledError, BigFleetError):
                run_story(disk, slots(2), answered)
            assert disk.is_killed
            if operation.number % 2:
                image.power_cut(SeededRng(operation.number).stream("power"))
            check(MemoryDisk(image), slots(2), answered)


def test_a_provider_whose_state_is_damaged_does_not_start(slots: MakeSlots) -> None:
    image = DiskImage()
    run_story(MemoryDisk(image), slots(2), [])
    image.flip_bit("/state/journal.2", 60)
    with pytest.raises(BigFleetError, match=r"/state/journal\.2: damaged at byte"):
        check(MemoryDisk(image), slots(2), [])


def test_after_a_restart_the_head_yields_nothing_and_an_older_cursor_everything(slots: MakeSlots) -> None:
    image = DiskImage()
    run_story(MemoryDisk(image), slots(2), [])

    async def run() -> None:
        kit = provider(MemoryDisk(image), slots(2))
        await kit.start()
        head = kit.state.head

        async def listed(cursor: int) -> int:
            answer = await kit.service.list(pb.ListFilter(since_revision=b"%d" % cursor), HERE)
            return len(pb.MachineList.FromString(answer).machines)

        assert await listed(head) == 0
        assert await listed(head - 1) == 2
        assert await listed(head + 1) == 2  # a cursor of a state that was lost
        await kit.stop(0)

    run_virtual(run())


def test_a_snapshot_written_while_calls_go_on_is_whole(slots: MakeSlots) -> None:
    image = DiskImage()

    async def run() -> None:
        kit = provider(MemoryDisk(image), slots(50))
        await kit.start()
        # The snapshot is under way from here on; each call lands before, in the middle of, or behind its row.
        snapshot = asyncio.ensure_future(write_snapshot(kit._store, kit.state))
        for number in range(50):
            await call(kit, OperationKind.CREATE, f"m-{number}", 1)
            await call(kit, OperationKind.CONFIGURE, f"m-{number}", 2)
        await snapshot
        await kit.stop(0)

    run_virtual(run())

    async def again() -> None:
        kit = provider(MemoryDisk(image), slots(50))
        await kit.start()
        assert kit.state.table.counts[S.CONFIGURED] == 50
        with pytest.raises(RpcRefusedError):
            await call(kit, OperationKind.DRAIN, "m-7", 2)
        await kit.stop(0)

    run_virtual(again())
