"""Dumps: written synced, checked when loaded, fatal when bad, patient when the disk is full."""

import pytest

from bigfleet.aio.clock import nanoseconds
from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.coordinator.log import DamagedDirectoryError, LogDiskError
from bigfleet.coordinator.raft.dump import DumpSerializer, read_dump
from bigfleet.testing.disk.image import DiskFault, DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk, Operation
from tests.support.coordinator.pairs import Pairs

PATH = "/data/dump"
LOG = ((b"\x00b", 8, 3), (b"\x00a", 7, 2), {"c-1", "c-0"})


class World:
    def __init__(self) -> None:
        self.image = DiskImage()
        self.operations: list[Operation] = []
        self.disk = MemoryDisk(self.image, self.operations.append)
        self.disk.mkdir("/data")
        self.state_machine = Pairs()
        self.state_machine.load({"epoch": 3, "pairs": {"k": "v"}})
        self.now_s = 10.0
        self.written: list[float | None] = []
        self.dumps = DumpSerializer(
            self.disk, self.state_machine, lambda: nanoseconds(self.now_s), self.written.append
        )


def test_a_dump_holds_tables_entries_and_members_and_is_synced() -> None:
    world = World()
    world.dumps.write(PATH, LOG)
    assert [operation.kind for operation in world.operations][-2:] == ["write", "fsync"]
    other = Pairs()
    loaded = DumpSerializer(world.disk, other, lambda: 0).load(PATH)
    assert loaded == (LOG[0], LOG[1], ("c-0", "c-1"))
    assert other.dump() == world.state_machine.dump()
    assert world.written == [0.0]


def test_loading_makes_file_and_name_durable_before_it_returns() -> None:
    world = World()
    world.dumps.write(PATH, LOG)
    since = len(world.operations)
    world.dumps.load(PATH)
    kinds = [operation.kind for operation in world.operations[since:]]
    assert kinds[-2:] == ["fsync", "fsync directory"]


def test_a_bad_dump_ends_the_process_though_the_library_swallows_the_error() -> None:
    world = World()
    world.dumps.write(PATH, LOG)
    world.image.flip_bit(PATH, 90)
    with pytest.raises(DamagedDirectoryError):
        world.dumps.load(PATH)
    assert world.dumps.failure is not None
    assert world.dumps.failure.exit_code == 71


def test_tables_that_the_state_machine_refuses_end_the_process() -> None:
    world = World()
    world.dumps.write(PATH, LOG)

    class Picky(Pairs):
        def load(self, tables: object) -> None:
            raise LogDiskError("never") if tables is None else DamagedDirectoryError(PATH, "no such row")

    dumps = DumpSerializer(world.disk, Picky(), lambda: 0)
    with pytest.raises(DamagedDirectoryError):
        dumps.load(PATH)
    assert dumps.failure is not None


def test_after_a_failed_dump_nothing_is_tried_for_a_minute() -> None:
    world = World()
    world.image.inject(DiskFault("fsync", DiskCause.FULL))
    with pytest.raises(DiskError):
        world.dumps.write(PATH, LOG)
    since = len(world.operations)
    with pytest.raises(LogDiskError, match="less than 60 s ago"):
        world.dumps.write(PATH, LOG)
    assert len(world.operations) == since
    assert world.dumps.failure is None  # the journal still holds everything
    world.now_s += 61
    world.dumps.write(PATH, LOG)
    assert read_dump(world.disk, PATH).last.index == 8
    assert world.written == [None, 0.0]
