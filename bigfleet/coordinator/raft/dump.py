"""The dump: all tables at one entry of the log, in a file with a checksum.

Why: the library's dump is a pickle without checksum or sync; with a lost or damaged one its replica led with empty tables.
Must never: unpickle, fork, or accept a bad dump: one received from a leader ends the process before the library acknowledges it.
Rules: `coordinator#durability`, `coordinator#apply-is-total`, `coordinator#group-commit`, `coordinator#raft-library`;
ADR-0150. SHA-256 in hex, a newline, then canonical JSON.
"""

import base64
import binascii
import json
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from bigfleet.aio.clock import nanoseconds
from bigfleet.aio.disk import Disk, DiskError, OpenMode
from bigfleet.coordinator.log import (
    DamagedDirectoryError,
    FatalLogError,
    LogDiskError,
    StateMachine,
    Tables,
)
from bigfleet.coordinator.raft.metadata import canonical
from bigfleet.coordinator.raft.records import LogEntry, RawEntry
from bigfleet.model.errors import BigFleetError

RETRY_S = 60.0
_CHECKSUM_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Dump:
    """The tables, the last entry applied to them, the one before it, and the members."""

    last: LogEntry
    before: LogEntry
    nodes: tuple[str, ...]
    tables: Tables


def encode(dump: Dump) -> bytes:
    """Return the bytes of a dump file."""
    body = canonical(
        {
            "last": _entry_document(dump.last),
            "before": _entry_document(dump.before),
            "nodes": list(dump.nodes),
            "tables": dump.tables,
        }
    )
    return sha256(body).hexdigest().encode() + b"\n" + body


def decode(path: str, data: bytes) -> Dump:
    """Read a dump file; raises DamagedDirectoryError."""
    body = data[_CHECKSUM_CHARACTERS + 1 :]
    if data[: _CHECKSUM_CHARACTERS + 1] != sha256(body).hexdigest().encode() + b"\n":
        raise DamagedDirectoryError(path, "its checksum does not match its content")
    try:
        document = json.loads(body)
        return Dump(
            _entry(document["last"]),
            _entry(document["before"]),
            tuple(document["nodes"]),
            document["tables"],
        )
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise DamagedDirectoryError(path, "its checksum is right, its content is not a dump") from error


def read_dump(disk: Disk, path: str) -> Dump:
    """Read a dump from the disk; raises DamagedDirectoryError, and DiskError if it cannot be read."""
    return decode(path, disk.read(path))


def write_dump(disk: Disk, path: str, dump: Dump) -> None:
    """Write and sync a dump under a temporary name; the caller renames it."""
    if disk.exists(path):
        disk.remove(path)
    with disk.open(path, OpenMode.CREATE) as file:
        file.pwrite(0, encode(dump))
        file.fsync()


class DumpSerializer:
    """The library's serializer and deserializer; the tick thread calls them."""

    def __init__(
        self,
        disk: Disk,
        state_machine: StateMachine,
        monotonic_ns: Callable[[], int],
        on_written: Callable[[float | None], object] = lambda _seconds: None,
        on_failure: Callable[[FatalLogError], object] = lambda _failure: None,
    ) -> None:
        """`on_written` gets the duration of a dump, None for a failed one; `on_failure` must stop all answers."""
        self._disk, self._state_machine, self._now_ns, self._on_written = (
            disk,
            state_machine,
            monotonic_ns,
            on_written,
        )
        self._on_failure = on_failure
        self._resting_until_ns = 0
        self.failure: FatalLogError | None = None
        """Why the process has to end; checked after every tick, since the library swallows exceptions raised here."""

    def write(self, path: str, log: tuple[RawEntry, RawEntry, Iterable[object]]) -> None:
        """Write and sync the tables; the library renames the file and trims the journal.

        After an error it waits a minute, because the library asks again on every tick.
        """
        now = self._now_ns()
        if now < self._resting_until_ns:
            raise LogDiskError(f"{path}: the last dump failed less than {RETRY_S:.0f} s ago")
        last, before, nodes = log
        names = tuple(sorted(str(node) for node in nodes if node is not None))
        try:
            write_dump(
                self._disk, path, Dump(LogEntry(*last), LogEntry(*before), names, self._state_machine.dump())
            )
        except DiskError:
            self._resting_until_ns = now + nanoseconds(RETRY_S)
            self._on_written(None)
            raise
        self._on_written((self._now_ns() - now) / nanoseconds(1))

    def load(self, path: str) -> tuple[RawEntry, RawEntry, tuple[str, ...]]:
        """Load the tables from a dump, at start or just received from the leader."""
        try:
            dump = read_dump(self._disk, path)
            # It may just have been renamed, and the journal is about to be trimmed to it.
            with self._disk.open(path, OpenMode.UPDATE) as file:
                file.fsync()
            self._disk.fsync_directory(posixpath.dirname(path) or ".")
            self._state_machine.load(dump.tables)
        except FatalLogError as error:
            raise self._failed(error) from error.__cause__
        except DiskError as error:
            raise self._failed(LogDiskError(str(error))) from error
        except BigFleetError as error:
            raise self._failed(DamagedDirectoryError(path, f"its tables are refused: {error}")) from error
        return dump.last.raw, dump.before.raw, dump.nodes

    def _failed(self, failure: FatalLogError) -> FatalLogError:
        self.failure = failure
        self._on_failure(failure)
        return failure


def _entry_document(entry: LogEntry) -> list[object]:
    return [base64.b64encode(entry.command).decode(), entry.index, entry.term]


def _entry(document: object) -> LogEntry:
    if not isinstance(document, list):
        raise TypeError("an entry is a list")
    command, index, term = document
    if type(index) is not int or type(term) is not int:
        raise TypeError("an entry has a whole index and term")
    return LogEntry(base64.b64decode(command, validate=True), index, term)
