"""The disk seam in memory: one process's view of a host's `DiskImage`.

Why: power cuts, full disks and kills between any two operations must be tested, and a real disk cannot do that.
Must never: behave better than `bigfleet.aio.system_disk`; one test suite runs on both.
Rules: `testing#memory-disk`, `testing#simulated-process`. Every operation is numbered and calls a hook first, so
that a test can kill the process there; after that no code of the process can use the disk, not even in `finally`
blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.nodes import (
    DirectoryNode,
    FileNode,
    FileResize,
    FileWrite,
    LinkNode,
    NameDrop,
    NameMove,
    NamePut,
    Node,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One disk operation of a process before its effect, numbered from 1."""

    number: int
    kind: str
    path: str
    length: int = 0


class ProcessKilledError(BaseException):
    """The virtual process is dead. Not an `Exception`, since a real kill cannot be caught.

    A hook that raises it also says how many bytes of the present write reached the file.
    """

    def __init__(self, operation: Operation, written: int = 0) -> None:
        super().__init__(f"killed at disk operation {operation.number}: {operation.kind} {operation.path}")
        self.operation, self.written = operation, written


Hook = Callable[[Operation], None]


@dataclass(frozen=True, slots=True)
class KillAt:
    """A hook that kills the process at one operation."""

    number: int
    written: int = 0

    def __call__(self, operation: Operation) -> None:
        if operation.number == self.number:
            raise ProcessKilledError(operation, self.written)


class MemoryDisk:
    """A `Disk` on an image; the hook is called before each operation."""

    def __init__(self, image: DiskImage | None = None, hook: Hook | None = None) -> None:
        self.image = image or DiskImage()
        self.hook = hook
        self._operations = 0
        self._killed: ProcessKilledError | None = None
        self._locks: list[MemoryLock] = []
        self.image.attach(self.kill)

    @property
    def operations(self) -> int:
        """How many operations have begun."""
        return self._operations

    @property
    def is_killed(self) -> bool:
        """Whether the process is dead; every further operation then raises."""
        return self._killed is not None

    def kill(self) -> None:
        """Kill the process: its locks are released, its writes stay, synced or not."""
        if self._killed is None:
            self._die(ProcessKilledError(Operation(self._operations, "none", "")))

    def begin(self, kind: str, path: str, length: int = 0, *, changes: bool = False) -> None:
        """Number an operation, call the hook, and raise matching faults; also used by the files of this disk."""
        if self._killed is not None:
            raise ProcessKilledError(self._killed.operation)
        self._operations += 1
        if self.hook is not None:
            try:
                self.hook(Operation(self._operations, kind, path, length))
            except ProcessKilledError as killed:
                self._die(killed)
                raise
        if changes:
            self.image.refuse_if_read_only(kind, path)
        self.image.raise_fault(kind, path)

    def open(self, path: AnyPath, mode: OpenMode, *, permissions: int = PRIVATE_FILE) -> File:
        name = fspath(path)
        self.begin("open", name)
        directory, last = self.image.parent("open", name)
        node = directory.entries.get(last)
        if mode is not OpenMode.READ:
            self.image.refuse_if_read_only("open", name)
        if node is None:
            if mode in (OpenMode.READ, OpenMode.UPDATE):
                raise DiskError("open", name, DiskCause.MISSING)
            node = FileNode(permissions)
            self.image.rename_node(NamePut(directory, last, node))
        elif mode is OpenMode.CREATE:
            raise DiskError("open", name, DiskCause.EXISTS)
        if isinstance(node, DirectoryNode):
            raise DiskError("open", name, DiskCause.WRONG_KIND)
        return MemoryFile(self, name, node, writable=mode is not OpenMode.READ)

    def read(self, path: AnyPath) -> bytes:
        with self.open(path, OpenMode.READ) as file:
            return file.pread(0, file.size())

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        name = fspath(source)
        self.begin("rename", name, changes=True)
        node = self.image.find("rename", name)
        drop = NameDrop(*self.image.parent("rename", name))
        put = NamePut(*self.image.parent("rename", target), node)
        replaced = put.directory.entries.get(put.name)
        if replaced is node:
            return
        _refuse_bad_rename(name, node, put, replaced)
        self.image.rename_node(NameMove(put, drop))

    def remove(self, path: AnyPath) -> None:
        name = fspath(path)
        self.begin("remove", name, changes=True)
        self.image.file("remove", name)
        self.image.rename_node(NameDrop(*self.image.parent("remove", name)))

    def mkdir(self, path: AnyPath, *, permissions: int = PRIVATE_DIRECTORY) -> None:
        name = fspath(path)
        self.begin("mkdir", name, changes=True)
        directory, last = self.image.parent("mkdir", name)
        if last in directory.entries:
            raise DiskError("mkdir", name, DiskCause.EXISTS)
        self.image.rename_node(NamePut(directory, last, DirectoryNode(permissions)))

    def rmdir(self, path: AnyPath) -> None:
        name = fspath(path)
        self.begin("rmdir", name, changes=True)
        if self.image.directory("rmdir", name).entries:
            raise DiskError("rmdir", name, DiskCause.NOT_EMPTY)
        self.image.rename_node(NameDrop(*self.image.parent("rmdir", name)))

    def list_names(self, path: AnyPath) -> tuple[str, ...]:
        name = fspath(path)
        self.begin("list", name)
        return tuple(sorted(self.image.directory("list", name).entries))

    def stat(self, path: AnyPath) -> FileStat:
        name = fspath(path)
        self.begin("stat", name)
        node = self.image.find("stat", name)
        if isinstance(node, DirectoryNode):
            return FileStat(0, True, node.permissions, False)
        return FileStat(len(node.content), False, node.permissions, True)

    def exists(self, path: AnyPath) -> bool:
        try:
            self.stat(path)
        except DiskError as error:
            if error.cause in (DiskCause.MISSING, DiskCause.WRONG_KIND):
                return False
            raise
        return True

    def fsync_directory(self, path: AnyPath) -> None:
        name = fspath(path)
        self.begin("fsync directory", name)
        directory = self.image.directory("fsync directory", name)
        if self.image.on_fsync is not None:
            self.image.on_fsync(name)
        self.image.sync_directory(directory)

    def symlink(self, target: str, path: AnyPath) -> None:
        name = fspath(path)
        self.begin("symlink", name, changes=True)
        directory, last = self.image.parent("symlink", name)
        if last in directory.entries:
            raise DiskError("symlink", name, DiskCause.EXISTS)
        self.image.rename_node(NamePut(directory, last, LinkNode(target)))

    def read_link(self, path: AnyPath) -> str:
        name = fspath(path)
        self.begin("read link", name)
        node = self.image.find("read link", name)
        if not isinstance(node, LinkNode):
            raise DiskError("read link", name, DiskCause.WRONG_KIND)
        return node.content.decode()

    def lock(self, path: AnyPath) -> Lock:
        name = fspath(path)
        self.begin("lock", name)
        node = self.image.find("lock", name)
        if node.lock is not None:
            raise DiskError("lock", name, DiskCause.LOCKED)
        lock = MemoryLock(node)
        self._locks.append(lock)
        return lock

    def _die(self, killed: ProcessKilledError) -> None:
        self._killed = killed
        self.image.detach(self.kill)
        for lock in self._locks:
            lock.close()
        self._locks.clear()


