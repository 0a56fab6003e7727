"""Shortens the time that one thread keeps the interpreter while another waits for it.

Why: a shard computes in a thread next to its event loop. After each poll of its sockets the loop needs the interpreter back,
and by default waits 5 ms for it; a frame that takes three turns of the loop would wait 15 ms while a cycle computes.
Must never: be shorter than a switch takes, some hundredths of a millisecond, or computing would starve.
Rules: `shard#never-waits`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SWITCH_INTERVAL_S: Final = 0.001


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Set the switch interval to a millisecond until the block ends."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
