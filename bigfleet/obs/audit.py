"""The audit file: one JSON object per line for every action that was carried out, held back or shadowed.

Why: operators of the fleet must be able to find out who took a machine away, when and why.
Must never: lose a record silently, wait for anything but the disk, or let a file grow without end.
Rules: `shard#audit-log`, `packaging#shard-flags`; ADR-0077. Records are appended, not synced.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from os import fspath
from typing import Final, Protocol

from bigfleet.aio.disk import AnyPath, Disk, DiskError, File, OpenMode
from bigfleet.model.times import rfc3339_of_ns

DEFAULT_MAX_BYTES: Final = 100 * 1024 * 1024
DEFAULT_KEEP: Final = 5


class Audit(Protocol):
    """Takes records of actions."""

    def record(self, **fields: str | int | float) -> None:
        """Write one record; a `DiskError` says that it was lost."""

    def close(self) -> None:
        """Close the file."""


class NoAudit:
    """For shards that keep no audit log."""

    def record(self, **fields: str | int | float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class AuditFile:
    """A file of records that is rotated when it is full; `.1` is the newest of the old files."""

    def __init__(
        self,
        disk: Disk,
        path: AnyPath,
        *,
        now_ns: Callable[[], int],
        max_bytes: int = DEFAULT_MAX_BYTES,
        keep: int = DEFAULT_KEEP,
    ) -> None:
        self._disk, self._path, self._now_ns = disk, fspath(path), now_ns
        self._max_bytes, self._keep = max_bytes, keep
        self._file: File | None = self._open()
        self._size = self._file.size()

    def record(self, **fields: str | int | float) -> None:
        line = {"time": rfc3339_of_ns(self._now_ns(), 9), "level": "INFO", "msg": "action", **fields}
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        if self._file is None:  # a rotation failed half-way
            self._file = self._open()
            self._size = self._file.size()
        try:
            self._file.append(data)
        except DiskError:
            # A torn line would spoil the next one too.
            with suppress(DiskError):
                self._file.truncate(self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> File:
        return self._disk.open(self._path, OpenMode.UPDATE_OR_CREATE)

    def _rotate(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._keep <= 0:
            self._disk.remove(self._path)
            return
        for number in range(self._keep - 1, 0, -1):
            if self._disk.exists(f"{self._path}.{number}"):
                self._disk.rename(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        self._disk.rename(self._path, f"{self._path}.1")
