"""Gives shared machines to needs; a proposal is checked as a whole, then committed or not at all.

Why: a machine has at most one claimant in a cycle, whatever the order of proposals.
Must never: take a machine from a claimant of equal or higher precedence.
Rules: `engine#commit-broker`, `engine#acquisition-order`; ADR-0062.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Precedence = tuple[int, int, int]
NO_OWNER = -1


class Precedences(Protocol):
    """The precedence of each need, by its number."""

    def __getitem__(self, number: int, /) -> Precedence: ...


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

    def __init__(self, machines: int, precedences: Precedences) -> None:
        self.owner: NDArray[np.int32] = np.full(machines, NO_OWNER, dtype=np.int32)
        self.marks = bytearray(machines)
        """What `taken` says, for readers of single machines: to ask an array for one takes four times as long."""
        self.taken: NDArray[np.bool_] = np.frombuffer(self.marks, dtype=np.bool_)
        self._precedences = precedences
        self.held: defaultdict[int, list[int]] = defaultdict(list)
        """Machines by need, in the order in which they were committed; without those that were granted."""

    def grant(self, needs: NDArray[np.intp], machines: NDArray[np.intp]) -> None:
        """Commit machines that are free or were marked for the need before, given for each machine whose it is."""
        if (self.owner[machines] != NO_OWNER).any():
            raise ValueError("a machine is granted that a need holds already")
        self.owner[machines] = needs
        self.taken[machines] = True

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
