"""Preflight: each rule of `coordinator#durability`, and every damaged image of its table."""

from collections.abc import Callable
from hashlib import sha256

import pytest

from bigfleet.aio.disk import DiskCause, OpenMode
from bigfleet.coordinator.log import DamagedDirectoryError, LogDiskError
from bigfleet.coordinator.raft.dump import Dump, encode, write_dump
from bigfleet.coordinator.raft.journal import write_journal
from bigfleet.coordinator.raft.metadata import RaftMetadata, write_metadata
from bigfleet.coordinator.raft.preflight import DirectoryContents, examine
from bigfleet.coordinator.raft.records import LogEntry
from bigfleet.testing.disk.image import DiskFault, DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from tests.support.coordinator.journal_offsets import offsets

JOURNAL, META, DUMP = "/data/journal", "/data/journal.meta", "/data/dump"


def entries(first: int, last: int, term: int = 1) -> list[LogEntry]:
    return [LogEntry(b"\x00" + str(index).encode(), index, term) for index in range(first, last + 1)]


def dump(index: int, term: int = 1) -> Dump:
    before, last = entries(index - 1, index, term)
    return Dump(last, before, ("a", "b"), {"pairs": {"k": 1}})


class Image:
    def __init__(self) -> None:
        self.image = DiskImage()
        self.disk = MemoryDisk(self.image)
        self.disk.mkdir("/data")

    def journal(self, *parts: list[LogEntry]) -> "Image":
        write_journal(self.disk, JOURNAL, [entry for part in parts for entry in part])
        return self

    def meta(self, commit: int = 1, term: int = 1) -> "Image":
        write_metadata(self.disk, META, RaftMetadata(term, None, commit))
        return self

    def dump(self, index: int, term: int = 1) -> "Image":
        write_dump(self.disk, DUMP, dump(index, term))
        return self

    def edit(self, path: str, change: Callable[[bytearray], None]) -> "Image":
        data = bytearray(self.disk.read(path))
        change(data)
        self.disk.remove(path)
        with self.disk.open(path, OpenMode.CREATE) as file:
            file.pwrite(0, bytes(data))
        return self

    def examine(self) -> DirectoryContents:
        return examine(self.disk, JOURNAL, DUMP)


def good() -> Image:
    return Image().journal(entries(1, 40)).meta(commit=38)


def numbers(found: DirectoryContents) -> tuple[int, int]:
    return found.entries[0].index, found.entries[-1].index


@pytest.mark.rule("coordinator#durability")
def test_nothing_and_the_initial_entry_alone_count_as_empty() -> None:
    assert Image().examine().is_empty
    assert Image().journal(entries(1, 1, term=0)).examine().is_empty
    assert not good().examine().is_empty


def test_a_good_image_is_taken_as_it_is() -> None:
    found = good().examine()
    assert numbers(found) == (1, 40)
    assert found.metadata.commit == 38


@pytest.mark.rule("coordinator#durability")
def test_entries_newer_than_the_dump_are_kept() -> None:
    # The image of 17.2: the dump has its name, the journal was not trimmed yet. Stock kept 30 of 40.
    found = good().dump(30).examine()
    assert numbers(found) == (29, 40)
    assert found.dump is not None


@pytest.mark.rule("coordinator#durability")
def test_dump_and_journal_of_different_histories_are_refused() -> None:
    image = Image().journal(entries(1, 40, term=5)).meta(commit=35).dump(30, term=4)
    with pytest.raises(DamagedDirectoryError, match=DUMP):
        image.examine()


@pytest.mark.rule("coordinator#durability")
def test_a_snapshot_overrules_a_stale_tail_that_was_never_committed() -> None:
    found = Image().journal(entries(1, 40, term=1)).meta(commit=20).dump(30, term=5).examine()
    assert numbers(found) == (29, 30)
    assert found.entries[-1].term == 5


@pytest.mark.rule("coordinator#durability")
def test_a_journal_older_than_the_dump_gives_way() -> None:
    found = Image().journal(entries(1, 10)).meta(commit=10).dump(30, term=3).examine()
    assert numbers(found) == (29, 30)


