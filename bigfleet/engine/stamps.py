"""Assignments as tables: what stamps say of priority and penalties, and which of them are a gang's own.

Must never: compare texts per machine. A stamp is looked at once, when it is first seen.
"""

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.radix import dense_ranks
from bigfleet.model.inventory.interner import Interner
from bigfleet.model.machine import Assignment


class Stamps:
    """Tables by assignment number."""

    def __init__(self, assignments: Interner[Assignment]) -> None:
        self._assignments = assignments
        self._seen = 0
        self._own: dict[tuple[str, str], list[int]] = {}
        self._priorities: list[int] = []
        self._interruption: list[float] = []
        self._reclamation: list[float] = []
        self.grow()

    def grow(self) -> None:
        """Take in assignments that have come since."""
        count = len(self._assignments)
        if self._seen == count:
            return
        for number in range(self._seen, count):
            stamp = self._assignments[number]
            self._own.setdefault((stamp.fingerprint, stamp.group), []).append(number)
            self._priorities.append(stamp.priority)
            self._interruption.append(stamp.interruption_penalty)
            self._reclamation.append(stamp.reclamation_penalty)
        self._seen = count
        self.priority: NDArray[np.int64] = np.array(self._priorities, dtype=np.int64)
        self.reclamation: NDArray[np.float64] = np.array(self._reclamation, dtype=float)
        self.penalties: NDArray[np.float64] = np.array(self._interruption, dtype=float) + self.reclamation
        self.keep_rank, self.keep_ranks = dense_ranks(-self.reclamation)  # high penalties are kept first

    def __getitem__(self, number: int) -> Assignment:
        return self._assignments[number]

    def own(self, fingerprint: str, group: str) -> list[int]:
        """The numbers of the stamps that say "obtained for exactly this gang"."""
        return self._own.get((fingerprint, group), [])
