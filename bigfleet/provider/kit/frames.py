"""Frames of entries in a file: length, checksum, and how many bytes of the file were synced when the frame was written.

Why: after a crash the tail of a journal may be torn, which is no damage; a bad byte anywhere else is. A bad byte counts as
part of the tail only if no later frame and no later file says that it was synced.
Must never: accept a frame of another file or offset: salt and offset are part of the checksum, so that text which a caller
stores in a record cannot pass as a frame.
Rules: `providers#durable-state`.
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
_HEADER = struct.Struct("<8sQQI")  # kind, generation, synced bytes of the file before, salt
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
FRAME_BYTES = _FRAME.size


class DamagedStoreError(BigFleetError):
    """A state file is damaged; the provider does not start."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}; restore it from a copy, or move it away to start with an empty state"
        )
        self.path, self.problem = path, problem


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The first bytes of a file: its kind, its generation, and how much of its predecessor was synced."""

    kind: bytes
    generation: int
    before_bytes: int
    salt: int

    def pack(self) -> bytes:
        data = _HEADER.pack(self.kind, self.generation, self.before_bytes, self.salt)
        return data + _CRC.pack(zlib.crc32(data))

    @classmethod
    def read(cls, file: File, kind: bytes) -> "FileHeader | None":
        """Return the header, None for a file that ends within it: it was created and never used."""
        data = file.pread(0, HEADER_BYTES)
        if file.size() <= HEADER_BYTES and (len(data) < HEADER_BYTES or not _is_header(data, kind)):
            return None
        if not _is_header(data, kind):
            raise DamagedStoreError(file.path, "its first bytes are damaged")
        return cls(*_HEADER.unpack(data[: _HEADER.size]))


def _is_header(data: bytes, kind: bytes) -> bool:
    body, check = data[: _HEADER.size], data[_HEADER.size : HEADER_BYTES]
    return len(check) == _CRC.size and _CRC.pack(zlib.crc32(body)) == check and body[:8] == kind


def pack(entry: bytes, *, salt: int, offset: int, synced: int) -> bytes:
    check = _check(entry, salt, offset, synced)
    return _FRAME.pack(_MAGIC, len(entry), synced, check) + entry


def _check(entry: bytes, salt: int, offset: int, synced: int) -> int:
    return zlib.crc32(entry, zlib.crc32(_SEEDS.pack(salt, offset, len(entry), synced)))


@dataclass(frozen=True, slots=True)
class JournalFrame:
    """One complete frame."""

    entry: bytes
    synced: int
    end: int


def read(file: File, offset: int, salt: int) -> JournalFrame | None:
    """Return the frame at an offset, None when there is no valid one."""
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
    """Yield the frames of a journal up to a torn tail, which begins at the `end` of the last frame.

    The next file says that `certain` bytes were synced. Raises `DamagedStoreError` for damage before the tail.
    """
    offset, size = HEADER_BYTES, file.size()
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
    """Raise if a later frame, or the next file, says that the byte at which reading stopped was synced."""
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