@pytest.mark.rule("coordinator#preflight")
def test_an_unacknowledged_torn_tail_is_left_behind() -> None:
    image = good().edit(JOURNAL, lambda data: data.extend(b"\x40\x00\x00\x00garbage"))
    found = image.examine()
    assert numbers(found) == (1, 40)


def _cut_below_commit(data: bytearray) -> None:
    del data[offsets(bytes(data))[30] + 5 :]


def _flip(place: float) -> Callable[[bytearray], None]:
    def flip(data: bytearray) -> None:
        data[int(len(data) * place)] ^= 4

    return flip


def _garbage_length(data: bytearray) -> None:
    at = offsets(bytes(data))[19]
    data[at : at + 4] = b"\xff\xff\xff\x7f"


@pytest.mark.rule("coordinator#preflight", "coordinator#damaged-files")
@pytest.mark.parametrize(
    ("image", "file"),
    [
        pytest.param(lambda: good().edit(JOURNAL, bytes_cleared), JOURNAL, id="empty journal"),
        pytest.param(lambda: good().edit(JOURNAL, _cut_below_commit), JOURNAL, id="half a journal"),
        pytest.param(lambda: good().edit(JOURNAL, _garbage_length), JOURNAL, id="garbage length mid-file"),
        pytest.param(lambda: good().edit(JOURNAL, _flip(0.5)), JOURNAL, id="flipped bit in a command"),
        pytest.param(lambda: good().edit(JOURNAL, _flip(0.0)), JOURNAL, id="flipped bit in the magic"),
        pytest.param(lambda: good().edit(META, _flip(0.4)), META, id="metadata damaged"),
        pytest.param(lambda: good().edit(META, bytes_cleared), META, id="metadata empty"),
        pytest.param(lambda: without(good(), META), META, id="metadata gone"),
        pytest.param(lambda: without(good(), JOURNAL), JOURNAL, id="journal gone, metadata there"),
        pytest.param(lambda: good().dump(30).edit(DUMP, _flip(0.7)), DUMP, id="dump damaged"),
        pytest.param(lambda: good().dump(30).edit(DUMP, _flip(0.01)), DUMP, id="dump's checksum damaged"),
        pytest.param(lambda: trimmed().edit(DUMP, bytes_cleared), DUMP, id="dump empty"),
        pytest.param(lambda: without(trimmed(), DUMP), DUMP, id="dump gone"),
        pytest.param(lambda: without(trimmed(), JOURNAL), JOURNAL, id="dump without journal"),
        pytest.param(
            lambda: Image().journal(entries(35, 40)).meta().dump(30), JOURNAL, id="gap after the dump"
        ),
    ],
)
def test_each_damaged_image_is_refused_and_the_file_named(image: Callable[[], Image], file: str) -> None:
    with pytest.raises(DamagedDirectoryError) as refused:
        image().examine()
    assert refused.value.path == file
    assert refused.value.exit_code == 71
    assert file in str(refused.value)


def test_what_cannot_be_read_is_refused_too() -> None:
    image = good()
    image.image.inject(DiskFault("open", DiskCause.PERMISSION, META))
    with pytest.raises(DamagedDirectoryError, match=META):
        image.examine()
    image.image.inject(DiskFault("read", DiskCause.IO, JOURNAL))
    with pytest.raises(LogDiskError):
        image.examine()


def bytes_cleared(data: bytearray) -> None:
    data.clear()


def trimmed() -> Image:
    return Image().journal(entries(29, 40)).meta(commit=38).dump(30)


def without(image: Image, path: str) -> Image:
    image.disk.remove(path)
    return image


def test_a_dump_whose_checksum_fits_and_whose_content_does_not_is_refused() -> None:
    image = trimmed()
    data = encode(Dump(LogEntry(b"", 30, 1), LogEntry(b"", 29, 1), (), {}))
    body = data[65:].replace(b'"last"', b'"lost"')
    image.edit(
        DUMP, lambda old: old.__setitem__(slice(None), sha256(body).hexdigest().encode() + b"\n" + body)
    )
    with pytest.raises(DamagedDirectoryError, match="its content is not a dump"):
        image.examine()
