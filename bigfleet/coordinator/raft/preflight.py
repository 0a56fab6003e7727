"""Preflight: checks a data directory before the Raft object is built on it.

Why: with a damaged file the library leads with part of its tables or none, and after a crash between dump and trim it drops
acknowledged entries.
Must never: change a byte, or guess; every refusal is exit 71 and names the file.
Rules: `coordinator#durability`, `coordinator#torn-tail`.
"""

from dataclasses import dataclass

from bigfleet.aio.disk import Disk, DiskCause, DiskError
from bigfleet.coordinator.log import DamagedDirectoryError, LogDiskError
from bigfleet.coordinator.raft.dump import Dump, read_dump
from bigfleet.coordinator.raft.journal import metadata_path
from bigfleet.coordinator.raft.metadata import RaftMetadata, read_metadata
from bigfleet.coordinator.raft.records import LogEntry, scan


@dataclass(frozen=True, slots=True)
class DirectoryContents:
    """The log, metadata and dump that a replica starts from."""

    entries: list[LogEntry]
    metadata: RaftMetadata
    dump: Dump | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever committed here; the library's initial entry does not count."""
        return self.dump is None and len(self.entries) <= 1


def examine(disk: Disk, journal_path: str, dump_path: str) -> DirectoryContents:
    """Return the contents of a directory; raises DamagedDirectoryError, which names the file."""
    try:
        return _examine(disk, journal_path, dump_path)
    except DiskError as error:
        # Unreadable counts as damaged; only for a failing device may a later start help.
        if error.cause in (DiskCause.IO, DiskCause.FULL):
            raise LogDiskError(str(error)) from error
        raise DamagedDirectoryError(error.path, f"it cannot be read: {error.cause.value}") from error


def _examine(disk: Disk, journal_path: str, dump_path: str) -> DirectoryContents:
    dump = read_dump(disk, dump_path) if disk.exists(dump_path) else None
    if not disk.exists(journal_path):
        if dump is not None:
            raise DamagedDirectoryError(journal_path, f"missing, although {dump_path} is there")
        if disk.exists(metadata_path(journal_path)):
            raise DamagedDirectoryError(journal_path, "missing, although its metadata is there")
        return DirectoryContents([], RaftMetadata(), None)
    seen = scan(disk.read(journal_path))
    if seen.problem:
        raise DamagedDirectoryError(journal_path, seen.problem)
    if not seen.entries:
        # A journal has the library's first entry from the start; an empty one was emptied.
        raise DamagedDirectoryError(journal_path, "it holds no entry")
    metadata = _metadata(disk, metadata_path(journal_path), seen.entries)
    last = seen.entries[-1].index
    if last < metadata.commit and not (dump is not None and last < dump.last.index):
        raise DamagedDirectoryError(
            journal_path, f"it ends at entry {last}, while entries up to {metadata.commit} are committed"
        )
    entries = _joined(journal_path, dump_path, seen.entries, dump, metadata)
    return DirectoryContents(entries, metadata, dump)


def _metadata(disk: Disk, path: str, entries: list[LogEntry]) -> RaftMetadata:
    if disk.exists(path):
        return read_metadata(disk, path)
    if len(entries) > 1 or entries[0].term:
        raise DamagedDirectoryError(path, "missing, although the journal has entries")
    return RaftMetadata()


def _joined(
    journal_path: str, dump_path: str, entries: list[LogEntry], dump: Dump | None, metadata: RaftMetadata
) -> list[LogEntry]:
    """Return the journal that continues the dump: the dump's two entries, then everything newer."""
    first, last = entries[0].index, entries[-1].index
    if dump is None:
        if first != 1:
            raise DamagedDirectoryError(
                dump_path, f"missing, although the journal begins only with entry {first}"
            )
        return entries
    if last < dump.last.index:
        return [dump.before, dump.last]  # a crash during the installation of a snapshot: the dump wins
    if first > dump.before.index:
        raise DamagedDirectoryError(
            journal_path, f"it begins with entry {first}, after the dump's {dump.before.index}: a gap"
        )
    place = dump.before.index - first
    before, at = entries[place], entries[place + 1]
    if (before.term, at.term) == (dump.before.term, dump.last.term):
        # The dump's own two entries: if they differ from the journal's, the library drops everything newer.
        return [dump.before, dump.last, *entries[place + 2 :]]
    # A leader's snapshot replaces an uncommitted tail; a crash may come before the tail is removed.
    if metadata.commit < dump.last.index and at.term < dump.last.term:
        return [dump.before, dump.last]
    raise DamagedDirectoryError(
        dump_path,
        f"it ends with entry {dump.last.index} of term {dump.last.term}, the journal has term {at.term} there",
    )
