"""The disk seam on the real file system of a POSIX host.

Why apart from `bigfleet.aio.disk`: this is the only module in which production code touches files, and the seam check
names it as such.
Must never: let an OSError through, buffer anything itself, or retry a failed sync: the kernel reports a lost page once.
Rules: `testing#constructor-seams`, `shard#provider-client`, `coordinator#raft-library`.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import fspath
from types import TracebackType
from typing import Self

from bigfleet.aio.disk import (
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    AnyPath,
    DiskCause,
    DiskError,
    File,
    FileStat,
    Lock,
    OpenMode,
)

DESCRIPTOR_PATIENCE_S = 2.0
"""How long an open waits while the process has no descriptor; a replica that fails to write ends, and need not."""
_LOOK_AGAIN_S = 0.01

_CAUSES = {
    errno.ENOSPC: DiskCause.FULL,
    errno.EDQUOT: DiskCause.FULL,
    errno.EFBIG: DiskCause.FULL,
    errno.EROFS: DiskCause.READ_ONLY,
    errno.ENOENT: DiskCause.MISSING,
    errno.EEXIST: DiskCause.EXISTS,
    errno.EACCES: DiskCause.PERMISSION,
    errno.EPERM: DiskCause.PERMISSION,
    errno.EWOULDBLOCK: DiskCause.LOCKED,
    errno.ENOTDIR: DiskCause.WRONG_KIND,
    errno.EISDIR: DiskCause.WRONG_KIND,
    errno.ENOTEMPTY: DiskCause.NOT_EMPTY,
    errno.ENXIO: DiskCause.NO_FILE,  # a socket, or a device without a driver
}


@contextmanager
def _typed(operation: str, path: AnyPath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0, DiskCause.IO)
        detail = "" if cause is not DiskCause.IO else os.strerror(error.errno or errno.EIO)
        raise DiskError(operation, path, cause, detail) from error


class _Handle:
    """An open descriptor that is closed once."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    @property
    def path(self) -> str:
        return self._path

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with _typed("close", self._path):
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SystemLock(_Handle):
    """A lock of the kernel, tied to the open descriptor."""


class SystemFile(_Handle):
    """A file by its descriptor."""

    def __init__(self, path: str, descriptor: int, *, writable: bool) -> None:
        super().__init__(path, descriptor)
        self._writable = writable

    def size(self) -> int:
        descriptor = self._open("size")
        with _typed("size", self._path):
            return os.fstat(descriptor).st_size

    def pread(self, offset: int, length: int) -> bytes:
        descriptor = self._open("read")
        parts: list[bytes] = []
        with _typed("read", self._path):
            while length > 0 and (part := os.pread(descriptor, length, offset)):
                parts.append(part)
                offset += len(part)
                length -= len(part)
        return b"".join(parts)

    def pwrite(self, offset: int, data: bytes) -> None:
        descriptor = self._open_to_write("write")
        rest = memoryview(data)
        with _typed("write", self._path):
            while rest:
                written = os.pwrite(descriptor, rest, offset)
                offset += written
                rest = rest[written:]

    def append(self, data: bytes) -> int:
        offset = self.size()
        self.pwrite(offset, data)
        return offset

    def truncate(self, length: int) -> None:
        descriptor = self._open_to_write("truncate")
        with _typed("truncate", self._path):
            os.ftruncate(descriptor, length)

    def fsync(self) -> None:
        descriptor = self._open("fsync")
        with _typed("fsync", self._path):
            os.fsync(descriptor)

    def datasync(self) -> None:
        descriptor = self._open("fsync")
        with _typed("fsync", self._path):
            os.fdatasync(descriptor)

    def _open(self, operation: str) -> int:
        if self._descriptor is None:
            raise DiskError(operation, self._path, DiskCause.CLOSED)
        return self._descriptor

    def _open_to_write(self, operation: str) -> int:
        if not self._writable:
            raise DiskError(operation, self._path, DiskCause.PERMISSION, "opened to read")
        return self._open(operation)


