"""How much memory the process holds, as the kernel sees it.

Why: what a planner keeps is many small objects, whose sizes are hard to add up; the kernel knows the sum.
Must never: count what the allocator merely keeps in reserve.
"""

import ctypes
import gc
from pathlib import Path

from bigfleet.model.errors import BigFleetError

_FIGURES = Path("/proc/self/smaps_rollup")


class UnknownMemoryError(BigFleetError):
    """The kernel reports no resident size; only Linux does."""

    def __init__(self) -> None:
        super().__init__(f"{_FIGURES}: no resident size of this process; benchmarks run on Linux only")


def resident_bytes() -> int:
    """The resident size of this process after everything that can be given back was given back."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        lines = _FIGURES.read_text().splitlines()
    except (OSError, AttributeError):
        raise UnknownMemoryError from None
    for line in lines:
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise UnknownMemoryError
