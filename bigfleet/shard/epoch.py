"""The shard's data directory: its exclusive lock, and the epoch that rises with every start.

Why: a provider distinguishes this process from an earlier one by the epoch, so a shard must never lose or repeat it. Two processes
on one directory would share an epoch and undo each other's calls.
Must never: continue with an epoch that is not durable, or guess one that cannot be read.
Rules: `shard#provider-client`.
"""

import posixpath
from dataclasses import dataclass
from os import fspath
from typing import Final

from bigfleet.aio.disk import AnyPath, Disk, DiskCause, DiskError, Lock, atomic_write, ensure_directory
from bigfleet.model.errors import BigFleetError

EPOCH_FILE: Final = "epoch"
_LARGEST: Final = 2**63 - 1


class EpochError(BigFleetError):
    """The epoch file does not hold an epoch."""

    def __init__(self, path: str, found: str) -> None:
        super().__init__(f"{path}: found {found!r}, allowed is a decimal number from 0 to {_LARGEST - 1}")
        self.path, self.found = path, found


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A directory that only this process uses, and the epoch of this process."""

    path: str
    epoch: int
    lock: Lock

    def close(self) -> None:
        """Release the lock."""
        self.lock.close()


def open_data_directory(disk: Disk, path: AnyPath) -> DataDirectory:
    """Lock the directory, create it if missing, and durably begin the next epoch."""
    directory = fspath(path)
    ensure_directory(disk, directory)
    try:
        lock = disk.lock(directory)
    except DiskError as error:
        if error.cause is DiskCause.LOCKED:
            raise DiskError("lock", directory, error.cause, "is another shard running on it?") from error
        raise
    try:
        file = posixpath.join(directory, EPOCH_FILE)
        epoch = _read(disk, file) + 1
        atomic_write(disk, file, str(epoch).encode())
    except BaseException:
        lock.close()
        raise
    return DataDirectory(directory, epoch, lock)


def _read(disk: Disk, file: str) -> int:
    if not disk.exists(file):
        return 0
    text = disk.read(file).decode("ascii", "replace").strip()
    if not text.isascii() or not text.isdigit() or int(text) >= _LARGEST:
        raise EpochError(file, text[:40])
    return int(text)
