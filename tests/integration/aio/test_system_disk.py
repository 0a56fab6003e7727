"""The real disk where the in-memory one cannot stand in: other processes, the umask, a full device, bad names."""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bigfleet.aio.disk import DiskCause, DiskError, OpenMode, atomic_write
from bigfleet.aio.system_disk import SystemDisk

pytestmark = pytest.mark.integration

HOLDER = """
import sys
from bigfleet.aio.system_disk import SystemDisk
lock = SystemDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def lock_held_elsewhere(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Let another process hold the lock for as long as the body runs."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


@pytest.mark.parametrize("what", ["directory", "file"])
def test_a_lock_held_by_another_process_is_refused_and_free_once_that_is_killed(
    tmp_path: Path, what: str
) -> None:
    path = tmp_path if what == "directory" else tmp_path / "file"
    if what == "file":
        path.touch()
    disk = SystemDisk()
    with lock_held_elsewhere(path) as holder:
        with pytest.raises(DiskError) as caught:
            disk.lock(path)
        assert caught.value.cause is DiskCause.LOCKED
        assert str(path) in str(caught.value)
        holder.kill()
        holder.wait(timeout=10)
        disk.lock(path).close()


def test_a_lock_taken_here_is_refused_to_another_process(tmp_path: Path) -> None:
    with SystemDisk().lock(tmp_path):
        other = subprocess.run(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            input="\n",
            capture_output=True,
            text=True,
            check=False,
        )
    assert other.returncode != 0
    assert f"lock {tmp_path}: locked by another process" in other.stderr


def test_permissions_are_exact_under_any_umask(tmp_path: Path) -> None:
    disk = SystemDisk()
    before = os.umask(0o077)
    try:
        with disk.open(tmp_path / "shared", OpenMode.CREATE, permissions=0o664):
            pass
        disk.mkdir(tmp_path / "open", permissions=0o755)
        os.umask(0)
        atomic_write(disk, tmp_path / "epoch", b"1")
    finally:
        os.umask(before)
    assert disk.stat(tmp_path / "shared").permissions == 0o664
    assert disk.stat(tmp_path / "open").permissions == 0o755
    assert disk.stat(tmp_path / "epoch").permissions == 0o600


def test_a_full_device_is_told_as_full() -> None:
    with SystemDisk().open("/dev/full", OpenMode.UPDATE) as file, pytest.raises(DiskError) as caught:
        file.pwrite(0, b"x")
    assert caught.value.cause is DiskCause.FULL
    assert str(caught.value) == "write /dev/full: no space left"


def test_what_has_no_word_of_its_own_is_an_io_error_with_the_systems_text(tmp_path: Path) -> None:
    with pytest.raises(DiskError) as caught:
        SystemDisk().open(tmp_path / ("x" * 300), OpenMode.CREATE)
    assert caught.value.cause is DiskCause.IO
    assert "File name too long" in str(caught.value)


def test_a_temporary_name_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / ".epoch.tmp").symlink_to(victim)
    atomic_write(SystemDisk(), tmp_path / "epoch", b"42")
    assert victim.read_text() == "untouched"
    assert (tmp_path / "epoch").read_bytes() == b"42"
    assert not (tmp_path / "epoch").is_symlink()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    disk, before = SystemDisk(), descriptors()
    for _ in range(20):
        atomic_write(disk, tmp_path / "f", b"x")
        disk.read(tmp_path / "f")
        with disk.lock(tmp_path), pytest.raises(DiskError):
            disk.lock(tmp_path)
        with pytest.raises(DiskError):
            disk.open(tmp_path, OpenMode.READ)
    assert descriptors() == before


@pytest.mark.rule("packaging#connection-limits")
def test_an_open_waits_for_a_descriptor_that_comes_back(tmp_path: Path) -> None:
    """A replica that cannot write ends; for a moment without descriptors it must not."""
    disk = SystemDisk()
    atomic_write(disk, tmp_path / "f", b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    back = threading.Timer(0.1, resource.setrlimit, (resource.RLIMIT_NOFILE, (soft, hard)))
    try:
        back.start()
        assert disk.read(tmp_path / "f") == b"x"
    finally:
        back.join()


def test_a_relative_path_is_written_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    atomic_write(SystemDisk(), "epoch", b"1")
    assert (tmp_path / "epoch").read_bytes() == b"1"


def test_a_megabyte_goes_through_whole(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096 * 3
    disk = SystemDisk()
    atomic_write(disk, tmp_path / "big", data)
    assert disk.read(tmp_path / "big") == data
