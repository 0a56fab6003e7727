"""Gives memory that was freed back to the system.

Why: the allocator keeps what a large roll-up or listing needed for a moment, in case the same comes again. After an attack
that never comes again, and a process of 100 MB would hold a gigabyte until it is restarted.
How: every ten seconds the C library is asked how much it holds free, and to return that when there is much more than there
was, or when the process has grown: what was returned counts as free, so free memory that was used and freed again between two
looks shows in the size of the process only. This blocks other threads' allocations for some milliseconds, so it is rare, and runs in a thread.
Must never: be needed for a process to work; where the C library has no such calls it does nothing.
Rules: `shard#free-memory`.
"""

import asyncio
import ctypes
import resource
from typing import Final, NoReturn, Protocol

from bigfleet.aio.clock import Clock
from bigfleet.aio.disk import DiskError, OpenMode
from bigfleet.aio.system_disk import SystemDisk

EVERY_S: Final = 10.0
WORTH_BYTES: Final = 32 << 20
"""How much more must be free, or resident, than after the last time."""
_SIZES: Final = "/proc/self/statm"  # in pages; the second is the resident size


class Heap(Protocol):
    """The heap of this process."""

    def free_bytes(self) -> int:
        """How much the allocator holds that is not in use, returned to the system or not."""

    def resident_bytes(self) -> int:
        """How much memory the process has; 0 if that is not known."""

    def trim(self) -> None:
        """Return what is free to the system."""


class _MallocInfo(ctypes.Structure):
    """What `mallinfo2` returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


class SystemHeap:
    """The heap of the C library, if it can be asked."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._info = getattr(library, "mallinfo2", None)
        self._trim = getattr(library, "malloc_trim", None)
        if self._info is not None:
            self._info.restype = _MallocInfo

    def free_bytes(self) -> int:
        """How much the allocator holds that is not in use, returned to the system or not."""
        return int(self._info().fordblks) if self._info is not None else 0

    def resident_bytes(self) -> int:
        """How much memory the process has; 0 if that is not known."""
        try:
            with SystemDisk().open(_SIZES, OpenMode.READ) as file:
                return int(file.pread(0, 256).split()[1]) * resource.getpagesize()
        except DiskError:
            return 0

    def trim(self) -> None:
        """Return what is free to the system."""
        if self._trim is not None:
            self._trim(0)


async def give_back_free_memory(clock: Clock, heap: Heap | None = None) -> NoReturn:
    """Give free memory back now and then, until cancelled."""
    heap = heap or SystemHeap()
    least_free, least_resident = heap.free_bytes(), heap.resident_bytes()
    while True:
        await clock.sleep(EVERY_S)
        free, resident = await asyncio.to_thread(heap.free_bytes), heap.resident_bytes()
        least_free, least_resident = min(least_free, free), min(least_resident, resident)
        grown = resident - least_resident >= WORTH_BYTES and free >= WORTH_BYTES
        if grown or free - least_free >= WORTH_BYTES:
            await asyncio.to_thread(heap.trim)
            # What was returned still counts as free, until it is used again.
            least_free, least_resident = free, heap.resident_bytes()
