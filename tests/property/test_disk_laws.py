"""Laws of the disk on random sequences of operations.

The in-memory disk answers every sequence as the real one does, and a power cut takes nothing that was synced and invents
nothing that was never written.
"""

import posixpath
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.aio.disk import Disk, DiskError, File, OpenMode
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk

Step = tuple[str, Callable[[Disk, str], object]]

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a", "missing/a"])
DATA = st.binary(max_size=12)
OFFSETS = st.integers(0, 20)


def on_file(root: str, name: str, use: Callable[[File], object], mode: OpenMode) -> Callable[[Disk], object]:
    def step(disk: Disk) -> object:
        with disk.open(posixpath.join(root, name), mode) as file:
            return use(file)

    return step


def steps() -> st.SearchStrategy[Step]:
    """Return one operation with its description; called with the disk and the directory to work in."""
    at = posixpath.join
    modes = st.sampled_from(OpenMode)
    return st.one_of(
        st.builds(
            lambda name, mode, offset, data: (
                f"write {name} {mode.name} {offset} {data!r}",
                lambda disk, root: on_file(root, name, lambda file: file.pwrite(offset, data), mode)(disk),
            ),
            NAMES, modes, OFFSETS, DATA,
        ),
        st.builds(
            lambda name, data: (
                f"append {name} {data!r}",
                lambda disk, root: on_file(root, name, lambda file: file.append(data), OpenMode.UPDATE)(disk),
            ),
            NAMES, DATA,
        ),
        st.builds(
            lambda name, length: (
                f"truncate {name} {length}",
                lambda disk, root: on_file(root, name, lambda file: file.truncate(length), OpenMode.UPDATE)(disk),
            ),
            NAMES, OFFSETS,
        ),
        st.builds(
            lambda name, offset, length: (
                f"read {name} {offset} {length}",
                lambda disk, root: on_file(root, name, lambda file: file.pread(offset, length), OpenMode.READ)(disk),
            ),
            NAMES, OFFSETS, OFFSETS,
        ),
        st.builds(
            lambda source, target: (
                f"rename {source} {target}",
                lambda disk, root: disk.rename(at(root, source), at(root, target)),
            ),
            NAMES, NAMES,
        ),
        st.builds(lambda name: (f"mkdir {name}", lambda disk, root: disk.mkdir(at(root, name))), NAMES),
        st.builds(lambda name: (f"remove {name}", lambda disk, root: disk.remove(at(root, name))), NAMES),
        st.builds(lambda name: (f"rmdir {name}", lambda disk, root: disk.rmdir(at(root, name))), NAMES),
        st.builds(lambda name: (f"list {name}", lambda disk, root: disk.list_names(at(root, name))), NAMES),
        st.builds(lambda name: (f"stat {name}", lambda disk, root: disk.stat(at(root, name))), NAMES),
        st.builds(lambda name: (f"exists {name}", lambda disk, root: disk.exists(at(root, name))), NAMES),
        st.builds(lambda name: (f"sync {name}", lambda disk, root: disk.fsync_directory(at(root, name))), NAMES),
    )  # fmt: skip


def answer(step: Step, disk: Disk, root: str) -> object:
    """Return what an operation answers, or the kind of its refusal."""
    try:
        return step[1](disk, root)
    except DiskError as error:
        return error.operation, error.cause


def tree(disk: Disk, path: str) -> object:
    if disk.stat(path).is_directory:
        return {name: tree(disk, posixpath.join(path, name)) for name in disk.list_names(path)}
    return disk.read(path)


@contextmanager
def scratch() -> Iterator[str]:
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.mark.integration
@settings(max_examples=150, deadline=None)
@given(st.lists(steps(), max_size=25))
def test_the_disk_in_memory_answers_as_the_real_one(sequence: list[Step]) -> None:
    memory = MemoryDisk()
    memory.mkdir("/root")
    with scratch() as real_root:
        real = SystemDisk()
        for step in sequence:
            assert answer(step, memory, "/root") == answer(step, real, real_root), step[0]
        assert tree(memory, "/root") == tree(real, real_root)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps(), max_size=25), st.lists(steps(), max_size=10), st.integers(0, 1_000))
def test_a_cut_right_after_everything_was_synced_changes_nothing(
    before: list[Step], after: list[Step], seed: int
) -> None:
    image = DiskImage()
    disk = MemoryDisk(image)
    disk.mkdir("/root")
    for step in before:
        answer(step, disk, "/root")
    image.sync_all()
    expected = tree(disk, "/root")
    image.power_cut(SeededRng(seed).stream("power"))
    assert tree(MemoryDisk(image), "/root") == expected
    for step in after:
        answer(step, MemoryDisk(image), "/root")
    first = tree(MemoryDisk(image), "/root")
    image.sync_all()
    image.power_cut(SeededRng(seed).stream("again"))
    assert tree(MemoryDisk(image), "/root") == first


WRITES = st.lists(st.tuples(OFFSETS, st.binary(min_size=1, max_size=12), st.booleans()), max_size=12)


@settings(max_examples=300, deadline=None)
@given(WRITES, st.integers(0, 1_000))
def test_every_byte_after_a_cut_was_synced_or_written_later_or_is_a_gap(
    writes: list[tuple[int, bytes, bool]], seed: int
) -> None:
    image = DiskImage()
    disk = MemoryDisk(image)
    file = disk.open("/f", OpenMode.CREATE)
    disk.fsync_directory("/")
    synced = bytearray()
    later: list[tuple[int, bytes]] = []
    for offset, data, sync in writes:
        file.pwrite(offset, data)
        later.append((offset, data))
        if sync:
            file.fsync()
            synced, later = bytearray(disk.read("/f")), []
    longest = max([len(synced), *(offset + len(data) for offset, data in later)])
    image.power_cut(SeededRng(seed).stream("power"))
    left = MemoryDisk(image).read("/f")
    assert len(synced) <= len(left) <= longest
    for position, byte in enumerate(left):
        possible = {synced[position] if position < len(synced) else 0}
        possible |= {
            data[position - offset] for offset, data in later if offset <= position < offset + len(data)
        }
        assert byte in possible, position


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.booleans()), max_size=10),
    st.integers(0, 1_000),
)
def test_a_file_never_loses_its_last_name_to_renames(moves: list[tuple[str, str, bool]], seed: int) -> None:
    image = DiskImage()
    disk = MemoryDisk(image)
    for name in "xyz":
        disk.mkdir(f"/{name}")
    with disk.open("/x/a", OpenMode.CREATE) as file:
        file.pwrite(0, b"the only one")
    image.sync_all()
    place = "/x/a"
    for number, (directory, name, sync) in enumerate(moves):
        target = f"/{'xyz'['abc'.index(directory)]}/{name}{number}"
        disk.rename(place, target)
        place = target
        if sync:
            disk.fsync_directory(posixpath.dirname(target))
    image.power_cut(SeededRng(seed).stream("power"))
    left = MemoryDisk(image)
    found = [left.read(f"/{name}/{inside}") for name in "xyz" for inside in left.list_names(f"/{name}")]
    assert found
    assert all(content == b"the only one" for content in found)