def _refuse_bad_rename(name: str, node: Node, put: NamePut, replaced: Node | None) -> None:
    if isinstance(node, DirectoryNode):
        if _holds(node, put.directory):
            raise DiskError("rename", name, DiskCause.IO, "a directory cannot move into itself")
        if isinstance(replaced, DirectoryNode) and replaced.entries:
            raise DiskError("rename", name, DiskCause.NOT_EMPTY)
    if replaced is not None and isinstance(replaced, DirectoryNode) is not isinstance(node, DirectoryNode):
        raise DiskError("rename", name, DiskCause.WRONG_KIND)


def _holds(directory: DirectoryNode, wanted: DirectoryNode) -> bool:
    if directory is wanted:
        return True
    below = (node for node in directory.entries.values() if isinstance(node, DirectoryNode))
    return any(_holds(node, wanted) for node in below)


class _Closing:
    """The context-manager half of a handle."""

    def close(self) -> None:
        """Close the handle."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MemoryLock(_Closing):
    """The lock of one node; released on close, or when its process dies."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.lock = self

    def close(self) -> None:
        if self._node.lock is self:
            self._node.lock = None


class MemoryFile(_Closing):
    """An open file of one process; usable even after its name was removed."""

    def __init__(self, disk: MemoryDisk, path: str, node: FileNode, *, writable: bool) -> None:
        self._disk, self._path, self._writable = disk, path, writable
        self._node: FileNode | None = node

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._begin("size").content)

    def pread(self, offset: int, length: int) -> bytes:
        return bytes(self._begin("read").content[offset : offset + length])

    def pwrite(self, offset: int, data: bytes) -> None:
        node = self._to_write("write")
        try:
            self._disk.begin("write", self._path, len(data), changes=True)
        except ProcessKilledError as killed:
            self._write(node, offset, data[: killed.written])
            raise
        room = self._disk.image.room()
        growth = max(0, offset + len(data) - len(node.content))
        if room is not None and growth > room:
            self._write(node, offset, data[: max(0, len(data) - (growth - room))])
            raise DiskError("write", self._path, DiskCause.FULL)
        self._write(node, offset, data)

    def append(self, data: bytes) -> int:
        offset = self.size()
        self.pwrite(offset, data)
        return offset

    def truncate(self, length: int) -> None:
        node = self._to_write("truncate")
        self._disk.begin("truncate", self._path, length, changes=True)
        node.change(FileResize(length))

    def fsync(self) -> None:
        node = self._open("fsync")
        try:
            self._disk.begin("fsync", self._path)
        except DiskError:
            node.fail_sync()
            raise
        if self._disk.image.on_fsync is not None:
            self._disk.image.on_fsync(self._path)
        node.sync()

    def datasync(self) -> None:
        self.fsync()

    def close(self) -> None:
        self._node = None

    @staticmethod
    def _write(node: FileNode, offset: int, data: bytes) -> None:
        if data:
            node.change(FileWrite(offset, bytes(data)))

    def _begin(self, kind: str) -> FileNode:
        node = self._open(kind)
        self._disk.begin(kind, self._path)
        return node

    def _open(self, operation: str) -> FileNode:
        if self._node is None:
            raise DiskError(operation, self._path, DiskCause.CLOSED)
        return self._node

    def _to_write(self, operation: str) -> FileNode:
        if not self._writable:
            raise DiskError(operation, self._path, DiskCause.PERMISSION, "opened to read")
        return self._open(operation)
