"""The journal in place of pysyncobj's own: checksummed, synced, truncated on conflict only.

Why: the library's journal never syncs, has no checksums, and truncates acknowledged entries on a resend.
Must never: let a message leave that depends on unsynced bytes, or go on after a failed write or sync: from then on every call
raises.
Rules: `coordinator#durability`, `coordinator#raft-library`, `coordinator#contract-test`, `coordinator#torn-tail`.

The whole log is in memory until it is trimmed. After a sync a witness follows the last record, and the next record overwrites it;
so even the newest synced entry is not mistaken for a torn tail.
"""

import posixpath
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, overload

from bigfleet.aio.disk import Disk, DiskCause, DiskError, File, OpenMode
from bigfleet.coordinator.log import DamagedDirectoryError, FatalLogError, LogDiskError
from bigfleet.coordinator.raft.metadata import RaftMetadata, write_metadata
from bigfleet.coordinator.raft.records import MAGIC, LogEntry, RawEntry, pack, witness


class GuardedJournal:
    """The log of one replica on disk, with the interface of the library's journal."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        entries: list[LogEntry],
        metadata: RaftMetadata,
        observe_sync: Callable[[Callable[[], None]], None] = lambda sync: sync(),
    ) -> None:
        """Start from what preflight found; the first sync writes all of it again.

        `observe_sync` runs each data sync and may time it.
        """
        self._disk, self._path = disk, path
        self._metadata_path = metadata_path(path)
        # Plain tuples: the library pickles them to its peers and compares them with those of a dump.
        self._entries: list[RawEntry] = [entry.raw for entry in entries]
        self._metadata, self._written_metadata = metadata, metadata
        self._observe_sync = observe_sync
        self._file: File | None = None
        self._offsets: list[int] = []
        self._end = self._synced = 0
        self._dirty = False
        self._stale = True  # the file differs from memory; the next sync writes a new one
        self._failure: FatalLogError | None = None

    # Read from any thread: single attributes, replaced as a whole.

    @property
    def last(self) -> LogEntry:
        """The newest entry; index 0 if there is none."""
        entries = self._entries
        return LogEntry(*entries[-1]) if entries else LogEntry(b"", 0, 0)

    @property
    def last_raw(self) -> RawEntry | None:
        """The newest entry, unconverted; a cheap way to notice a change."""
        entries = self._entries
        return entries[-1] if entries else None

    @property
    def base(self) -> tuple[int, int] | None:
        """Index and term of the second entry, which is the last one of the dump if there is a dump."""
        entries = self._entries
        return (entries[1][1], entries[1][2]) if len(entries) > 1 else None

    def holds(self, index: int, term: int) -> bool:
        """Whether the journal has an entry of this index and term."""
        place = index - self._entries[0][1] if self._entries else -1
        return 0 <= place < len(self._entries) and self._entries[place][2] == term

    def mark_failed(self, failure: FatalLogError) -> None:
        """Make every further call raise, for a cause outside the journal; the first cause stays."""
        self._failure = self._failure or failure

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._end

    @property
    def failure(self) -> FatalLogError | None:
        """The first error; every call after it raises."""
        return self._failure

    def sync(self) -> None:
        """Return once everything added so far is durable; called before a message leaves the replica."""
        self._refuse_if_broken()
        if self._stale:
            self._guarded(self._rewrite)
        elif self._dirty:
            self._guarded(self._sync_data)

    # The library's interface; its names and arguments are pinned by the contract test.

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append; at an existing index keep an entry of the same term, and truncate from one of another term."""
        self._refuse_if_broken()
        if self._entries and idx <= self._entries[-1][1]:
            place = idx - self._entries[0][1]
            if place < 0 or self._entries[place][2] == term:
                return
            if idx <= self._metadata.commit:
                self._fail(
                    DamagedDirectoryError(self._path, _contradiction(idx, self._entries[place][2], term))
                )
            self._guarded(lambda: self._cut(place))
        if not self._stale:
            self._guarded(lambda: self._append(LogEntry(command, idx, term)))
        # After the file, so that memory is never ahead of it.
        self._entries.append((command, idx, term))

    def clear(self) -> None:
        """Drop all entries; the next sync writes the file."""
        self._refuse_if_broken()
        self._entries, self._stale = [], True

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803 - the library's names
        """Do nothing: the library truncates on every resend, `add` only where terms conflict."""

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803 - the library's names
        """Drop what the dump holds, once the dump's name is durable."""
        self._refuse_if_broken()
        self._guarded(lambda: self._disk.fsync_directory(posixpath.dirname(self._path) or "."))
        self._entries = self._entries[entryTo:]
        self._stale = True

    @overload
    def __getitem__(self, item: int) -> RawEntry: ...
    @overload
    def __getitem__(self, item: slice) -> list[RawEntry]: ...
    def __getitem__(self, item: int | slice) -> RawEntry | list[RawEntry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def _destroy(self) -> None:
        """Sync and close the file; after a failure only close it."""
        try:
            if self._failure is None:
                self.sync()
                self._write_metadata()
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803 - the library's names
        """Move the commit index over synced entries; it is stored within a second, as a lower one is harmless."""
        if raftCommitIndex != self._metadata.commit:
            self.sync()
            self._metadata = replace(self._metadata, commit=raftCommitIndex)

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return self._metadata.commit

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        """Store term and vote at once: a vote must be durable before it leaves."""
        self.sync()
        self._metadata = replace(self._metadata, term=term, vote=votedForNodeId)
        self._write_metadata()

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._metadata.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._metadata.vote

    def onOneSecondTimer(self) -> None:  # noqa: N802
        self.sync()
        if self._metadata != self._written_metadata:
            self._write_metadata()

    # The file.

    def _append(self, entry: LogEntry) -> None:
        record = pack(entry, self._synced)
        self._open_file().pwrite(self._end, record)
        self._offsets.append(self._end)
        self._end += len(record)
        self._dirty = True

    def _sync_data(self) -> None:
        file = self._open_file()
        self._observe_sync(file.datasync)
        self._dirty, self._synced = False, self._end
        # Not counted as part of the file: the next record overwrites it, and losing it loses nothing.
        file.pwrite(self._end, witness(self._end))

    def _cut(self, place: int) -> None:
        """Truncate durably before anything is written there.

        Else a power cut could keep a new entry together with old ones after it, a log that no leader ever had.
        """
        if not self._stale:
            file = self._open_file()
            self._end = self._offsets[place]
            file.truncate(self._end)
            self._observe_sync(file.datasync)
            del self._offsets[place:]
            self._synced, self._dirty = self._end, False
        del self._entries[place:]

    def _rewrite(self) -> None:
        """Write everything to a new file, which replaces the old one."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._offsets = write_journal(self._disk, self._path, [LogEntry(*raw) for raw in self._entries])
        self._file = self._disk.open(self._path, OpenMode.UPDATE)
        self._end = self._file.size() - len(witness(0))
        self._synced = self._end
        self._stale = self._dirty = False

    def _open_file(self) -> File:
        if self._file is None:
            raise DiskError("write", self._path, DiskCause.CLOSED)
        return self._file

    def _write_metadata(self) -> None:
        self._guarded(lambda: write_metadata(self._disk, self._metadata_path, self._metadata))
        self._written_metadata = self._metadata

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DiskError as error:
            self._fail(LogDiskError(str(error)))

    def _fail(self, failure: FatalLogError) -> NoReturn:
        self._failure = failure
        raise failure

    def _refuse_if_broken(self) -> None:
        if self._failure is not None:
            raise self._failure


def _contradiction(index: int, ours: int, theirs: int) -> str:
    return f"entry {index} is committed with term {ours}, and a leader sends it with term {theirs}"


def metadata_path(journal_path: str) -> str:
    """Return the path of term, vote and commit index of a journal."""
    return f"{journal_path}.meta"


def write_journal(disk: Disk, path: str, entries: list[LogEntry]) -> list[int]:
    """Replace a journal durably by one with these entries; return their offsets."""
    temporary = f"{path}.new"
    if disk.exists(temporary):
        disk.remove(temporary)
    offsets: list[int] = []
    parts, offset = [MAGIC], len(MAGIC)
    for entry in entries:
        record = pack(entry, 0)
        parts.append(record)
        offsets.append(offset)
        offset += len(record)
    # The file is renamed only after its sync, so its last record may vouch for everything before.
    parts.append(witness(offset))
    with disk.open(temporary, OpenMode.CREATE) as file:
        file.pwrite(0, b"".join(parts))
        file.fsync()
    disk.rename(temporary, path)
    disk.fsync_directory(posixpath.dirname(path) or ".")
    return offsets
