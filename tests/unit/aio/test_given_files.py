"""Files that a person or program names: regular ones, up to a size, replaced by regular ones alone, with modes that are narrow."""

import os
import socket
from pathlib import Path

import pytest

from bigfleet.aio.disk import DiskCause, DiskError, OpenMode
from bigfleet.aio.given_files import (
    UnfitFileError,
    check_replaceable,
    open_to_others,
    read_given,
    replace_given,
    size_text,
)
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.testing.disk.virtual_disk import MemoryDisk

pytestmark = pytest.mark.rule("packaging#given-files")


def test_a_file_is_read_up_to_its_limit_and_refused_above_it() -> None:
    disk = MemoryDisk()
    with disk.open("/x", OpenMode.CREATE) as file:
        file.pwrite(0, b"12345")
    assert read_given(disk, "/x", 5) == b"12345"
    with pytest.raises(UnfitFileError) as caught:
        read_given(disk, "/x", 4)
    assert str(caught.value) == "/x: found 5 bytes, allowed is at most 4 bytes"


def test_a_missing_file_stays_an_error_of_the_disk() -> None:
    with pytest.raises(DiskError) as caught:
        read_given(MemoryDisk(), "/none")
    assert caught.value.cause is DiskCause.MISSING


@pytest.mark.integration
def test_pipes_sockets_devices_and_links_to_them_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", Path("/dev/null")):
            with pytest.raises(UnfitFileError) as caught:
                read_given(SystemDisk(), path)
            assert (
                str(caught.value) == f"{path}: found a pipe, a socket or a device, allowed is a regular file"
            )
    with pytest.raises(DiskError) as directory:
        read_given(SystemDisk(), tmp_path)
    assert directory.value.cause is DiskCause.WRONG_KIND


@pytest.mark.integration
def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(UnfitFileError):
            read_given(SystemDisk(), tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["pipe", "link", "socket", "directory"])
def test_nothing_but_a_regular_file_is_replaced(kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        path = tmp_path / kind
        before = os.lstat(path)
        with pytest.raises(UnfitFileError) as caught:
            replace_given(SystemDisk(), path, b"new")
        assert os.lstat(path) == before
    found = "a directory" if kind == "directory" else "a pipe, a socket or a device"
    allowed = "a regular file, which is replaced, or a new name"
    assert str(caught.value) == f"{path}: found {found}, allowed is {allowed}"


def test_a_regular_file_and_a_new_name_may_be_written() -> None:
    disk = MemoryDisk()
    for content in (b"first", b"second"):
        check_replaceable(disk, "/x")
        replace_given(disk, "/x", content)
        assert disk.read("/x") == content


@pytest.mark.parametrize(("size", "text"), [(1, "1 bytes"), (2**20, "1 MiB"), (2**30, "1024 MiB")])
def test_a_size_is_written_as_a_person_writes_it(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.rule("packaging#warnings-at-start")
@pytest.mark.parametrize(("mode", "named"), [(0o600, False), (0o440, False), (0o640, False), (0o604, True)])
def test_a_secret_is_named_when_users_beyond_its_group_may_use_it(mode: int, named: bool) -> None:
    disk = MemoryDisk()
    with disk.open("/key", OpenMode.CREATE, permissions=mode):
        pass
    assert open_to_others(disk, "/key").startswith("/key: found mode 0604") == named
