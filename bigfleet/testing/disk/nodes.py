"""Files and directories of the in-memory disk, each with its visible and its durable content.

Why: durability bugs are in the difference between the two; here it is a list of changes that a power cut keeps or loses.
Must never: know paths, faults or processes.
Rules: `testing#memory-disk`. A change of a file's bytes and a change of a name are separate, and each is durable by its
own sync.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.aio.rng import RandomStream


class UnsyncedFate(enum.Enum):
    """What a power cut does to unsynced changes: lose all, keep all, or decide each."""

    LOST = "lost"
    KEPT = "kept"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class FileWrite:
    """Bytes written at an offset; a gap before them reads as zeros."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data

    def drawn(self, stream: RandomStream) -> Iterator["FileWrite"]:
        """Yield what a power cut leaves: all, nothing, either part of a torn write, or zeros if only the length was written."""
        cut = stream.randrange(len(self.data) + 1)
        match stream.choice(("all", "nothing", "front", "back", "zeros")):
            case "all":
                yield self
            case "front" if cut:
                yield FileWrite(self.offset, self.data[:cut])
            case "back" if cut < len(self.data):
                yield FileWrite(self.offset + cut, self.data[cut:])
            case "zeros":
                yield FileWrite(self.offset + len(self.data), b"")
            case _:
                return


@dataclass(frozen=True, slots=True)
class FileResize:
    """A change of the length."""

    length: int

    def apply(self, content: bytearray) -> None:
        del content[self.length :]
        content.extend(bytes(self.length - len(content)))

    def drawn(self, stream: RandomStream) -> Iterator["FileResize"]:
        """Yield it or nothing: a length is not torn."""
        if stream.random() < 0.5:
            yield self


class FileNode:
    """One file's visible and durable bytes."""

    def __init__(self, permissions: int, content: bytes = b"") -> None:
        self.permissions = permissions
        self.content = bytearray(content)
        self.lock: object | None = None
        self._durable = bytearray(content)
        self._pending: list[FileWrite | FileResize] = []

    def change(self, change: FileWrite | FileResize) -> None:
        """Let readers see a change that is not durable yet."""
        change.apply(self.content)
        self._pending.append(change)

    def sync(self) -> None:
        """Make every change durable."""
        for change in self._pending:
            change.apply(self._durable)
        self._pending.clear()

    def fail_sync(self) -> None:
        """Forget the changes although readers see them: a kernel marks pages clean after it failed to write them.

        So a second sync succeeds and saves nothing, and a process must end after the first failure.
        """
        self._pending.clear()

    def power_cut(self, fate: UnsyncedFate, stream: RandomStream) -> None:
        """Decide every unsynced change and show readers what is left."""
        for change in self._pending if fate is not UnsyncedFate.LOST else ():
            for left in (change,) if fate is UnsyncedFate.KEPT else change.drawn(stream):
                left.apply(self._durable)
        self._pending.clear()
        self.content = bytearray(self._durable)
        self.lock = None

    def flip_bit(self, offset: int, bit: int) -> None:
        """Damage one bit at rest."""
        self.content[offset] ^= 1 << bit
        if offset < len(self._durable):
            self._durable[offset] ^= 1 << bit

    def copy(self) -> "FileNode":
        """Return a copy of the visible content, all durable."""
        return FileNode(self.permissions, bytes(self.content))

    def durable_copy(self) -> "FileNode":
        """Return a copy of what is synced."""
        return FileNode(self.permissions, bytes(self._durable))


class LinkNode(FileNode):
    """A symbolic link; its text is durable as soon as its name is."""

    def __init__(self, target: str) -> None:
        super().__init__(0o777, target.encode())

    def copy(self) -> "LinkNode":
        """Return a copy."""
        return LinkNode(self.content.decode())

    def durable_copy(self) -> "LinkNode":
        """Return a copy; a link has no bytes to sync."""
        return self.copy()


class DirectoryNode:
    """One directory's visible and durable names."""

    def __init__(self, permissions: int) -> None:
        self.permissions = permissions
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.lock: object | None = None

    def power_cut(self) -> None:
        """Show readers what is left of the names."""
        self.entries = dict(self.durable)
        self.lock = None

    def copy(self) -> "DirectoryNode":
        """Return a copy of the visible content, all durable."""
        twin = DirectoryNode(self.permissions)
        twin.entries = {name: node.copy() for name, node in self.entries.items()}
        twin.durable = dict(twin.entries)
        return twin

    def durable_copy(self) -> "DirectoryNode":
        """Return a copy of what is synced."""
        twin = DirectoryNode(self.permissions)
        twin.entries = {name: node.durable_copy() for name, node in self.durable.items()}
        twin.durable = dict(twin.entries)
        return twin


Node = FileNode | DirectoryNode


@dataclass(frozen=True, slots=True)
class NamePut:
    """A name that now refers to a node."""

    directory: DirectoryNode
    name: str
    node: Node

    def show(self) -> None:
        self.directory.entries[self.name] = self.node

    def make_durable(self) -> None:
        self.directory.durable[self.name] = self.node


@dataclass(frozen=True, slots=True)
class NameDrop:
    """A name that was removed."""

    directory: DirectoryNode
    name: str

    def show(self) -> None:
        self.directory.entries.pop(self.name, None)

    def make_durable(self) -> None:
        self.directory.durable.pop(self.name, None)


@dataclass(frozen=True, slots=True)
class NameMove:
    """A rename: the new name is put before the old one is dropped, so that a cut never leaves a file without any."""

    put: NamePut
    drop: NameDrop

    @property
    def is_split(self) -> bool:
        """Whether the two halves are durable by different syncs; a directory has one parent, so its halves never part."""
        return self.put.directory is not self.drop.directory and isinstance(self.put.node, FileNode)

    def show(self) -> None:
        self.put.show()
        self.drop.show()

    def make_durable(self) -> None:
        self.put.make_durable()
        self.drop.make_durable()


NameChange = NamePut | NameDrop | NameMove
