"""The journal under kills, power cuts and damage.

Rules: `providers#kit`, `providers#durable-state`, `providers#persist-before-ack`.
"""

import asyncio
from collections.abc import Iterator

import pytest

from bigfleet.aio.disk import DiskCause, DiskError, OpenMode
from bigfleet.aio.rng import SeededRng
from bigfleet.model.errors import BigFleetError
from bigfleet.provider.kit.frames import DamagedStoreError
from bigfleet.provider.kit.journal import BrokenStoreError, Journal
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.disk.image import DiskFault, DiskImage
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, Operation, ProcessKilledError
from bigfleet.testing.loop import run_virtual

ENTRIES = tuple(b"entry %d " % number * (number + 1) for number in range(6))


def journal(disk: MemoryDisk, **given: int) -> Journal:
    return Journal("/state", disk=disk, clock=VirtualClock(), rng=SeededRng(7), **given)


def contents(disk: MemoryDisk) -> list[bytes]:
    async def read() -> list[bytes]:
        store = journal(disk)
        try:
            return list(store.open())
        finally:
            await store.close()

    return run_virtual(read())


async def append(store: Journal, entry: bytes) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def written(problem: BigFleetError | None) -> None:
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    store.append(entry, written)
    await done


def story(disk: MemoryDisk, durable: list[bytes]) -> None:
    """Fill a store: a first snapshot, entries one by one, a second snapshot, more entries; `durable` is what was confirmed."""

    async def run_story() -> None:
        store = journal(disk)
        durable.extend(store.open())
        await store.snapshot(iter([b"snapshot"]))
        if b"snapshot" not in durable:
            durable.append(b"snapshot")
        for number, entry in enumerate(ENTRIES):
            if number == 3:
                await store.snapshot(iter(list(durable)))
            await append(store, entry)
            durable.append(entry)
        await store.close()

    run_virtual(run_story())


def test_what_was_written_is_read_back_in_order() -> None:
    image, durable = DiskImage(), list[bytes]()
    story(MemoryDisk(image), durable)
    assert contents(MemoryDisk(image)) == durable == [b"snapshot", *ENTRIES]


def operations_of_the_story() -> list[Operation]:
    seen: list[Operation] = []
    story(MemoryDisk(DiskImage(), seen.append), [])
    return seen


STORY = operations_of_the_story()


