"""What every disk promises: one suite over the real file system and the one in memory."""

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from bigfleet.aio.disk import Disk, DiskCause, DiskError, OpenMode, atomic_write, ensure_directory
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.testing.disk.virtual_disk import MemoryDisk


@dataclass(frozen=True, slots=True)
class Place:
    """A disk and a directory on it that exists and is empty."""

    disk: Disk
    root: str

    def at(self, name: str) -> str:
        return posixpath.join(self.root, name)

    def write(self, name: str, data: bytes) -> str:
        with self.disk.open(self.at(name), OpenMode.CREATE) as file:
            file.pwrite(0, data)
        return self.at(name)


@pytest.fixture(params=["memory", pytest.param("system", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "system":
        return Place(SystemDisk(), str(tmp_path))
    disk = MemoryDisk()
    disk.mkdir("/data")
    return Place(disk, "/data")


def cause_of(caught: pytest.ExceptionInfo[DiskError]) -> DiskCause:
    return caught.value.cause


def test_what_was_written_is_read(place: Place) -> None:
    path = place.write("a", b"hello")
    assert place.disk.read(path) == b"hello"
    assert place.disk.read(PurePosixPath(path)) == b"hello"
    with place.disk.open(path, OpenMode.READ) as file:
        assert file.path == path
        assert file.size() == 5
        assert file.pread(1, 3) == b"ell"
        assert file.pread(3, 100) == b"lo"
        assert file.pread(5, 1) == b""
        assert file.pread(0, 0) == b""


def test_writes_stand_where_they_were_put_and_gaps_read_as_zeros(place: Place) -> None:
    path = place.write("a", b"hello")
    with place.disk.open(path, OpenMode.UPDATE) as file:
        file.pwrite(1, b"EL")
        file.pwrite(7, b"!")
        file.pwrite(100, b"")
        assert file.append(b"end") == 8
        assert file.size() == 11
    assert place.disk.read(path) == b"hELlo\0\0!end"


def test_truncating_cuts_and_lengthens_with_zeros(place: Place) -> None:
    path = place.write("a", b"hello")
    with place.disk.open(path, OpenMode.UPDATE) as file:
        file.truncate(2)
        assert place.disk.read(path) == b"he"
        file.truncate(4)
        assert place.disk.read(path) == b"he\0\0"
        file.fsync()
        file.datasync()


@pytest.mark.parametrize(
    ("mode", "cause"),
    [(OpenMode.READ, DiskCause.MISSING), (OpenMode.UPDATE, DiskCause.MISSING)],
)
def test_opening_what_is_not_there_names_the_path(place: Place, mode: OpenMode, cause: DiskCause) -> None:
    with pytest.raises(DiskError) as caught:
        place.disk.open(place.at("gone"), mode)
    assert cause_of(caught) is cause
    assert caught.value.path == place.at("gone")
    assert place.at("gone") in str(caught.value)
    assert "no such file" in str(caught.value)


def test_create_refuses_what_exists_and_the_other_modes_keep_its_content(place: Place) -> None:
    path = place.write("a", b"old")
    with pytest.raises(DiskError) as caught:
        place.disk.open(path, OpenMode.CREATE)
    assert cause_of(caught) is DiskCause.EXISTS
    with place.disk.open(path, OpenMode.UPDATE_OR_CREATE) as file:
        assert file.pread(0, 10) == b"old"
    with place.disk.open(place.at("b"), OpenMode.UPDATE_OR_CREATE) as file:
        assert file.size() == 0


def test_a_file_opened_to_read_cannot_be_written(place: Place) -> None:
    path = place.write("a", b"old")
    with place.disk.open(path, OpenMode.READ) as file:
        with pytest.raises(DiskError) as caught:
            file.pwrite(0, b"new")
        assert cause_of(caught) is DiskCause.PERMISSION
        with pytest.raises(DiskError):
            file.truncate(0)
        with pytest.raises(DiskError):
            file.append(b"new")
    assert place.disk.read(path) == b"old"


def test_a_closed_file_is_of_no_use_and_may_be_closed_again(place: Place) -> None:
    path = place.write("a", b"old")
    file = place.disk.open(path, OpenMode.UPDATE)
    file.close()
    file.close()
    for use in (file.size, file.fsync, file.datasync, lambda: file.pread(0, 1), lambda: file.pwrite(0, b"x")):
        with pytest.raises(DiskError) as caught:
            use()
        assert cause_of(caught) is DiskCause.CLOSED


def test_an_open_file_outlives_its_name(place: Place) -> None:
    path = place.write("a", b"old")
    with place.disk.open(path, OpenMode.UPDATE) as file:
        place.disk.remove(path)
        file.append(b"er")
        assert file.pread(0, 10) == b"older"
    assert not place.disk.exists(path)


def test_rename_replaces_a_file(place: Place) -> None:
    new, old = place.write("new", b"new"), place.write("old", b"old")
    place.disk.rename(new, old)
    assert place.disk.read(old) == b"new"
    assert place.disk.list_names(place.root) == ("old",)
    place.disk.rename(old, old)
    assert place.disk.read(old) == b"new"


def test_a_directory_can_move_with_all_it_holds(place: Place) -> None:
    place.disk.mkdir(place.at("d"))
    place.write("d/f", b"x")
    place.disk.mkdir(place.at("empty"))
    place.disk.rename(place.at("d"), place.at("empty"))
    assert place.disk.read(place.at("empty/f")) == b"x"
    assert place.disk.list_names(place.root) == ("empty",)


@pytest.mark.parametrize(
    ("source", "target", "cause"),
    [
        ("gone", "f", DiskCause.MISSING),
        ("f", "gone/f", DiskCause.MISSING),
        ("f", "d", DiskCause.WRONG_KIND),
        ("d", "f", DiskCause.WRONG_KIND),
        ("f", "f/f", DiskCause.WRONG_KIND),
        ("empty", "d", DiskCause.NOT_EMPTY),
        ("d", "d/inside", DiskCause.IO),
    ],
)
def test_a_rename_that_cannot_be_is_refused_and_changes_nothing(
    place: Place, source: str, target: str, cause: DiskCause
) -> None:
    place.write("f", b"file")
    place.disk.mkdir(place.at("d"))
    place.write("d/g", b"held")
    place.disk.mkdir(place.at("empty"))
    with pytest.raises(DiskError) as caught:
        place.disk.rename(place.at(source), place.at(target))
    assert cause_of(caught) is cause
    assert place.disk.list_names(place.root) == ("d", "empty", "f")
    assert place.disk.read(place.at("f")) == b"file"
    assert place.disk.list_names(place.at("d")) == ("g",)


def test_directories_are_made_listed_sorted_and_removed_when_empty(place: Place) -> None:
    place.disk.mkdir(place.at("d"))
    for name in ("c", "a", "b"):
        place.write(f"d/{name}", b"")
    assert place.disk.list_names(place.at("d")) == ("a", "b", "c")
    with pytest.raises(DiskError) as caught:
        place.disk.rmdir(place.at("d"))
    assert cause_of(caught) is DiskCause.NOT_EMPTY
    for name in ("a", "b", "c"):
        place.disk.remove(place.at(f"d/{name}"))
    place.disk.rmdir(place.at("d"))
    assert place.disk.list_names(place.root) == ()


@pytest.mark.parametrize(
    "use", ["open", "mkdir", "remove", "rmdir", "list", "fsync directory", "stat", "lock"]
)
def test_a_file_in_the_place_of_a_directory_or_the_other_way_round_is_told(place: Place, use: str) -> None:
    file = place.write("f", b"")
    place.disk.mkdir(place.at("d"))
    disk, inside = place.disk, place.at("f/x")
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open(place.at("d"), OpenMode.UPDATE),
        "mkdir": lambda: disk.mkdir(inside),
        "remove": lambda: disk.remove(place.at("d")),
        "rmdir": lambda: disk.rmdir(file),
        "list": lambda: disk.list_names(file),
        "fsync directory": lambda: disk.fsync_directory(file),
        "stat": lambda: disk.stat(inside),
        "lock": lambda: disk.lock(inside),
    }
    with pytest.raises(DiskError) as caught:
        calls[use]()
    assert cause_of(caught) is DiskCause.WRONG_KIND
    assert caught.value.operation == use


@pytest.mark.parametrize(
    "use", ["mkdir", "remove", "rmdir", "list", "fsync directory", "stat", "lock", "read"]
)
def test_what_is_missing_is_told_as_missing(place: Place, use: str) -> None:
    disk, path = place.disk, place.at("gone/x")
    calls: dict[str, Callable[[], object]] = {
        "mkdir": lambda: disk.mkdir(path),
        "remove": lambda: disk.remove(path),
        "rmdir": lambda: disk.rmdir(path),
        "list": lambda: disk.list_names(path),
        "fsync directory": lambda: disk.fsync_directory(path),
        "stat": lambda: disk.stat(path),
        "lock": lambda: disk.lock(path),
        "read": lambda: disk.read(path),
    }
    with pytest.raises(DiskError) as caught:
        calls[use]()
    assert cause_of(caught) is DiskCause.MISSING


def test_stat_tells_size_kind_and_permissions(place: Place) -> None:
    path = place.write("a", b"12345")
    with place.disk.open(place.at("open to all"), OpenMode.CREATE, permissions=0o666):
        pass
    place.disk.mkdir(place.at("d"))
    stat = place.disk.stat(path)
    assert (stat.size, stat.is_directory, stat.permissions) == (5, False, 0o600)
    assert place.disk.stat(place.at("open to all")).permissions == 0o666
    stat = place.disk.stat(place.at("d"))
    assert (stat.size, stat.is_directory, stat.permissions) == (0, True, 0o700)
    assert place.disk.exists(path)
    assert place.disk.exists(place.root)
    assert not place.disk.exists(place.at("gone"))
    assert not place.disk.exists(place.at("a/below a file"))


def test_making_a_directory_twice_is_refused(place: Place) -> None:
    place.disk.mkdir(place.at("d"))
    with pytest.raises(DiskError) as caught:
        place.disk.mkdir(place.at("d"))
    assert cause_of(caught) is DiskCause.EXISTS


@pytest.mark.parametrize("what", ["directory", "file"])
def test_a_second_lock_is_refused_naming_the_path_until_the_first_is_let_go(place: Place, what: str) -> None:
    path = place.root if what == "directory" else place.write("f", b"")
    first = place.disk.lock(path)
    with pytest.raises(DiskError) as caught:
        place.disk.lock(path)
    assert cause_of(caught) is DiskCause.LOCKED
    assert caught.value.path == path
    assert path in str(caught.value)
    first.close()
    first.close()
    with place.disk.lock(path), pytest.raises(DiskError):
        place.disk.lock(path)
    place.disk.lock(path).close()


def test_a_lock_of_a_directory_does_not_keep_its_files_from_use(place: Place) -> None:
    with place.disk.lock(place.root):
        assert place.disk.read(place.write("f", b"x")) == b"x"


def test_syncs_of_files_and_directories_succeed(place: Place) -> None:
    path = place.write("f", b"x")
    with place.disk.open(path, OpenMode.READ) as file:
        file.fsync()
    place.disk.fsync_directory(place.root)
    assert place.disk.read(path) == b"x"


def test_an_atomic_write_replaces_all_and_leaves_nothing_else(place: Place) -> None:
    path = place.at("epoch")
    atomic_write(place.disk, path, b"41")
    assert place.disk.read(path) == b"41"
    atomic_write(place.disk, path, b"7")
    assert place.disk.read(path) == b"7"
    assert place.disk.stat(path).permissions == 0o600
    assert place.disk.list_names(place.root) == ("epoch",)


def test_an_atomic_write_clears_what_an_earlier_crash_left(place: Place) -> None:
    with place.disk.open(place.at(".epoch.tmp"), OpenMode.CREATE, permissions=0o644) as file:
        file.pwrite(0, b"half of a much longer content")
    atomic_write(place.disk, place.at("epoch"), b"42", permissions=0o640)
    assert place.disk.read(place.at("epoch")) == b"42"
    assert place.disk.stat(place.at("epoch")).permissions == 0o640
    assert place.disk.list_names(place.root) == ("epoch",)


def test_an_atomic_write_into_a_missing_directory_says_so(place: Place) -> None:
    with pytest.raises(DiskError) as caught:
        atomic_write(place.disk, place.at("gone/epoch"), b"42")
    assert cause_of(caught) is DiskCause.MISSING


def test_ensure_directory_makes_all_parents_and_accepts_what_is_there(place: Place) -> None:
    deep = place.at("a/b/c")
    ensure_directory(place.disk, deep)
    ensure_directory(place.disk, deep)
    ensure_directory(place.disk, PurePosixPath(deep))
    assert place.disk.stat(deep).is_directory
    assert place.disk.stat(place.at("a")).permissions == 0o700
    place.write("f", b"")
    with pytest.raises(DiskError) as caught:
        ensure_directory(place.disk, place.at("f"))
    assert cause_of(caught) is DiskCause.WRONG_KIND


def test_a_link_can_be_made_read_moved_over_another_and_removed(place: Place) -> None:
    disk, root = place.disk, place.root
    disk.symlink("one", f"{root}/first")
    disk.symlink("two", f"{root}/second")
    with pytest.raises(DiskError) as refused:
        disk.symlink("three", f"{root}/second")
    assert refused.value.cause is DiskCause.EXISTS
    disk.rename(f"{root}/second", f"{root}/first")
    assert disk.read_link(f"{root}/first") == "two"
    assert disk.list_names(root) == ("first",)
    disk.remove(f"{root}/first")
    with pytest.raises(DiskError) as missing:
        disk.read_link(f"{root}/first")
    assert missing.value.cause is DiskCause.MISSING


def test_a_file_is_no_link(place: Place) -> None:
    atomic_write(place.disk, f"{place.root}/file", b"bytes")
    with pytest.raises(DiskError) as refused:
        place.disk.read_link(f"{place.root}/file")
    assert refused.value.cause is DiskCause.WRONG_KIND
