"""The in-memory disk as a fault machine: power cuts, kills, and each fault that can be injected."""

import pytest

from bigfleet.aio.disk import Disk, DiskCause, DiskError, OpenMode, atomic_write
from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.disk.image import DiskFault, DiskImage
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, Operation, ProcessKilledError
from bigfleet.testing.host import VirtualHost
from bigfleet.testing.loop import run_virtual, virtual_loop

SEEDS = range(200)


def stream(seed: int) -> RandomStream:
    return SeededRng(seed).stream("power")


def image_with(**files: bytes) -> DiskImage:
    """Return a disk on which /data and these files are durable."""
    image = DiskImage()
    disk = MemoryDisk(image)
    disk.mkdir("/data")
    for name, data in files.items():
        with disk.open(f"/data/{name}", OpenMode.CREATE) as file:
            file.pwrite(0, data)
    image.sync_all()
    return image


def after_cut(image: DiskImage, seed: int) -> MemoryDisk:
    image.power_cut(stream(seed))
    return MemoryDisk(image)


def write(disk: Disk, path: str, offset: int, data: bytes, *, sync: bool) -> None:
    with disk.open(path, OpenMode.UPDATE_OR_CREATE) as file:
        file.pwrite(offset, data)
        if sync:
            file.fsync()


def test_synced_bytes_survive_every_power_cut() -> None:
    for seed in SEEDS:
        image = image_with(log=b"old")
        write(MemoryDisk(image), "/data/log", 3, b"+new", sync=True)
        assert after_cut(image, seed).read("/data/log") == b"old+new"


def test_unsynced_bytes_are_lost_kept_torn_at_any_byte_or_leave_a_hole() -> None:
    seen: dict[bytes, int] = {}
    for seed in range(2_000):
        image = image_with(log=b"old")
        write(MemoryDisk(image), "/data/log", 3, b"abc", sync=False)
        left = after_cut(image, seed).read("/data/log")
        seen[left] = seen.get(left, 0) + 1
    fronts = {b"old", b"olda", b"oldab", b"oldabc"}
    holes = {b"old\0bc", b"old\0\0c", b"old\0\0\0"}
    assert seen.keys() == fronts | holes


def test_an_overwrite_is_old_or_new_byte_by_byte_and_never_zeros() -> None:
    seen: set[bytes] = set()
    for seed in range(2_000):
        image = image_with(log=b"12345")
        write(MemoryDisk(image), "/data/log", 1, b"abc", sync=False)
        seen.add(after_cut(image, seed).read("/data/log"))
    assert seen == {b"12345", b"1abc5", b"1a345", b"1ab45", b"123c5", b"12bc5"}


def test_writes_to_two_files_are_reordered() -> None:
    seen: set[tuple[bytes, bytes]] = set()
    for seed in range(500):
        image = image_with(first=b"", second=b"")
        disk = MemoryDisk(image)
        write(disk, "/data/first", 0, b"1", sync=False)
        write(disk, "/data/second", 0, b"2", sync=False)
        left = after_cut(image, seed)
        seen.add((left.read("/data/first"), left.read("/data/second")))
    assert (b"1", b"") in seen
    assert (b"", b"2") in seen, "the later write may reach the platter alone"


def test_an_unsynced_truncation_may_be_undone() -> None:
    seen: set[bytes] = set()
    for seed in SEEDS:
        image = image_with(log=b"12345")
        with MemoryDisk(image).open("/data/log", OpenMode.UPDATE) as file:
            file.truncate(2)
        seen.add(after_cut(image, seed).read("/data/log"))
    assert seen == {b"12345", b"12"}


def test_a_new_name_needs_the_sync_of_its_directory_even_if_its_bytes_were_synced() -> None:
    seen: set[bool] = set()
    for seed in SEEDS:
        image = image_with()
        write(MemoryDisk(image), "/data/f", 0, b"x", sync=True)
        seen.add(after_cut(image, seed).exists("/data/f"))
        image = image_with()
        disk = MemoryDisk(image)
        write(disk, "/data/f", 0, b"x", sync=True)
        disk.fsync_directory("/data")
        assert after_cut(image, seed).read("/data/f") == b"x"
    assert seen == {False, True}


