"""The files of a provider's state: which there are, what is in them, what a crash left behind.

Why: start is snapshot plus journals, and most ways to lose data lie in the names: which file replaces which, and when.
Must never: rely on a name or a byte that a power cut could still take away; what is found is synced before it is used.
Rules: providers 4.1 (durable state), 10.11.

Files: `snapshot`, and `journal.<generation>`. A snapshot of generation g is followed by the journals from g on; older ones
are what a crash kept from being removed.
"""

import posixpath
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from bigfleet.aio.disk import Disk, DiskError, File, OpenMode
from bigfleet.provider.kit.frames import TITLE_BYTES, DamagedStoreError, FileHeader, pack, read, read_all

_SNAPSHOT = "snapshot"
_TEMPORARY = ".snapshot.tmp"
_JOURNAL = "journal."
_SNAPSHOT_KIND, _JOURNAL_KIND = b"bfp-snap", b"bfp-jrnl"


@dataclass(frozen=True, slots=True)
class OpenJournal:
    """The journal that is written to: its file, its title, and how much of it is whole and durable."""

    file: File
    title: FileHeader
    length: int


class StateDirectory:
    """One provider's directory; whoever uses it holds its lock."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path = disk, path
        self.snapshot_bytes = 0
        self.journal: OpenJournal | None = None
        """The newest journal, once everything was read; None in a new directory."""

    def read(self) -> Iterator[bytes]:
        """Yield every entry, the snapshot's first; cut a torn tail, refuse any other damage."""
        names = self._disk.list_names(self._path)
        if _TEMPORARY in names:
            self._disk.remove(self._file(_TEMPORARY))
        # A snapshot may bear its name since a moment before the crash, and what it replaces is about to be removed.
        self._disk.fsync_directory(self._path)
        first = (yield from self._read_snapshot()) if _SNAPSHOT in names else 0
        generations = sorted(_generations(names))
        for generation in generations:
            if generation < first:
                self._disk.remove(self._journal_file(generation))
        kept = [generation for generation in generations if generation >= first]
        yield from self._read_journals(kept, first)

    def close(self) -> None:
        """Let the journal go."""
        if self.journal is not None:
            self.journal.file.close()
            self.journal = None

    def begin_journal(self, synced_before: int, salt: int) -> OpenJournal:
        """Make the next journal, durable with its name, and write to it from now on."""
        generation = self.journal.title.generation + 1 if self.journal is not None else 1
        title = FileHeader(_JOURNAL_KIND, generation, synced_before, salt)
        path = self._journal_file(generation)
        if self._disk.exists(path):  # of an attempt that failed half way; nothing was ever written to it
            self._disk.remove(path)
        file = self._disk.open(path, OpenMode.CREATE)
        try:
            file.pwrite(0, title.pack())
            file.fsync()
            self._disk.fsync_directory(self._path)
        except DiskError:
            file.close()
            with suppress(DiskError):
                self._disk.remove(path)
            raise
        return self._use(OpenJournal(file, title, TITLE_BYTES))

    def remove_older_journals(self, generation: int) -> None:
        """Remove what a durable snapshot of this generation has replaced."""
        for old in sorted(_generations(self._disk.list_names(self._path))):
            if old < generation:
                self._disk.remove(self._journal_file(old))

    def begin_snapshot(self, generation: int, salt: int) -> "SnapshotWriter":
        """Begin a snapshot beside the one there is."""
        with suppress(DiskError):  # what a failed attempt may have left
            self._disk.remove(self._file(_TEMPORARY))
        file = self._disk.open(self._file(_TEMPORARY), OpenMode.CREATE)
        return SnapshotWriter(file, FileHeader(_SNAPSHOT_KIND, generation, 0, salt), self._publish)

    def _publish(self, size: int) -> None:
        self._disk.rename(self._file(_TEMPORARY), self._file(_SNAPSHOT))
        self._disk.fsync_directory(self._path)
        self.snapshot_bytes = size

    def _read_snapshot(self) -> Generator[bytes, None, int]:
        """Yield the entries of the snapshot and return its generation, by which the journals are chosen."""
        with self._disk.open(self._file(_SNAPSHOT), OpenMode.READ) as file:
            title = FileHeader.read(file, _SNAPSHOT_KIND)
            if title is None:
                raise DamagedStoreError(file.path, "it is cut off")
            self.snapshot_bytes, offset = file.size(), TITLE_BYTES
            while (frame := read(file, offset, title.salt)) is not None and frame.entry:
                yield frame.entry
                offset = frame.end
            # An empty frame is its end; a snapshot gets its name only when it is whole and synced.
            if frame is None or frame.end != file.size():
                raise DamagedStoreError(file.path, f"damaged at byte {offset}")
            return title.generation

    def _read_journals(self, generations: list[int], first: int) -> Iterator[bytes]:
        has_snapshot = first > 0
        if has_snapshot and generations[:1] != [first]:
            raise DamagedStoreError(self._journal_file(first), "missing, although the snapshot needs it")
        if generations and generations != list(range(generations[0], generations[-1] + 1)):
            raise DamagedStoreError(self._file(_SNAPSHOT), f"journals {generations} do not follow each other")
        titles = [self._title(generation) for generation in generations]
        for place, (generation, title) in enumerate(zip(generations, titles, strict=True)):
            following = titles[place + 1] if place + 1 < len(titles) else None
            path = self._journal_file(generation)
            if title is None:
                if following is not None or (has_snapshot and place == 0):
                    raise DamagedStoreError(path, "cut off, although others need it")
                self._disk.remove(path)
                return
            certain = following.before_bytes if following else 0
            yield from self._read_journal(path, title, certain, has_snapshot)

    def _read_journal(
        self, path: str, title: FileHeader, certain: int, has_snapshot: bool
    ) -> Iterator[bytes]:
        file = self._disk.open(path, OpenMode.UPDATE)
        end = TITLE_BYTES
        try:
            for frame in read_all(file, title.salt, certain):
                end = frame.end
                if frame.entry and not has_snapshot:
                    raise DamagedStoreError(self._file(_SNAPSHOT), "missing, although there is a journal")
                if frame.entry:
                    yield frame.entry
            if file.size() > end:
                file.truncate(end)
            # A process may have been killed between writing and syncing; from now on somebody relies on it.
            file.fsync()
        except BaseException:
            file.close()
            raise
        self._use(OpenJournal(file, title, end))

    def _title(self, generation: int) -> FileHeader | None:
        with self._disk.open(self._journal_file(generation), OpenMode.READ) as file:
            title = FileHeader.read(file, _JOURNAL_KIND)
            if title is not None and title.generation != generation:
                raise DamagedStoreError(file.path, f"it says it is journal {title.generation}")
            return title

    def _use(self, journal: OpenJournal) -> OpenJournal:
        self.close()
        self.journal = journal
        return journal

    def _file(self, name: str) -> str:
        return posixpath.join(self._path, name)

    def _journal_file(self, generation: int) -> str:
        return self._file(f"{_JOURNAL}{generation}")


class SnapshotWriter:
    """A snapshot under way; it takes its place only when it is whole and synced."""

    def __init__(self, file: File, title: FileHeader, publish: Callable[[int], None]) -> None:
        self._file, self._salt, self._publish = file, title.salt, publish
        self._waiting = title.pack()
        self._offset = 0

    def add(self, entry: bytes) -> None:
        """Write one entry."""
        at = self._offset + len(self._waiting)
        data = self._waiting + pack(entry, salt=self._salt, offset=at, synced=0)
        self._file.pwrite(self._offset, data)
        self._offset, self._waiting = self._offset + len(data), b""

    def finish(self) -> None:
        """Write the end, sync, and let the snapshot replace the one before, durably."""
        self.add(b"")
        self._file.fsync()
        self._file.close()
        self._publish(self._offset)

    def close(self) -> None:
        """Let the file go; harmless after `finish`."""
        self._file.close()


def _generations(names: tuple[str, ...]) -> Iterator[int]:
    for name in names:
        number = name.removeprefix(_JOURNAL)
        if number != name and number.isascii() and number.isdigit():
            yield int(number)