def kills() -> Iterator[tuple[int, int]]:
    for operation in STORY:
        yield operation.number, 0
        if operation.kind == "write":
            yield from ((operation.number, part) for part in (1, operation.length // 2, operation.length))


@pytest.mark.rule("providers#durable-state")
@pytest.mark.parametrize("seed", [None, 1, 2, 3], ids=["killed", "power cut 1", "power cut 2", "power cut 3"])
def test_a_kill_at_any_operation_of_the_disk_loses_nothing_that_was_confirmed(seed: int | None) -> None:
    for number, part in kills():
        image, durable = DiskImage(), list[bytes]()
        with pytest.raises((ProcessKilledError, BigFleetError)):
            story(MemoryDisk(image, KillAt(number, part)), durable)
        if seed is not None:
            image.power_cut(SeededRng(seed).child(f"{number}/{part}").stream("power"))
        found = contents(MemoryDisk(image))
        # What was confirmed is there, in order; one entry more may be, whose confirmation was cut off.
        reported = [entry for entry in found if entry in durable]
        assert reported == durable, f"killed at {STORY[number - 1]} after {part} bytes"
        assert len(found) <= len(durable) + 1
        # What was found once stays found, whatever happens before anything else is written.
        image.power_cut(SeededRng(number).child("again").stream("power"))
        assert contents(MemoryDisk(image)) == found
        # And the store goes on from there.
        rest: list[bytes] = []
        story_after(image, rest)
        assert contents(MemoryDisk(image)) == rest


def story_after(image: DiskImage, durable: list[bytes]) -> None:
    async def run_story() -> None:
        store = journal(MemoryDisk(image))
        durable.extend(store.open())
        await store.snapshot(iter(durable or [b"first"]))
        if not durable:
            durable.append(b"first")
        await append(store, b"more")
        durable.append(b"more")
        await store.close()

    run_virtual(run_story())


@pytest.mark.rule("providers#durable-state")
@pytest.mark.parametrize("file", ["snapshot", "journal.2"])
def test_a_flipped_bit_is_refused_with_the_file_named(file: str) -> None:
    size = story_image().file("size", f"/state/{file}").content
    # The last frame is the witness of what was synced; a bad witness costs nothing and is cut.
    end = len(size) if file == "snapshot" else len(size) - 20
    for offset in range(end):
        image = story_image()
        image.flip_bit(f"/state/{file}", offset, offset % 8)
        with pytest.raises(DamagedStoreError) as refused:
            contents(MemoryDisk(image))
        assert refused.value.path == f"/state/{file}"
        assert f"/state/{file}" in str(refused.value)


def story_image() -> DiskImage:
    image = DiskImage()
    story(MemoryDisk(image), [])
    image.sync_all()
    return image


@pytest.mark.parametrize("file", ["snapshot", "journal.2"])
def test_a_missing_file_is_refused_with_its_name(file: str) -> None:
    image = story_image()
    MemoryDisk(image).remove(f"/state/{file}")
    with pytest.raises(DamagedStoreError) as refused:
        contents(MemoryDisk(image))
    assert refused.value.path == f"/state/{file}"


@pytest.mark.rule("providers#durable-state")
def test_a_torn_tail_is_cut_and_the_rest_is_kept() -> None:
    image = story_image()
    node = image.file("size", "/state/journal.2")
    with MemoryDisk(image).open("/state/journal.2", OpenMode.UPDATE) as file:
        file.append(b"bfp\xf7\xff\x00\x00\x00 torn")
    torn = len(node.content)
    assert contents(MemoryDisk(image)) == [b"snapshot", *ENTRIES]
    assert len(node.content) < torn


def test_stored_text_cannot_pose_as_a_frame() -> None:
    # A caller that knows the format stores a frame in its metadata; a torn tail behind it must still be a torn tail.
    from bigfleet.provider.kit.frames import pack

    image, durable = DiskImage(), list[bytes]()
    story(MemoryDisk(image), durable)
    forged = pack(b"forged", salt=0, offset=99, synced=1 << 40)

    async def add() -> None:
        store = journal(MemoryDisk(image))
        list(store.open())
        await append(store, forged)
        await store.close()

    run_virtual(add())
    content = image.file("size", "/state/journal.2").content
    start = content.index(forged) - 20
    # Lose the last empty frame, and damage the one with the forgery: nothing says it was synced, so it is a tail.
    MemoryDisk(image).open("/state/journal.2", OpenMode.UPDATE).truncate(len(content) - 20)
    image.flip_bit("/state/journal.2", start + 4)
    assert contents(MemoryDisk(image)) == durable


def test_a_full_disk_refuses_the_entry_and_takes_the_next_one_later() -> None:
    image, durable = DiskImage(), list[bytes]()
    story(MemoryDisk(image), durable)

    async def fill() -> None:
        store = journal(MemoryDisk(image))
        list(store.open())
        image.quota_bytes = image_bytes(image) + 30
        with pytest.raises(BigFleetError, match="no space left"):
            await append(store, b"x" * 100)
        image.quota_bytes = None
        await append(store, b"fits")
        await store.close()

    run_virtual(fill())
    assert contents(MemoryDisk(image)) == [*durable, b"fits"]


def image_bytes(image: DiskImage) -> int:
    disk = MemoryDisk(image)
    return sum(disk.stat(f"/state/{name}").size for name in disk.list_names("/state"))


def test_after_a_failed_sync_nothing_is_written_any_more() -> None:
    image = DiskImage()
    story(MemoryDisk(image), [])

    async def fail() -> None:
        store = journal(MemoryDisk(image))
        list(store.open())
        failing = asyncio.ensure_future(store.wait_failure())
        await asyncio.sleep(0)
        image.inject(DiskFault("fsync", DiskCause.IO))
        with pytest.raises(DiskError):
            await append(store, b"lost")
        with pytest.raises(DiskError):
            await append(store, b"refused")
        assert isinstance(await failing, DiskError)
        with pytest.raises(DiskError):
            await store.snapshot(iter([b"never"]))
        await store.close()

    run_virtual(fail())


def test_entries_that_wait_for_one_sync_share_it() -> None:
    image = DiskImage()
    story(MemoryDisk(image), [])
    syncs: list[str] = []

    async def together() -> None:
        store = journal(MemoryDisk(image))
        list(store.open())
        image.on_fsync = syncs.append
        observed: list[float] = []
        store.observe_syncs(observed.append)
        await asyncio.gather(*(append(store, b"entry") for _ in range(50)))
        assert len(observed) == len(syncs)
        await store.close()

    run_virtual(together())
    assert 1 <= len(syncs) <= 2


def test_a_failed_snapshot_leaves_everything_readable_and_can_be_repeated() -> None:
    image, durable = DiskImage(), list[bytes]()
    story(MemoryDisk(image), durable)

    async def fail() -> None:
        store = journal(MemoryDisk(image))
        list(store.open())
        image.inject(DiskFault("rename", DiskCause.IO))
        with pytest.raises(DiskError):
            await store.snapshot(iter([b"never"]))
        await append(store, b"goes on")
        await store.close()

    run_virtual(fail())
    assert contents(MemoryDisk(image)) == [*durable, b"goes on"]

    async def repeat() -> None:
        store = journal(MemoryDisk(image))
        await store.snapshot(iter([b"|".join(store.open())]))
        await store.close()

    run_virtual(repeat())
    assert contents(MemoryDisk(image)) == [b"|".join([*durable, b"goes on"])]
    names = MemoryDisk(image).list_names("/state")
    assert sum(name.startswith("journal.") for name in names) == 1


def test_a_store_belongs_to_one_process() -> None:
    async def two() -> None:
        image = DiskImage()
        first = journal(MemoryDisk(image))
        list(first.open())
        with pytest.raises(DiskError) as refused:
            list(journal(MemoryDisk(image)).open())
        assert refused.value.cause is DiskCause.LOCKED
        await first.close()

    run_virtual(two())


def test_a_snapshot_is_wanted_once_the_journal_has_outgrown_both_limit_and_snapshot() -> None:
    wanted: list[bool] = []

    async def grow() -> None:
        store = journal(MemoryDisk(), snapshot_after_bytes=1000)
        list(store.open())
        await store.snapshot(iter([b"s" * 2000]))
        wanted.append(store.wants_snapshot)
        await append(store, b"x" * 1500)
        wanted.append(store.wants_snapshot)  # the journal is smaller than the snapshot that would replace it
        await append(store, b"x" * 1500)
        wanted.append(store.wants_snapshot)
        await store.snapshot(iter([b"small"]))
        wanted.append(store.wants_snapshot)
        await store.close()

    run_virtual(grow())
    assert wanted == [False, False, True, False]


def test_a_store_that_was_not_opened_takes_nothing() -> None:
    async def use() -> None:
        with pytest.raises(BrokenStoreError):
            await append(journal(MemoryDisk()), b"entry")

    run_virtual(use())
