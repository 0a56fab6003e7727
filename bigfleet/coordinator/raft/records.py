"""Records of the journal file, and what a crash may leave of them.

Why: after a power cut the unsynced end of a journal may be torn or full of holes, which is no damage; anywhere before it is.
Each record stores how much of the file was synced when it was written, which separates the two.
Must never: touch a disk, or drop bytes that a later record marks as synced.
Rules: `coordinator#durability`, `coordinator#raft-library`, `coordinator#torn-tail`. A record is length and CRC-32 (u32
each), then the payload: index, term, synced length (u64 each), command; little-endian. Index 0 is a witness: no entry,
it only records what is synced.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

MAGIC = b"BFJ1"
HEAD = struct.Struct("<II")
FIELDS = struct.Struct("<QQQ")
WITNESS_BYTES = HEAD.size + FIELDS.size
# Entries are at most 256 KiB of pickled JSON (`coordinator#commands`); anything longer was never written.
MAX_COMMAND_BYTES = 1 << 20


RawEntry = tuple[bytes, int, int]  # an entry in the library's form: command, index, term


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the log."""

    command: bytes
    index: int
    term: int

    @property
    def raw(self) -> RawEntry:
        """The entry in the library's form."""
        return self.command, self.index, self.term


@dataclass(frozen=True, slots=True)
class JournalScan:
    """The entries of a journal file, without a torn tail."""

    entries: list[LogEntry]
    problem: str = ""
    """Why the file must not be used; empty if it may."""


def pack(entry: LogEntry, synced: int) -> bytes:
    """Return the bytes of one record."""
    payload = FIELDS.pack(entry.index, entry.term, synced) + entry.command
    return HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def witness(synced: int) -> bytes:
    """Return a record without an entry that marks the bytes before it as synced."""
    return pack(LogEntry(b"", 0, 0), synced)


class _Record(NamedTuple):
    entry: LogEntry
    synced: int
    end: int


def _read(data: bytes, offset: int) -> _Record | None:
    """Return the record at an offset; None if there is no valid one."""
    if offset + WITNESS_BYTES > len(data):
        return None
    length, checksum = HEAD.unpack_from(data, offset)
    end = offset + HEAD.size + length
    if not FIELDS.size <= length <= FIELDS.size + MAX_COMMAND_BYTES or end > len(data):
        return None
    start = offset + HEAD.size
    index, term, synced = FIELDS.unpack_from(data, start)
    # Before the checksum: cheap, and enough for most offsets of a hole.
    if synced > offset or zlib.crc32(data[start:end]) != checksum:
        return None
    return _Record(LogEntry(data[start + FIELDS.size : end], index, term), synced, end)


def scan(data: bytes) -> JournalScan:
    """Read a journal file; drop an unsynced tail, report damage before it."""
    entries: list[LogEntry] = []
    if not data.startswith(MAGIC):
        return JournalScan([], "it does not begin like a journal")
    offset = len(MAGIC)
    problem = ""
    while (record := _read(data, offset)) is not None:
        entry = record.entry
        if entry.index:
            problem = _sequence_problem(entries, entry)
            if problem:
                break
            entries.append(entry)
        offset = record.end
    if not problem and offset < len(data) and (vouching := _vouching_record(data, offset)) is not None:
        problem = f"bad bytes at offset {offset}, which the record at offset {vouching} marks as synced"
    return JournalScan(entries, problem)


def _sequence_problem(entries: list[LogEntry], entry: LogEntry) -> str:
    if not entries:
        return ""
    last = entries[-1]
    if entry.index != last.index + 1:
        return f"entry {entry.index} follows entry {last.index}"
    if entry.term < last.term:
        return f"entry {entry.index} of term {entry.term} follows one of term {last.term}"
    return ""


def _vouching_record(data: bytes, bad: int) -> int | None:
    """Return the offset of a later valid record that marks the bad bytes as synced."""
    for offset in range(bad + 1, len(data) - WITNESS_BYTES + 1):
        record = _read(data, offset)
        if record is not None and record.synced > bad:
            return offset
    return None
