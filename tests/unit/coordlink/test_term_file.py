"""The highest term survives a restart (`coordinator#shard-client`, `shard#coordinator-client`)."""

from pathlib import PurePosixPath

import pytest

from bigfleet.aio.disk import DiskError, atomic_write, ensure_directory
from bigfleet.aio.rng import SeededRng
from bigfleet.coordlink.term_file import NAME, TermFile, TermFileError
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk

DATA = PurePosixPath("/data")


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk(DiskImage())
    ensure_directory(disk, DATA)
    return disk


def test_no_file_is_term_zero_and_a_stored_term_is_there_after_a_power_cut(disk: MemoryDisk) -> None:
    file = TermFile(disk, DATA)
    assert file.load() == 0
    file.store(41)
    file.store(42)
    disk.image.power_cut(SeededRng(1).stream("cut"))
    assert TermFile(MemoryDisk(disk.image), DATA).load() == 42


@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1.5", b"9" * 20, b"12 13"])
def test_a_file_that_is_no_term_is_refused_and_named(disk: MemoryDisk, content: bytes) -> None:
    atomic_write(disk, DATA / NAME, content)
    with pytest.raises(TermFileError, match="/data/coordinator-term: found something else than a term"):
        TermFile(disk, DATA).load()


def test_a_disk_that_fails_is_told_as_such(disk: MemoryDisk) -> None:
    disk.image.read_only = True
    with pytest.raises(DiskError, match="read-only"):
        TermFile(disk, DATA).store(1)
