"""pysyncobj under virtual time, on disks in memory and without sockets.

Why: thousands of power cuts and elections take no real time, and a failure can be repeated from its seed.
Must never: change the library's decisions; only its clock, randomness and files are replaced.
Rules: `testing#constructor-seams`, `testing#memory-disk`, `coordinator#power-cut`.
"""

import io
import posixpath
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pysyncobj.serializer
import pysyncobj.syncobj

from bigfleet.aio.disk import Disk, DiskError, OpenMode
from bigfleet.aio.rng import RandomStream

DiskOf = Callable[[str], Disk]


class _SeamFile(io.RawIOBase):
    """A file of the library's serializer on the disk seam."""

    def __init__(self, disk: Disk, path: str, mode: str) -> None:
        super().__init__()
        if mode == "wb" and disk.exists(path):
            disk.remove(path)
        self._file = disk.open(path, OpenMode.CREATE if mode == "wb" else OpenMode.READ)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.pread(self._at, size if size >= 0 else self._file.size())
        self._at += len(data)
        return data

    def write(self, data: Any) -> int:
        self._file.pwrite(self._at, bytes(data))
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def virtual_library(now: Callable[[], float], dice: RandomStream, disk_of: DiskOf) -> Iterator[None]:
    """Run the library on this clock, randomness and these disks within the context."""

    def is_file(path: str) -> bool:
        return disk_of(path).exists(path)

    def open_file(path: str, mode: str) -> _SeamFile:
        try:
            return _SeamFile(disk_of(path), path, mode)
        except DiskError as error:
            raise OSError(str(error)) from error

    def rename(source: str, target: str) -> None:
        disk_of(source).rename(source, target)

    with ExitStack() as stack:
        for owner, name, value in (
            (pysyncobj.syncobj, "monotonicTime", now),
            (pysyncobj.syncobj, "random", dice),
            (pysyncobj.syncobj, "os", SimpleNamespace(path=SimpleNamespace(isfile=is_file))),
            (pysyncobj.syncobj, "PIPE_NOTIFIER_ENABLED", False),
            (pysyncobj.serializer, "atomicReplace", rename),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(mock.patch.object(pysyncobj.serializer, "open", open_file, create=True))
        yield


def host_of(path: str) -> str:
    """Return the first directory of a path, which names the host in a virtual cluster."""
    return posixpath.normpath(path).lstrip("/").split("/", 1)[0]