class SystemDisk:
    """The files of the host, under the paths given."""

    def open(self, path: AnyPath, mode: OpenMode, *, permissions: int = PRIVATE_FILE) -> File:
        name = fspath(path)
        with _typed("open", name):
            if mode is OpenMode.READ:
                return SystemFile(name, _open_to_read(name), writable=False)
            if mode is OpenMode.UPDATE:
                return SystemFile(name, _open_file(name, os.O_RDWR), writable=True)
            if mode is OpenMode.CREATE:
                return SystemFile(name, _create_file(name, permissions), writable=True)
            try:
                return SystemFile(name, _open_file(name, os.O_RDWR), writable=True)
            except FileNotFoundError:
                return SystemFile(name, _create_file(name, permissions), writable=True)

    def read(self, path: AnyPath) -> bytes:
        with self.open(path, OpenMode.READ) as file:
            return file.pread(0, file.size())

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        with _typed("rename", source):
            os.replace(source, target)

    def remove(self, path: AnyPath) -> None:
        with _typed("remove", path):
            os.unlink(path)

    def mkdir(self, path: AnyPath, *, permissions: int = PRIVATE_DIRECTORY) -> None:
        with _typed("mkdir", path):
            os.mkdir(path, permissions)
            os.chmod(path, permissions)

    def rmdir(self, path: AnyPath) -> None:
        with _typed("rmdir", path):
            os.rmdir(path)

    def list_names(self, path: AnyPath) -> tuple[str, ...]:
        with _typed("list", path):
            return tuple(sorted(os.listdir(path)))

    def stat(self, path: AnyPath) -> FileStat:
        with _typed("stat", path):
            found = os.stat(path)
        is_directory = stat.S_ISDIR(found.st_mode)
        return FileStat(
            0 if is_directory else found.st_size,
            is_directory,
            stat.S_IMODE(found.st_mode),
            stat.S_ISREG(found.st_mode),
        )

    def exists(self, path: AnyPath) -> bool:
        try:
            self.stat(path)
        except DiskError as error:
            if error.cause in (DiskCause.MISSING, DiskCause.WRONG_KIND):
                return False
            raise
        return True

    def fsync_directory(self, path: AnyPath) -> None:
        with _typed("fsync directory", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def symlink(self, target: str, path: AnyPath) -> None:
        with _typed("symlink", path):
            os.symlink(target, path)

    def read_link(self, path: AnyPath) -> str:
        try:
            with _typed("read link", path):
                return os.readlink(path)
        except DiskError as error:
            if os.path.lexists(path):  # the system only says that an argument was invalid
                raise DiskError("read link", path, DiskCause.WRONG_KIND) from error
            raise

    def lock(self, path: AnyPath) -> Lock:
        name = fspath(path)
        with _typed("lock", name):
            # A file is opened to write, as network file systems want for an exclusive lock; a directory cannot be.
            flags = os.O_RDONLY | os.O_DIRECTORY if os.path.isdir(name) else os.O_RDWR
            descriptor = os.open(name, flags)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                os.close(descriptor)
                raise
        return SystemLock(name, descriptor)


def _open_in_time(path: str, flags: int, permissions: int = 0o777) -> int:
    """Open a file, waiting a little for a descriptor: those of a flood of connections come back as they are refused."""
    give_up_s = time.monotonic() + DESCRIPTOR_PATIENCE_S
    while True:
        try:
            return os.open(path, flags, permissions)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or time.monotonic() >= give_up_s:
                raise
        time.sleep(_LOOK_AGAIN_S)


def _open_file(path: str, flags: int) -> int:
    descriptor = _open_in_time(path, flags)
    # Reading a directory would fail only later, and otherwise on every file system.
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return descriptor


def _open_to_read(path: str) -> int:
    # Without waiting: opening a pipe would otherwise last until there is a writer.
    descriptor = _open_file(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DiskError("open", path, DiskCause.NO_FILE)
    return descriptor


def _create_file(path: str, permissions: int) -> int:
    # Exclusive, so that neither a stranger's file nor a link in its place is ever written to.
    descriptor = _open_in_time(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, permissions)
    try:
        os.fchmod(descriptor, permissions)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