def test_a_rename_is_not_durable_before_the_directory_sync_and_never_loses_both_names() -> None:
    seen: set[tuple[bytes, tuple[str, ...]]] = set()
    for seed in SEEDS:
        image = image_with(old=b"old", new=b"new")
        MemoryDisk(image).rename("/data/new", "/data/old")
        left = after_cut(image, seed)
        seen.add((left.read("/data/old"), left.list_names("/data")))
    assert seen == {(b"old", ("new", "old")), (b"new", ("old",))}


def test_a_renamed_file_whose_bytes_were_not_synced_may_be_empty() -> None:
    seen: set[bytes] = set()
    for seed in SEEDS:
        image = image_with(epoch=b"41")
        disk = MemoryDisk(image)
        write(disk, "/data/tmp", 0, b"42", sync=False)
        disk.rename("/data/tmp", "/data/epoch")
        disk.fsync_directory("/data")
        seen.add(after_cut(image, seed).read("/data/epoch"))
    assert {b"", b"42", b"4"} <= seen, "the classic mistake has to show"
    assert b"41" not in seen


def test_a_move_between_directories_may_leave_the_file_in_both_but_never_in_none() -> None:
    seen: set[tuple[bool, bool]] = set()
    for seed in SEEDS:
        image = image_with(f=b"x")
        disk = MemoryDisk(image)
        disk.mkdir("/other")
        image.sync_all()
        disk.rename("/data/f", "/other/f")
        if seed % 2:
            disk.fsync_directory("/other")
        left = after_cut(image, seed)
        seen.add((left.exists("/data/f"), left.exists("/other/f")))
    assert seen == {(True, False), (True, True), (False, True)}


def test_a_moved_directory_is_in_exactly_one_place_after_a_cut() -> None:
    for seed in SEEDS:
        image = image_with(f=b"x")
        disk = MemoryDisk(image)
        disk.mkdir("/other")
        image.sync_all()
        disk.rename("/data", "/other/data")
        if seed % 2:
            disk.fsync_directory("/other")
        left = after_cut(image, seed)
        assert left.exists("/data/f") is not left.exists("/other/data/f")
        if seed % 2:
            assert left.exists("/other/data/f")


def test_a_removed_name_may_come_back_until_the_directory_is_synced() -> None:
    seen: set[bool] = set()
    for seed in SEEDS:
        image = image_with(f=b"x")
        MemoryDisk(image).remove("/data/f")
        seen.add(after_cut(image, seed).exists("/data/f"))
        image = image_with(f=b"x")
        disk = MemoryDisk(image)
        disk.remove("/data/f")
        disk.fsync_directory("/data")
        assert not after_cut(image, seed).exists("/data/f")
    assert seen == {False, True}


def test_one_seed_means_one_outcome() -> None:
    def outcome(seed: int) -> tuple[bytes, tuple[str, ...]]:
        image = image_with(log=b"old")
        disk = MemoryDisk(image)
        for number in range(20):
            write(disk, "/data/log", 3 + 7 * number, b"record!", sync=False)
            write(disk, f"/data/{number}", 0, b"x", sync=False)
        left = after_cut(image, seed)
        return left.read("/data/log"), left.list_names("/data")

    assert [outcome(seed) for seed in range(20)] == [outcome(seed) for seed in range(20)]
    assert len({outcome(seed) for seed in range(20)}) > 5


def test_a_killed_process_leaves_what_it_wrote_and_loses_its_locks() -> None:
    image = image_with(log=b"old")
    disk = MemoryDisk(image)
    disk.lock("/data")
    file = disk.open("/data/log", OpenMode.UPDATE)
    file.pwrite(3, b"+new")
    disk.kill()
    assert disk.is_killed
    for use in (lambda: file.pwrite(0, b"zombie"), file.fsync, file.size, lambda: disk.remove("/data/log")):
        with pytest.raises(ProcessKilledError):
            use()
    file.close()
    successor = MemoryDisk(image)
    with successor.lock("/data"):
        assert successor.read("/data/log") == b"old+new"


