"""The state of a fake over restarts, kept or forgotten.

Must never: delete anything but the files of its own journal.
Rules: `providers#fake-flags`, `providers#fake-control`.
"""

from os import fspath
from typing import Final, Protocol

from bigfleet.aio.clock import Clock
from bigfleet.aio.disk import AnyPath, Disk
from bigfleet.aio.rng import Rng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.store import StateStore, Volatile

_SNAPSHOT: Final = "snapshot"
_JOURNAL_FILES: Final = ("journal.", _SNAPSHOT, f".{_SNAPSHOT}")


class FakeState(Protocol):
    """Opens stores for one provider's state."""

    def open(self) -> StateStore:
        """Return a store on the present state."""
        ...

    def forget(self) -> None:
        """Make the next store empty; only while none is open."""
        ...

    @property
    def kept(self) -> bool:
        """Whether a store opened now would find something; only while none is open."""
        ...


class NoState:
    """Keeps nothing: every start is a first start."""

    def open(self) -> StateStore:
        return Volatile()

    def forget(self) -> None:
        """There is nothing to forget."""

    @property
    def kept(self) -> bool:
        return False


class JournalState:
    """The kit's journal in a directory."""

    def __init__(
        self,
        directory: AnyPath,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self._directory, self._disk = directory, disk or SystemDisk()
        self._clock, self._rng = clock, rng

    def open(self) -> StateStore:
        return Journal(self._directory, disk=self._disk, clock=self._clock, rng=self._rng)

    def forget(self) -> None:
        root = fspath(self._directory)
        for name in sorted(self._disk.list_names(root)):
            if name.startswith(_JOURNAL_FILES):
                self._disk.remove(f"{root}/{name}")
        self._disk.fsync_directory(root)

    @property
    def kept(self) -> bool:
        return self._disk.exists(self._directory) and _SNAPSHOT in self._disk.list_names(self._directory)
