"""Gives shared machines to needs; a proposal is checked as a whole, then committed or not at all.

Why: a machine has at most one claimant in a cycle, whatever the order of proposals.
Must never: take a machine from a claimant of equal or higher precedence.
Rules: `engine#commit-broker`, `engine#acquisition-order`; ADR-0062.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Precedence = tuple[int, int, int]
NO_OWNER = -1


class CommitMode(Enum):
    """What happens to a proposal of which some machines are blocked."""

    INCREMENTAL = "the others are committed"
    ALL_OR_NOTHING = "none is committed"


@dataclass(frozen=True, slots=True)
class Commit:
    """The result of a proposal: machines the need now holds, and claims that other needs lost."""

    machines: tuple[int, ...]
    displaced: tuple[tuple[int, int], ...] = ()  # (need, machine)

    @property
    def conflict(self) -> bool:
        """Whether nothing could be committed."""
        return not self.machines


class Broker:
    """The holder of each machine in this cycle."""

    def __init__(self, machines: int, precedences: Sequence[Precedence]) -> None:
        self.owner: NDArray[np.int32] = np.full(machines, NO_OWNER, dtype=np.int32)
        self.taken: NDArray[np.bool_] = np.zeros(machines, dtype=np.bool_)
        self._precedences = precedences
        self.held: list[list[int]] = [[] for _ in precedences]
        """Machines by need, in the order in which they were committed."""

    def propose(
        self, need: int, machines: Sequence[int] | NDArray[np.intp], mode: CommitMode = CommitMode.INCREMENTAL
    ) -> Commit:
        """Commit what may be committed of a proposal."""
        rows = np.asarray(machines, dtype=np.intp)
        displaced: list[tuple[int, int]] = []
        if self.taken[rows].any():
            owners = self.owner[rows].tolist()
            mine = self._precedences[need]
            held = [owner != NO_OWNER and self._precedences[owner] >= mine for owner in owners]
            if any(held) and mode is CommitMode.ALL_OR_NOTHING:
                return Commit(())
            displaced = [
                (owner, row)
                for row, owner, blocked in zip(rows.tolist(), owners, held, strict=True)
                if owner != NO_OWNER and not blocked
            ]
            rows = rows[~np.array(held, dtype=np.bool_)]
        for owner, machine in displaced:
            self.held[owner].remove(machine)
        self.owner[rows] = need
        self.taken[rows] = True
        wanted = rows.tolist()
        self.held[need].extend(wanted)
        return Commit(tuple(wanted), tuple(displaced))
