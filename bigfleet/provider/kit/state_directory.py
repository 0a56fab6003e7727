"""The files of a provider's state: finds them at start, repairs what a crash left, and begins new ones.

Must never: rely on a name or a byte that a power cut could still remove; what is found is synced before it is used.
Rules: `providers#durable-state`.

Files: `snapshot` and `journal.<generation>`. A snapshot of generation g is followed by the journals from g on; a crash may
leave older ones.
"""

import posixpath
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from bigfleet.aio.disk import Disk, DiskError, File, OpenMode
from bigfleet.provider.kit.frames import HEADER_BYTES, DamagedStoreError, FileHeader, pack, read, read_all

_SNAPSHOT = "snapshot"
_TEMPORARY = ".snapshot.tmp"
_JOURNAL = "journal."
_SNAPSHOT_KIND, _JOURNAL_KIND = b"bfp-snap", b"bfp-jrnl"


@dataclass(frozen=True, slots=True)
class OpenJournal:
    """The journal that is written to: its file, its header, and how much of it is valid and synced."""

    file: File
    header: FileHeader
    length: int


class StateDirectory:
    """One provider's directory; the caller holds its lock."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path = disk, path
        self.snapshot_bytes = 0
        self.journal: OpenJournal | None = None
        """The newest journal, set when everything was read; None in a new directory."""

    def read(self) -> Iterator[bytes]:
        """Yield every entry, those of the snapshot first; cut a torn tail, refuse any other damage."""
        names = self._disk.list_names(self._path)
        if _TEMPORARY in names:
            self._disk.remove(self._file(_TEMPORARY))
        # The snapshot may have been renamed just before the crash, and what it replaces is about to be removed.
        self._disk.fsync_directory(self._path)
        first = (yield from self._read_snapshot()) if _SNAPSHOT in names else 0
        generations = sorted(_generations(names))
        for generation in generations:
            if generation < first:
                self._disk.remove(self._journal_file(generation))
        kept = [generation for generation in generations if generation >= first]
        yield from self._read_journals(kept, first)

    def close(self) -> None:
        if self.journal is not None:
            self.journal.file.close()
            self.journal = None

    def begin_journal(self, synced_before: int, salt: int) -> OpenJournal:
        """Create the next journal, durable with its name, and make it the current one."""
        generation = self.journal.header.generation + 1 if self.journal is not None else 1
        header = FileHeader(_JOURNAL_KIND, generation, synced_before, salt)
        path = self._journal_file(generation)
        if self._disk.exists(path):  # left by a failed attempt; no entry was written to it
            self._disk.remove(path)
        file = self._disk.open(path, OpenMode.CREATE)
        try:
            file.pwrite(0, header.pack())
            file.fsync()
            self._disk.fsync_directory(self._path)
        except DiskError:
            file.close()
            with suppress(DiskError):
                self._disk.remove(path)
            raise
        return self._use(OpenJournal(file, header, HEADER_BYTES))

    def remove_older_journals(self, generation: int) -> None:
        """Remove the journals that a durable snapshot of this generation replaces."""
        for old in sorted(_generations(self._disk.list_names(self._path))):
            if old < generation:
                self._disk.remove(self._journal_file(old))

    def begin_snapshot(self, generation: int, salt: int) -> "SnapshotWriter":
        with suppress(DiskError):  # what a failed attempt may have left
            self._disk.remove(self._file(_TEMPORARY))
        file = self._disk.open(self._file(_TEMPORARY), OpenMode.CREATE)
        return SnapshotWriter(file, FileHeader(_SNAPSHOT_KIND, generation, 0, salt), self._publish)

    def _publish(self, size: int) -> None:
        self._disk.rename(self._file(_TEMPORARY), self._file(_SNAPSHOT))
        self._disk.fsync_directory(self._path)
        self.snapshot_bytes = size

    def _read_snapshot(self) -> Generator[bytes, None, int]:
        """Yield the entries of the snapshot and return its generation."""
        with self._disk.open(self._file(_SNAPSHOT), OpenMode.READ) as file:
            header = FileHeader.read(file, _SNAPSHOT_KIND)
            if header is None:
                raise DamagedStoreError(file.path, "it is cut off")
            self.snapshot_bytes, offset = file.size(), HEADER_BYTES
            while (frame := read(file, offset, header.salt)) is not None and frame.entry:
                yield frame.entry
                offset = frame.end
            # An empty frame is the end; a snapshot is renamed only when it is complete and synced.
            if frame is None or frame.end != file.size():
                raise DamagedStoreError(file.path, f"damaged at byte {offset}")
            return header.generation

    def _read_journals(self, generations: list[int], first: int) -> Iterator[bytes]:
        has_snapshot = first > 0
        if has_snapshot and generations[:1] != [first]:
            raise DamagedStoreError(self._journal_file(first), "missing, although the snapshot needs it")
        if generations and generations != list(range(generations[0], generations[-1] + 1)):
            raise DamagedStoreError(self._file(_SNAPSHOT), f"journals {generations} do not follow each other")
        headers = [self._header(generation) for generation in generations]
        for place, (generation, header) in enumerate(zip(generations, headers, strict=True)):
            following = headers[place + 1] if place + 1 < len(headers) else None
            path = self._journal_file(generation)
            if header is None:
                if following is not None or (has_snapshot and place == 0):
                    raise DamagedStoreError(path, "cut off, although others need it")
                self._disk.remove(path)
                return
            certain = following.before_bytes if following else 0
            yield from self._read_journal(path, header, certain, has_snapshot)

    def _read_journal(
        self, path: str, header: FileHeader, certain: int, has_snapshot: bool
    ) -> Iterator[bytes]:
        file = self._disk.open(path, OpenMode.UPDATE)
        end = HEADER_BYTES
        try:
            for frame in read_all(file, header.salt, certain):
                end = frame.end
                if frame.entry and not has_snapshot:
                    raise DamagedStoreError(self._file(_SNAPSHOT), "missing, although there is a journal")
                if frame.entry:
                    yield frame.entry
            if file.size() > end:
                file.truncate(end)
            # A process may have been killed between writing and syncing; from now on this content is relied on.
            file.fsync()
        except BaseException:
            file.close()
            raise
        self._use(OpenJournal(file, header, end))

    def _header(self, generation: int) -> FileHeader | None:
        with self._disk.open(self._journal_file(generation), OpenMode.READ) as file:
            header = FileHeader.read(file, _JOURNAL_KIND)
            if header is not None and header.generation != generation:
                raise DamagedStoreError(file.path, f"it says it is journal {header.generation}")
            return header

    def _use(self, journal: OpenJournal) -> OpenJournal:
        self.close()
        self.journal = journal
        return journal

    def _file(self, name: str) -> str:
        return posixpath.join(self._path, name)

    def _journal_file(self, generation: int) -> str:
        return self._file(f"{_JOURNAL}{generation}")


class SnapshotWriter:
    """Writes a snapshot, which replaces the one before only when it is complete and synced."""

    def __init__(self, file: File, header: FileHeader, publish: Callable[[int], None]) -> None:
        self._file, self._salt, self._publish = file, header.salt, publish
        self._waiting = header.pack()
        self._offset = 0

    def add(self, entry: bytes) -> None:
        at = self._offset + len(self._waiting)
        data = self._waiting + pack(entry, salt=self._salt, offset=at, synced=0)
        self._file.pwrite(self._offset, data)
        self._offset, self._waiting = self._offset + len(data), b""

    def finish(self) -> None:
        """Write the end, sync, and replace the snapshot before, durably."""
        self.add(b"")
        self._file.fsync()
        self._file.close()
        self._publish(self._offset)

    def close(self) -> None:
        self._file.close()


def _generations(names: tuple[str, ...]) -> Iterator[int]:
    for name in names:
        number = name.removeprefix(_JOURNAL)
        if number != name and number.isascii() and number.isdigit():
            yield int(number)
