"""Standard output of a program: all of it is written, or the program fails."""

import errno
import io

import pytest

from bigfleet.app.process import whole_writes


class FullDisk(io.RawIOBase):
    """Takes so many bytes, then none; as a disk that fills up while a document is written."""

    def __init__(self, room: int) -> None:
        self.room, self.taken = room, b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        given = bytes(memoryview(data))  # type: ignore[arg-type]  # whatever holds bytes
        if len(self.taken) >= self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        some = given[: self.room - len(self.taken)]
        self.taken += some
        return len(some)


def unbuffered(disk: FullDisk) -> io.TextIOWrapper:
    """Standard output as Python makes it under PYTHONUNBUFFERED."""
    return io.TextIOWrapper(disk, "utf-8", write_through=True)  # type: ignore[arg-type]  # as Python does it


def test_half_a_document_on_a_full_disk_is_a_failure_also_when_unbuffered() -> None:
    lost = unbuffered(FullDisk(100))
    lost.write("x" * 1000)  # what Python alone makes of it: 100 bytes, and no word
    disk = FullDisk(100)
    plain = unbuffered(disk)
    stream = whole_writes(plain)
    with pytest.raises(OSError, match="No space left"):
        stream.write("x\n" * 1000)
    disk.room = 10_000  # for what it still holds


def test_what_fits_arrives_line_by_line() -> None:
    disk = FullDisk(1000)
    plain = unbuffered(disk)
    stream = whole_writes(plain)
    stream.write("one\n")
    assert disk.taken == b"one\n"
    stream.write("two\n")
    assert disk.taken == b"one\ntwo\n"


def test_a_stream_that_is_buffered_stays_as_it_is() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    assert whole_writes(stream) is stream
    text = io.StringIO()
    assert whole_writes(text) is text
