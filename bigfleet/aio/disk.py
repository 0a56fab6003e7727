"""The disk seam: files, their names, and when both are durable.

Why: durability is three separate promises (bytes, length, name), and each of them is easily forgotten. The
seam makes each a call, so that the virtual disk can take away whatever was not asked for.
Must never: hand out an OSError; a `DiskError` names path and cause. Must never promise more than the call says: bytes are
durable after `fsync` of the file, a name (create, rename, remove) after `fsync_directory` of its directory.
Rules: `testing#constructor-seams`, `testing#memory-disk`, `shard#provider-client`, `coordinator#durability`,
`coordinator#raft-library`.

The calls are synchronous on purpose. The Raft library calls its journal from its own thread and must not send before the
sync returned, so an asynchronous form could not serve the user that matters most; and the usual write here is a small one at
start-up. Code on the event loop that syncs often wraps the call in `asyncio.to_thread`; the virtual loop runs that inline.
"""

import enum
import posixpath
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from os import fspath
from pathlib import PurePath
from typing import Protocol

from bigfleet.model.errors import BigFleetError

AnyPath = str | PurePath

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


class DiskCause(enum.Enum):
    """Why a disk call failed, in the words an operator needs."""

    FULL = "no space left"
    READ_ONLY = "the file system is read-only"
    MISSING = "no such file or directory"
    EXISTS = "it exists already"
    PERMISSION = "permission denied"
    LOCKED = "locked by another process"
    WRONG_KIND = "a directory where a file is wanted, or the other way round"
    NO_FILE = "a pipe, a socket or a device where a file is wanted"
    NOT_EMPTY = "the directory is not empty"
    CLOSED = "the file was closed"
    IO = "input/output error"


class DiskError(BigFleetError):
    """One disk call failed; after a failed sync the process must end: what reached the disk is unknown."""

    def __init__(self, operation: str, path: AnyPath, cause: DiskCause, detail: str = "") -> None:
        self.operation, self.path, self.cause, self.detail = operation, fspath(path), cause, detail
        super().__init__(f"{operation} {self.path}: {self.reason}")

    @property
    def reason(self) -> str:
        """The cause with its detail, for a text that names the path itself."""
        return f"{self.cause.value}{f' ({self.detail})' if self.detail else ''}"


class OpenMode(enum.Enum):
    """What `open` wants to find and may do."""

    READ = "an existing file, to read; never a pipe, a socket or a device"
    UPDATE = "an existing file, to read and write"
    CREATE = "no file there yet, to read and write"
    UPDATE_OR_CREATE = "any file or none, to read and write"


@dataclass(frozen=True, slots=True)
class FileStat:
    """What is known of a name without opening it; a directory's size is given as zero."""

    size: int
    is_directory: bool
    permissions: int
    is_file: bool
    """Whether it is a regular file: no directory, and no pipe, socket or device either."""


class File(AbstractContextManager["File"], Protocol):
    """One open file; there is no position, every call says where."""

    @property
    def path(self) -> str:
        """The path it was opened under."""

    def size(self) -> int:
        """Return the length in bytes."""

    def pread(self, offset: int, length: int) -> bytes:
        """Return the bytes from the offset on; fewer than asked for only at the end of the file."""

    def pwrite(self, offset: int, data: bytes) -> None:
        """Write all of it at the offset; on an error any prefix of it may be there."""

    def append(self, data: bytes) -> int:
        """Write all of it at the end and return the offset where it begins; one writer per file is assumed."""

    def truncate(self, length: int) -> None:
        """Cut the file, or lengthen it with zeros, to that length."""

    def fsync(self) -> None:
        """Return once bytes, length and permissions are durable; the name is not part of it."""

    def datasync(self) -> None:
        """Return once bytes and length are durable; cheaper than `fsync`, for journals."""

    def close(self) -> None:
        """Give the file back; harmless when closed before. It makes nothing durable."""


class Lock(AbstractContextManager["Lock"], Protocol):
    """An exclusive lock; the system frees it too when the process ends in any way."""

    def close(self) -> None:
        """Let the lock go; harmless when done before."""


class Disk(Protocol):
    """The files a process may touch."""

    def open(self, path: AnyPath, mode: OpenMode, *, permissions: int = PRIVATE_FILE) -> File:
        """Open a file; the permissions are those of a file this call makes, whatever the umask."""

    def read(self, path: AnyPath) -> bytes:
        """Return the whole content."""

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Give a file its new name, in place of what bore it; never both or neither for those who look."""

    def remove(self, path: AnyPath) -> None:
        """Take a file's name away."""

    def mkdir(self, path: AnyPath, *, permissions: int = PRIVATE_DIRECTORY) -> None:
        """Make one directory; its parent must exist, itself must not."""

    def rmdir(self, path: AnyPath) -> None:
        """Take an empty directory away."""

    def list_names(self, path: AnyPath) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""

    def stat(self, path: AnyPath) -> FileStat:
        """Return what is known of a file or directory."""

    def exists(self, path: AnyPath) -> bool:
        """Return whether the name is there."""

    def fsync_directory(self, path: AnyPath) -> None:
        """Return once every name made, moved or removed in the directory is durable."""

    def symlink(self, target: str, path: AnyPath) -> None:
        """Make a link to another name, relative to its own directory; the name must not exist.

        Only `read_link`, `rename`, `remove` and `list_names` are promised for it: who writes does not go through links.
        """

    def read_link(self, path: AnyPath) -> str:
        """Return the target of a link."""

    def lock(self, path: AnyPath) -> Lock:
        """Take the exclusive lock of a directory, or of a file that is never replaced; LOCKED at once if it is taken."""


def atomic_write(disk: Disk, path: AnyPath, data: bytes, permissions: int = PRIVATE_FILE) -> None:
    """Replace a file's content so that after a crash at any point it is the old or the new one, and durable on return.

    The temporary name is fixed: what a crash leaves behind is cleared by the next write instead of piling up.
    """
    target = fspath(path)
    directory, name = posixpath.split(target)
    temporary = posixpath.join(directory, f".{name}.tmp")
    if disk.exists(temporary):
        disk.remove(temporary)
    try:
        with disk.open(temporary, OpenMode.CREATE, permissions=permissions) as file:
            file.pwrite(0, data)
            file.fsync()
        disk.rename(temporary, target)
    except DiskError:
        # A full disk needs the space back. Should this fail too, the first error is the one worth telling.
        with suppress(DiskError):
            disk.remove(temporary)
        raise
    disk.fsync_directory(directory or ".")


def ensure_directory(disk: Disk, path: AnyPath, permissions: int = PRIVATE_DIRECTORY) -> None:
    """Make a directory with all its parents unless it is there, each durable before the next is begun."""
    target = fspath(path)
    if disk.exists(target):
        if not disk.stat(target).is_directory:
            raise DiskError("mkdir", target, DiskCause.WRONG_KIND)
        return
    parent = posixpath.dirname(target.rstrip("/")) or "."
    if parent != target:
        ensure_directory(disk, parent, permissions)
    disk.mkdir(target, permissions=permissions)
    disk.fsync_directory(parent)
