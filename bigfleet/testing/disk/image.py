"""The disk of one virtual host: its content, its faults, and what a power cut leaves of it.

Why: the image outlives the `MemoryDisk` of each process.
Must never: use randomness other than the caller's, or be safer than a real disk: a name is durable only after the sync of
its directory, a byte only after the sync of its file.
Rules: `testing#memory-disk`.
"""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import fspath

from bigfleet.aio.disk import AnyPath, DiskCause, DiskError
from bigfleet.aio.rng import RandomStream
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.disk.nodes import (
    DirectoryNode,
    FileNode,
    NameChange,
    NameDrop,
    NameMove,
    NamePut,
    Node,
    UnsyncedFate,
)

OPERATIONS = (
    "open",
    "read",
    "size",
    "write",
    "truncate",
    "fsync",
    "rename",
    "remove",
    "mkdir",
    "rmdir",
    "list",
    "stat",
    "fsync directory",
    "symlink",
    "read link",
    "lock",
)


@dataclass(slots=True)
class DiskFault:
    """Lets the next `times` calls of one kind fail, on one path or on any; None means all calls."""

    operation: str
    cause: DiskCause
    path: str | None = None
    times: int | None = 1

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise InvalidFieldError("operation", self.operation, f"one of {', '.join(OPERATIONS)}")


@dataclass(frozen=True, slots=True)
class SavedTree:
    """A copy of a directory, to roll back to."""

    path: str
    tree: DirectoryNode