def test_a_lock_held_by_another_process_on_the_host_is_refused() -> None:
    image = image_with()
    first, second = MemoryDisk(image), MemoryDisk(image)
    lock = first.lock("/data")
    with pytest.raises(DiskError) as caught:
        second.lock("/data")
    assert caught.value.cause is DiskCause.LOCKED
    lock.close()
    second.lock("/data").close()


def test_a_power_cut_kills_every_process_and_frees_their_locks() -> None:
    image = image_with()
    first, second = MemoryDisk(image), MemoryDisk(image)
    first.lock("/data")
    image.power_cut(stream(0))
    assert first.is_killed
    assert second.is_killed
    MemoryDisk(image).lock("/data").close()


def test_the_hook_sees_every_operation_in_order_and_can_kill_there() -> None:
    seen: list[Operation] = []
    disk = MemoryDisk(image_with(), seen.append)
    atomic_write(disk, "/data/epoch", b"42")
    assert [(operation.number, operation.kind) for operation in seen] == [
        (1, "stat"),
        (2, "open"),
        (3, "write"),
        (4, "fsync"),
        (5, "rename"),
        (6, "fsync directory"),
    ]
    assert seen[2] == Operation(3, "write", "/data/.epoch.tmp", 2)
    assert disk.operations == 6

    killed = MemoryDisk(image_with(), KillAt(5))
    with pytest.raises(ProcessKilledError, match="rename"):
        atomic_write(killed, "/data/epoch", b"42")
    assert MemoryDisk(killed.image).list_names("/data") == (".epoch.tmp",)


def test_clean_up_code_of_a_killed_process_does_not_run_on_the_disk() -> None:
    image = image_with()
    disk = MemoryDisk(image, KillAt(3))

    def with_clean_up() -> None:
        file = disk.open("/data/tmp", OpenMode.CREATE)
        try:
            file.pwrite(0, b"abc")
            file.fsync()
        finally:
            disk.remove("/data/tmp")

    with pytest.raises(ProcessKilledError):
        with_clean_up()
    assert MemoryDisk(image).exists("/data/tmp")


def test_a_kill_in_the_middle_of_a_write_leaves_a_part_of_it() -> None:
    image = image_with(log=b"old")
    with pytest.raises(ProcessKilledError):
        write(MemoryDisk(image, KillAt(2, written=2)), "/data/log", 3, b"+new", sync=True)
    assert MemoryDisk(image).read("/data/log") == b"old+n"


def test_a_failed_sync_is_told_once_and_saves_nothing_even_if_tried_again() -> None:
    for seed in SEEDS:
        image = image_with(log=b"old")
        image.inject(DiskFault("fsync", DiskCause.IO, "/data/log"))
        disk = MemoryDisk(image)
        file = disk.open("/data/log", OpenMode.UPDATE)
        file.pwrite(3, b"+new")
        with pytest.raises(DiskError) as caught:
            file.fsync()
        assert caught.value.cause is DiskCause.IO
        file.fsync()
        assert disk.read("/data/log") == b"old+new", "readers still see the page that never reached the disk"
        assert after_cut(image, seed).read("/data/log") == b"old"


def test_a_full_disk_takes_the_part_that_fits_and_room_comes_back() -> None:
    image = image_with(log=b"12345")
    image.quota_bytes = 8
    disk = MemoryDisk(image)
    with disk.open("/data/log", OpenMode.UPDATE) as file:
        with pytest.raises(DiskError) as caught:
            file.append(b"abcdef")
        assert caught.value.cause is DiskCause.FULL
        assert disk.read("/data/log") == b"12345abc"
        file.pwrite(0, b"overwriting needs no room"[:8])
        file.truncate(2)
        assert file.append(b"abcdef") == 2
        with pytest.raises(DiskError):
            file.pwrite(100, b"x")
        assert file.size() == 8


