"""When a report carries the ownership view.

Why: it can be large, and changes rarely; but the coordinator must have the present one before it acts.
Must never: count a view as delivered that no answered report carried, or settle on the answer to an older view.
Rules: `coordinator#ownership-view`, `coordinator#ownership-file`.
"""

from typing import Final

EVERY_S: Final = 600.0


class ViewSchedule:
    """Which view the coordinator has."""

    def __init__(self) -> None:
        self._delivered: int | None = None
        self._delivered_s = float("-inf")
        self._term = 0

    def due(self, revision: int, now_s: float) -> bool:
        """Whether the next report carries the view of this revision."""
        return revision != self._delivered or now_s - self._delivered_s >= EVERY_S

    def answered(self, carried: int | None, term: int, now_s: float) -> None:
        """Record an answered report, the revision it carried, if any, and the term of the answer."""
        if carried is not None:
            self._delivered, self._delivered_s = carried, now_s
        if term > self._term:
            # A new leader; it has the view only if this report carried it.
            self._term = term
            if carried is None:
                self._delivered = None
