"""Frames: entries in a file, each with its length, its checksum, and what was known to be synced when it was written.

Why: after a crash the end of a journal may be torn, which is no damage; a bad byte anywhere else is. Telling the two apart
takes a witness: every frame says how much of the file was durable before it. Bytes that no later frame vouches for may be
cut, others may not.
Must never: take a frame from another file or another place for one of ours: salt and offset are part of the checksum, so
text that a caller stores in a record cannot pose as a frame.
Rules: providers 4.1 (durable state), 10.11.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.aio.disk import File
from bigfleet.model.errors import BigFleetError

MAX_FRAME_BYTES = 1 << 30
_MAGIC = b"bfp\xf7"
_FRAME = struct.Struct("<4sIQI")  # magic, length, synced bytes, checksum
_SEEDS = struct.Struct("<IQIQ")  # salt, offset, length, synced bytes
_TITLE = struct.Struct("<8sQQI")  # kind, generation, synced bytes of the file before, salt
_CRC = struct.Struct("<I")
TITLE_BYTES = _TITLE.size + _CRC.size
FRAME_BYTES = _FRAME.size


class DamagedStoreError(BigFleetError):
    """A state file holds what was never written; the provider does not start on a guess."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}; restore it from a copy, or move it away to begin anew")
        self.path, self.problem = path, problem


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The first bytes of a file: what it is, which in line, how much of its predecessor was durable."""

    kind: bytes
    generation: int
    before_bytes: int
    salt: int

    def pack(self) -> bytes:
        data = _TITLE.pack(self.kind, self.generation, self.before_bytes, self.salt)
        return data + _CRC.pack(zlib.crc32(data))

    @classmethod
    def read(cls, file: File, kind: bytes) -> "FileHeader | None":
        """Return the title, None for a file that ends within it: it was made and never used."""
        data = file.pread(0, TITLE_BYTES)
        if file.size() <= TITLE_BYTES and (len(data) < TITLE_BYTES or not _is_title(data, kind)):
            return None
        if not _is_title(data, kind):
            raise DamagedStoreError(file.path, "its first bytes are damaged")
        return cls(*_TITLE.unpack(data[: _TITLE.size]))


def _is_title(data: bytes, kind: bytes) -> bool:
    body, check = data[: _TITLE.size], data[_TITLE.size : TITLE_BYTES]
    return len(check) == _CRC.size and _CRC.pack(zlib.crc32(body)) == check and body[:8] == kind


def pack(entry: bytes, *, salt: int, offset: int, synced: int) -> bytes:
    """Return an entry as the frame that stands at this offset."""
    check = _check(entry, salt, offset, synced)
    return _FRAME.pack(_MAGIC, len(entry), synced, check) + entry


def _check(entry: bytes, salt: int, offset: int, synced: int) -> int:
    return zlib.crc32(entry, zlib.crc32(_SEEDS.pack(salt, offset, len(entry), synced)))


@dataclass(frozen=True, slots=True)
class JournalFrame:
    """One frame that is whole."""

    entry: bytes
    synced: int
    end: int


def read(file: File, offset: int, salt: int) -> JournalFrame | None:
    """Return the frame at an offset, None when there is no whole one."""
    head = file.pread(offset, FRAME_BYTES)
    if len(head) < FRAME_BYTES:
        return None
    magic, length, synced, check = _FRAME.unpack(head)
    if magic != _MAGIC or length > MAX_FRAME_BYTES:
        return None
    entry = file.pread(offset + FRAME_BYTES, length)
    if len(entry) < length or _check(entry, salt, offset, synced) != check:
        return None
    return JournalFrame(entry, synced, offset + FRAME_BYTES + length)


def read_all(file: File, salt: int, certain: int) -> Iterator[JournalFrame]:
    """Yield the frames of a journal up to a torn tail; the last one's `end` is where it must be cut.

    `certain` bytes are known to have been durable from elsewhere. Raises `DamagedStoreError` for anything but a tail.
    """
    offset, size = TITLE_BYTES, file.size()
    while offset < size:
        frame = read(file, offset, salt)
        if frame is None:
            _refuse_damage(file, offset, size, salt, certain)
            return
        yield frame
        offset = frame.end
    if size < certain:
        raise DamagedStoreError(file.path, f"it ends at byte {size}, although {certain} were synced")


def _refuse_damage(file: File, bad: int, size: int, salt: int, certain: int) -> None:
    """Raise if some later frame, or the next file, vouches for the byte at which reading stopped."""
    problem = f"damaged at byte {bad}"
    if certain > bad:
        raise DamagedStoreError(file.path, problem)
    rest = file.pread(bad, size - bad)
    at = rest.find(_MAGIC)
    while at >= 0:
        frame = read(file, bad + at, salt)
        if frame is not None and frame.synced > bad:
            raise DamagedStoreError(file.path, problem)
        at = rest.find(_MAGIC, at + 1)
