"""The one place that gives machines to needs: a plan is looked at whole, then committed or not at all.

Why: a machine has at most one claimant in a cycle, whoever proposes it and in whatever order proposals come.
Called by: the pre-pass and acquisition.
Must never: take a machine from a claimant of equal or higher precedence.
Rules: decision-engine 7.13, decision E1, ADR-0062.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Precedence = tuple[int, int, int]
NOBODY = -1


class Mode(Enum):
    """What becomes of a proposal of which some machines are blocked."""

    INCREMENTAL = "the others are committed"
    ALL_OR_NOTHING = "none is committed"


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of a proposal: machines that are now the need's, and claims that others lost."""

    machines: tuple[int, ...]
    displaced: tuple[tuple[int, int], ...] = ()  # (need, machine)

    @property
    def conflict(self) -> bool:
        """Whether nothing could be committed."""
        return not self.machines


class Broker:
    """Who holds which machine in this cycle."""

    def __init__(self, machines: int, precedences: Sequence[Precedence]) -> None:
        self.owner: NDArray[np.int32] = np.full(machines, NOBODY, dtype=np.int32)
        self._precedences = precedences
        self.held: list[list[int]] = [[] for _ in precedences]
        """Machines by need, in the order in which they were committed."""

    def propose(self, need: int, machines: Sequence[int], mode: Mode = Mode.INCREMENTAL) -> Commit:
        """Commit what may be committed of a proposal."""
        mine = self._precedences[need]
        wanted: list[int] = []
        displaced: list[tuple[int, int]] = []
        for machine in machines:
            owner = int(self.owner[machine])
            if owner == NOBODY:
                wanted.append(machine)
            elif self._precedences[owner] < mine:
                wanted.append(machine)
                displaced.append((owner, machine))
            elif mode is Mode.ALL_OR_NOTHING:
                return Commit(())
        for owner, machine in displaced:
            self.held[owner].remove(machine)
        self.owner[wanted] = need
        self.held[need].extend(wanted)
        return Commit(tuple(wanted), tuple(displaced))
