"""How long one thread keeps the interpreter while another waits for it.

Why: a shard computes in a thread beside its event loop. Whenever the loop has looked at its sockets it has to get the
interpreter back, and Python lets it wait for five milliseconds each time; a frame that takes three turns of the loop would
wait for fifteen, for as long as a cycle computes.
Must never: be shorter than it takes to hand over, some hundredths of a millisecond, or computing would starve.
Rules: shard 4.4 (streams and probes stay responsive while a cycle computes).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SWITCH_INTERVAL_S: Final = 0.001


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Let nobody wait longer than a millisecond for a thread that only computes."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
