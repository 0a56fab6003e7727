"""The disk of one simulated host: what is on it, what a power cut leaves of it, and what is wrong with it.

Why: processes come and go, a disk stays. The image outlives the `MemoryDisk` of each process and is what faults act upon.
Must never: draw randomness that the caller did not hand over, or be kinder than a real disk: no name is durable before the
sync of its directory, no byte before the sync of its file.
Rules: simulator 3.3.
"""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import fspath

from bigfleet.aio.disk import AnyPath, DiskCause, DiskError
from bigfleet.aio.rng import RandomStream
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.disk.nodes import DirectoryNode, Drop, Fate, FileNode, Move, NameChange, Node, Put

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
class Fault:
    """The next so many calls of one kind, on one path or on any, fail with this cause; None times means for good."""

    operation: str
    cause: DiskCause
    path: str | None = None
    times: int | None = 1

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise InvalidFieldError("operation", self.operation, f"one of {', '.join(OPERATIONS)}")


@dataclass(frozen=True, slots=True)
class SavedTree:
    """An older copy of a directory, to roll back to."""

    path: str
    tree: DirectoryNode


class DiskImage:
    """The disk of a host; its attributes are the faults that last until they are taken back."""

    def __init__(self) -> None:
        self.quota_bytes: int | None = None
        self.read_only = False
        self.on_fsync: Callable[[str], None] | None = None  # told before each sync: slow it down, or look
        self.root = DirectoryNode(0o755)
        self._pending_names: list[NameChange] = []
        self._faults: list[Fault] = []
        self._kill_processes: list[Callable[[], None]] = []

    # What a test or the simulator does to the disk.

    def inject(self, fault: Fault) -> None:
        """Let calls fail; among several faults that fit, the one injected first is used up first."""
        self._faults.append(fault)

    def clear_faults(self) -> None:
        """Take back every injected fault, the quota and the read-only state."""
        self._faults.clear()
        self.quota_bytes, self.read_only, self.on_fsync = None, False, None

    def power_cut(self, stream: RandomStream) -> None:
        """Kill every process on the disk, then decide each unsynced byte and name at random: lost, kept, or torn."""
        for kill in tuple(self._kill_processes):
            kill()
        # Names and bytes get their own fate: a durable name for lost bytes is the classic empty file after a crash.
        names, content = stream.choice(tuple(Fate)), stream.choice(tuple(Fate))
        pending, self._pending_names = self._pending_names, []
        for change in pending:
            _settle(change, names, stream)
        for node in _walk(self.root, durable=True):
            if isinstance(node, FileNode):
                node.power_cut(content, stream)
            else:
                node.power_cut()

    def durable_copy(self) -> "DiskImage":
        """Return what would be left if the power went now and nothing unsynced had reached the platter; this image stays."""
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
        """Return a copy of a directory as readers see it now."""
        return SavedTree(fspath(path), self.directory("save", path).copy())

    def roll_back(self, saved: SavedTree) -> None:
        """Put an older copy in the place of its directory, durably; the host is at rest, so all else is durable too."""
        self.sync_all()
        old = self.directory("roll back", saved.path)
        twin = saved.tree.copy()
        old.entries, old.durable = twin.entries, twin.durable

    # What the processes' views of the disk need.

    def attach(self, kill: Callable[[], None]) -> None:
        """Let a process use the disk; a power cut kills it before anything is lost."""
        self._kill_processes.append(kill)

    def detach(self, kill: Callable[[], None]) -> None:
        """Forget a process that is dead."""
        self._kill_processes.remove(kill)

    def raise_fault(self, operation: str, path: str) -> None:
        """Fail if a fault fits, and use it up."""
        for fault in self._faults:
            if fault.operation == operation and fault.path in (None, path):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._faults.remove(fault)
                raise DiskError(operation, path, fault.cause, "injected")

    def refuse_if_read_only(self, operation: str, path: str) -> None:
        """Fail if the file system may not be changed."""
        if self.read_only:
            raise DiskError(operation, path, DiskCause.READ_ONLY)

    def room(self) -> int | None:
        """Return how many more bytes fit; None for as many as you like."""
        if self.quota_bytes is None:
            return None
        files = [node for node in _walk(self.root, durable=False) if isinstance(node, FileNode)]
        return max(0, self.quota_bytes - sum(len(node.content) for node in files))

    def rename_node(self, change: NameChange) -> None:
        """Let readers see a change of names that is not durable yet."""
        change.show()
        self._pending_names.append(change)

    def sync_directory(self, directory: DirectoryNode) -> None:
        """Make the names of one directory durable, and of a rename across two at least the half that is in it."""
        left: list[NameChange] = []
        for change in self._pending_names:
            match change:
                case Move(put, drop) if put.directory is directory and change.is_split:
                    put.make_durable()
                    left.append(drop)
                case Move(put, drop) if directory in (put.directory, drop.directory):
                    change.make_durable()
                case Put(where) | Drop(where) if where is directory:
                    change.make_durable()
                case _:
                    left.append(change)
        self._pending_names = left

    def find(self, operation: str, path: AnyPath) -> Node:
        """Return what a path stands for."""
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
        """Return the directory in which a path's last name stands or would stand, and that name."""
        *above, name = _names(path) or ("",)
        if not name:
            raise DiskError(operation, path, DiskCause.PERMISSION, "the root stays")
        try:
            return self.directory(operation, "/" + "/".join(above)), name
        except DiskError as error:
            raise DiskError(operation, path, error.cause) from None


def _settle(change: NameChange, fate: Fate, stream: RandomStream) -> None:
    if fate is Fate.LOST:
        return
    kept = fate is Fate.KEPT or stream.random() < 0.5
    if not kept:
        return
    if isinstance(change, Move) and change.is_split and fate is Fate.MIXED and stream.random() < 0.5:
        change.put.make_durable()
    else:
        change.make_durable()


def _names(path: AnyPath) -> tuple[str, ...]:
    # Relative paths count from the root: a simulated process has no other working directory.
    return tuple(name for name in posixpath.normpath("/" + fspath(path)).split("/") if name)


def _walk(directory: DirectoryNode, *, durable: bool) -> Iterator[Node]:
    yield directory
    for node in tuple((directory.durable if durable else directory.entries).values()):
        if isinstance(node, DirectoryNode):
            yield from _walk(node, durable=durable)
        else:
            yield node