class DiskImage:
    """The disk of a host; its attributes are faults that last until they are cleared."""

    def __init__(self) -> None:
        self.quota_bytes: int | None = None
        self.read_only = False
        self.on_fsync: Callable[[str], None] | None = None  # called before each sync
        self.root = DirectoryNode(0o755)
        self._pending_names: list[NameChange] = []
        self._faults: list[DiskFault] = []
        self._kill_processes: list[Callable[[], None]] = []

    # For tests.

    def inject(self, fault: DiskFault) -> None:
        """Let calls fail; of several matching faults the first injected is used first."""
        self._faults.append(fault)

    def clear_faults(self) -> None:
        """Clear every injected fault, the quota and the read-only state."""
        self._faults.clear()
        self.quota_bytes, self.read_only, self.on_fsync = None, False, None

    def power_cut(self, stream: RandomStream) -> None:
        """Kill every process on the disk, then lose, keep or tear each unsynced byte and name at random."""
        for kill in tuple(self._kill_processes):
            kill()
        # Names and bytes are decided separately: a durable name with lost bytes is the usual empty file after a crash.
        names, content = stream.choice(tuple(UnsyncedFate)), stream.choice(tuple(UnsyncedFate))
        pending, self._pending_names = self._pending_names, []
        for change in pending:
            _settle(change, names, stream)
        for node in _walk(self.root, durable=True):
            if isinstance(node, FileNode):
                node.power_cut(content, stream)
            else:
                node.power_cut()

    def durable_copy(self) -> "DiskImage":
        """Return a copy with only what is synced."""
        twin = DiskImage()
        twin.root = self.root.durable_copy()
        return twin

    def sync_all(self) -> None:
        """Make everything durable, as an orderly shutdown of the host does."""
        for change in self._pending_names:
            change.make_durable()
        self._pending_names.clear()
        for node in _walk(self.root, durable=False):
            if isinstance(node, FileNode):
                node.sync()

    def flip_bit(self, path: AnyPath, offset: int, bit: int = 0) -> None:
        """Damage one bit of a file at rest."""
        self.file("flip bit", path).flip_bit(offset, bit)

    def save(self, path: AnyPath) -> SavedTree:
        """Return a copy of a directory as readers see it."""
        return SavedTree(fspath(path), self.directory("save", path).copy())

    def roll_back(self, saved: SavedTree) -> None:
        """Durably replace a directory by an older copy; everything else becomes durable first."""
        self.sync_all()
        old = self.directory("roll back", saved.path)
        twin = saved.tree.copy()
        old.entries, old.durable = twin.entries, twin.durable

    # For the `MemoryDisk` of a process.

    def attach(self, kill: Callable[[], None]) -> None:
        """Attach a process; a power cut kills it first."""
        self._kill_processes.append(kill)

    def detach(self, kill: Callable[[], None]) -> None:
        """Detach a dead process."""
        self._kill_processes.remove(kill)

    def raise_fault(self, operation: str, path: str) -> None:
        """Raise if a fault matches, and count it."""
        for fault in self._faults:
            if fault.operation == operation and fault.path in (None, path):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._faults.remove(fault)
                raise DiskError(operation, path, fault.cause, "injected")

    def refuse_if_read_only(self, operation: str, path: str) -> None:
        """Raise if the file system is read-only."""
        if self.read_only:
            raise DiskError(operation, path, DiskCause.READ_ONLY)

    def room(self) -> int | None:
        """Return how many more bytes fit; None for no limit."""
        if self.quota_bytes is None:
            return None
        files = [node for node in _walk(self.root, durable=False) if isinstance(node, FileNode)]
        return max(0, self.quota_bytes - sum(len(node.content) for node in files))

    def rename_node(self, change: NameChange) -> None:
        """Let readers see a change of names that is not durable yet."""
        change.show()
        self._pending_names.append(change)

    def sync_directory(self, directory: DirectoryNode) -> None:
        """Make the names of one directory durable; of a rename across two directories only the half in this one."""
        left: list[NameChange] = []
        for change in self._pending_names:
            match change:
                case NameMove(put, drop) if put.directory is directory and change.is_split:
                    put.make_durable()
                    left.append(drop)
                case NameMove(put, drop) if directory in (put.directory, drop.directory):
                    change.make_durable()
                case NamePut(where) | NameDrop(where) if where is directory:
                    change.make_durable()
                case _:
                    left.append(change)
        self._pending_names = left

    def find(self, operation: str, path: AnyPath) -> Node:
        """Return the node at a path."""
        node: Node = self.root
        for name in _names(path):
            if isinstance(node, FileNode):
                raise DiskError(operation, path, DiskCause.WRONG_KIND)
            if name not in node.entries:
                raise DiskError(operation, path, DiskCause.MISSING)
            node = node.entries[name]
        return node

    def file(self, operation: str, path: AnyPath) -> FileNode:
        """Return the file at a path."""
        node = self.find(operation, path)
        if not isinstance(node, FileNode):
            raise DiskError(operation, path, DiskCause.WRONG_KIND)
        return node

    def directory(self, operation: str, path: AnyPath) -> DirectoryNode:
        """Return the directory at a path."""
        node = self.find(operation, path)
        if not isinstance(node, DirectoryNode):
            raise DiskError(operation, path, DiskCause.WRONG_KIND)
        return node

    def parent(self, operation: str, path: AnyPath) -> tuple[DirectoryNode, str]:
        """Return the parent directory of a path, and its last name."""
        *above, name = _names(path) or ("",)
        if not name:
            raise DiskError(operation, path, DiskCause.PERMISSION, "the root stays")
        try:
            return self.directory(operation, "/" + "/".join(above)), name
        except DiskError as error:
            raise DiskError(operation, path, error.cause) from None


def _settle(change: NameChange, fate: UnsyncedFate, stream: RandomStream) -> None:
    if fate is UnsyncedFate.LOST:
        return
    kept = fate is UnsyncedFate.KEPT or stream.random() < 0.5
    if not kept:
        return
    if (
        isinstance(change, NameMove)
        and change.is_split
        and fate is UnsyncedFate.MIXED
        and stream.random() < 0.5
    ):
        change.put.make_durable()
    else:
        change.make_durable()


def _names(path: AnyPath) -> tuple[str, ...]:
    # Relative paths start at the root: a virtual process has no working directory.
    return tuple(name for name in posixpath.normpath("/" + fspath(path)).split("/") if name)


def _walk(directory: DirectoryNode, *, durable: bool) -> Iterator[Node]:
    yield directory
    for node in tuple((directory.durable if durable else directory.entries).values()):
        if isinstance(node, DirectoryNode):
            yield from _walk(node, durable=durable)
        else:
            yield node
