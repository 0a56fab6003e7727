"""`atomic_write` killed at every disk operation, with and without a power cut: the old content or the new, nothing else."""

import pytest

from bigfleet.aio.disk import AnyPath, File, OpenMode, atomic_write
from bigfleet.aio.rng import SeededRng
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, MemoryFile, ProcessKilledError

OLD, NEW = b"the old content, longer than the new one", b"the new content"
SEEDS = 60


def prepared(*, old: bytes | None, stale: bool) -> DiskImage:
    """Return a durable directory, with the file and with the leftovers of an earlier crash, or without."""
    image = DiskImage()
    disk = MemoryDisk(image)
    disk.mkdir("/data")
    for name, content in (("epoch", old), (".epoch.tmp", b"leftover" if stale else None)):
        if content is not None:
            with disk.open(f"/data/{name}", OpenMode.CREATE) as file:
                file.pwrite(0, content)
    image.sync_all()
    return image


def operations(*, old: bytes | None, stale: bool) -> int:
    disk = MemoryDisk(prepared(old=old, stale=stale))
    atomic_write(disk, "/data/epoch", NEW)
    return disk.operations


def kill_points(*, old: bytes | None, stale: bool) -> list[KillAt]:
    """Return every operation, the moment after the last, and for the write some bytes of it as well."""
    points = [KillAt(number) for number in range(1, operations(old=old, stale=stale) + 2)]
    return points + [KillAt(point.number, written) for point in points for written in (1, len(NEW) - 1)]


def written_until(point: KillAt, image: DiskImage) -> bool:
    """Write until the kill; return whether the write said it was done."""
    try:
        atomic_write(MemoryDisk(image, point), "/data/epoch", NEW)
    except ProcessKilledError:
        return False
    return True


def content(image: DiskImage) -> bytes | None:
    disk = MemoryDisk(image)
    return disk.read("/data/epoch") if disk.exists("/data/epoch") else None


@pytest.mark.parametrize("stale", [False, True], ids=["clean", "leftovers"])
@pytest.mark.parametrize("old", [OLD, None], ids=["replacing", "first"])
def test_a_kill_at_any_operation_leaves_old_or_new(old: bytes | None, stale: bool) -> None:
    seen = []
    for point in kill_points(old=old, stale=stale):
        image = prepared(old=old, stale=stale)
        done = written_until(point, image)
        seen.append(content(image))
        assert seen[-1] in (old, NEW)
        assert not done or seen[-1] == NEW
    assert old in seen
    assert NEW in seen


@pytest.mark.parametrize("stale", [False, True], ids=["clean", "leftovers"])
@pytest.mark.parametrize("old", [OLD, None], ids=["replacing", "first"])
def test_a_power_cut_at_any_operation_leaves_old_or_new_and_what_was_promised(
    old: bytes | None, stale: bool
) -> None:
    seen = []
    for point in kill_points(old=old, stale=stale):
        for seed in range(SEEDS):
            image = prepared(old=old, stale=stale)
            done = written_until(point, image)
            image.power_cut(SeededRng(seed).stream("power"))
            seen.append(content(image))
            assert seen[-1] in (old, NEW), (point, seed)
            assert not done or seen[-1] == NEW, (point, seed)
    assert old in seen
    assert NEW in seen


def test_the_next_write_works_after_every_kind_of_crash() -> None:
    for point in kill_points(old=OLD, stale=False):
        for seed in range(SEEDS // 4):
            image = prepared(old=OLD, stale=False)
            written_until(point, image)
            image.power_cut(SeededRng(seed).stream("power"))
            disk = MemoryDisk(image)
            atomic_write(disk, "/data/epoch", b"the one after")
            assert disk.read("/data/epoch") == b"the one after"
            assert disk.list_names("/data") == ("epoch",)


class Forgetful(MemoryDisk):
    """A disk for an `atomic_write` that leaves a sync out: it says yes and does nothing."""

    def __init__(self, image: DiskImage, forgotten: str) -> None:
        super().__init__(image)
        self.forgotten = forgotten

    def open(self, path: AnyPath, mode: OpenMode, *, permissions: int = 0o600) -> File:
        if self.forgotten == "fsync":
            return ForgetfulFile(self, super().open(path, mode, permissions=permissions))
        return super().open(path, mode, permissions=permissions)

    def fsync_directory(self, path: AnyPath) -> None:
        if self.forgotten != "fsync directory":
            super().fsync_directory(path)


class ForgetfulFile(MemoryFile):
    def __init__(self, disk: MemoryDisk, file: File) -> None:
        super().__init__(disk, file.path, disk.image.file("open", file.path), writable=True)

    def fsync(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("forgotten", "broken"), [("nothing", False), ("fsync", True), ("fsync directory", True)]
)
def test_the_sweep_catches_a_sync_left_out(forgotten: str, broken: bool) -> None:
    left = []
    for seed in range(SEEDS):
        image = prepared(old=OLD, stale=False)
        atomic_write(Forgetful(image, forgotten), "/data/epoch", NEW)
        image.power_cut(SeededRng(seed).stream("power"))
        left.append(content(image))
    assert any(one != NEW for one in left) is broken