def test_an_atomic_write_on_a_full_disk_keeps_the_old_content_and_gives_the_room_back() -> None:
    image = image_with(epoch=b"41")
    image.quota_bytes = 5
    disk = MemoryDisk(image)
    with pytest.raises(DiskError) as caught:
        atomic_write(disk, "/data/epoch", b"far too long")
    assert caught.value.cause is DiskCause.FULL
    assert disk.read("/data/epoch") == b"41"
    assert disk.list_names("/data") == ("epoch",)


def test_a_read_only_disk_can_be_read_and_nothing_else() -> None:
    image = image_with(f=b"x")
    disk = MemoryDisk(image)
    before = disk.open("/data/f", OpenMode.UPDATE)
    image.read_only = True
    assert disk.read("/data/f") == b"x"
    for change in (
        lambda: disk.open("/data/f", OpenMode.UPDATE),
        lambda: disk.open("/data/g", OpenMode.CREATE),
        lambda: before.pwrite(0, b"y"),
        lambda: before.truncate(0),
        lambda: disk.rename("/data/f", "/data/g"),
        lambda: disk.remove("/data/f"),
        lambda: disk.mkdir("/data/d"),
        lambda: disk.rmdir("/data"),
    ):
        with pytest.raises(DiskError) as caught:
            change()
        assert caught.value.cause is DiskCause.READ_ONLY
    image.clear_faults()
    before.pwrite(0, b"y")
    assert disk.read("/data/f") == b"y"


def test_a_fault_hits_its_path_as_often_as_told_and_then_no_more() -> None:
    image = image_with(a=b"", b=b"")
    image.inject(DiskFault("open", DiskCause.PERMISSION, "/data/a", times=2))
    disk = MemoryDisk(image)
    disk.read("/data/b")
    for _ in range(2):
        with pytest.raises(DiskError) as caught:
            disk.read("/data/a")
        assert caught.value.cause is DiskCause.PERMISSION
    disk.read("/data/a")
    image.inject(DiskFault("open", DiskCause.IO, times=None))
    for _ in range(5):
        with pytest.raises(DiskError):
            disk.read("/data/b")


def test_a_fault_on_an_operation_that_does_not_exist_is_a_typing_error_of_the_test() -> None:
    with pytest.raises(InvalidFieldError, match="fsync directory"):
        DiskFault("fsink", DiskCause.IO)


def test_a_slow_sync_makes_the_timers_of_its_host_late() -> None:
    async def main() -> int:
        host = VirtualHost()
        clock = VirtualClock(host=host)
        image = image_with()
        image.on_fsync = lambda _path: host.stall(2.0)
        clock.call_later(0.5, lambda: None)
        write(MemoryDisk(image), "/data/f", 0, b"x", sync=True)
        await clock.sleep(0.5)
        return virtual_loop().now_ns

    assert run_virtual(main()) == 2_000_000_000


def test_a_flipped_bit_is_there_for_readers_and_after_a_cut() -> None:
    image = image_with(log=b"\x00\x00")
    image.flip_bit("/data/log", 1, 3)
    assert MemoryDisk(image).read("/data/log") == b"\x00\x08"
    assert after_cut(image, 0).read("/data/log") == b"\x00\x08"


def test_a_directory_rolled_back_is_the_older_copy_whatever_was_pending_and_the_copy_stays_good() -> None:
    image = image_with(epoch=b"41", gone=b"x")
    saved = image.save("/data")
    for seed in SEEDS:
        disk = MemoryDisk(image)
        for epoch in (b"42", b"43"):
            atomic_write(disk, "/data/epoch", epoch)
        disk.remove("/data/gone")
        write(disk, "/data/newer", 0, b"x", sync=False)
        image.roll_back(saved)
        left = after_cut(image, seed)
        assert left.list_names("/data") == ("epoch", "gone")
        assert left.read("/data/epoch") == b"41"


def test_the_root_can_neither_be_removed_nor_replaced() -> None:
    disk = MemoryDisk()
    with pytest.raises(DiskError):
        disk.rmdir("/")
    with pytest.raises(DiskError):
        disk.open("/", OpenMode.UPDATE_OR_CREATE)
