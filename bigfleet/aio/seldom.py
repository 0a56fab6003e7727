"""Says what is worth a log line: the first of a kind, then one per interval with a count of those between.

Why: what a stranger can cause ten thousand times a second must not fill the log ten thousand times a second.
Must never: grow with what peers send: keys come from a fixed set.
"""

import threading
from collections.abc import Hashable
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s

EVERY_S: Final = 60.0


class Seldom:
    """Counts events by key; may be used from several threads."""

    def __init__(self, clock: Clock, every_s: float = EVERY_S) -> None:
        self._clock, self._every_s = clock, every_s
        self._lock = threading.Lock()
        self._said_s: dict[Hashable, float] = {}
        self._silent: dict[Hashable, int] = {}

    def due(self, key: Hashable) -> int | None:
        """Return None if this event is not to be logged, else how many were not logged since the last one that was."""
        now_s = monotonic_s(self._clock)
        with self._lock:
            said_s = self._said_s.get(key)
            if said_s is not None and now_s - said_s < self._every_s:
                self._silent[key] = self._silent.get(key, 0) + 1
                return None
            self._said_s[key] = now_s
            return self._silent.pop(key, 0)
