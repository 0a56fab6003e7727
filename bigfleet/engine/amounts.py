"""Resource vectors as rows of integers, exact, in a scale of their own per dimension.

Why: the engine adds up and compares capacities of many machines at once. In units of 10⁻⁹ the memory of one machine
would overflow 64 bits, so each dimension is divided by what all its amounts have in common.
Called by: the index of a cycle.
Must never: round. Where even the scaled sums could leave 64 bits, Python's own integers take over, slower and as exact.
"""

from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.resources import Resources

Vector = NDArray[Any]  # int64, or object where 64 bits would not do
_SAFE = 2**62


class Scale:
    """The dimensions that demand names, and the unit of each."""

    def __init__(
        self, wanted: Iterable[Resources], offered: Sequence[Resources], *, machines: int, rows: int
    ) -> None:
        """`machines` and `rows` of demand bound the sums that can be formed."""
        vectors = list(dict.fromkeys(wanted))  # rows of demand repeat each other, and the scale does not care
        self.names: tuple[str, ...] = tuple(sorted({name for vector in vectors for name in vector}))
        everything = [*vectors, *offered]
        self._units = tuple(gcd(*(vector.amount(name) for vector in everything)) or 1 for name in self.names)
        largest = max(
            (
                vector.amount(name) // unit
                for vector in everything
                for name, unit in zip(self.names, self._units, strict=True)
            ),
            default=0,
        )
        # The largest thing ever formed is a sum over all machines, or a total folded from many rows.
        self.dtype: type = np.int64 if largest * (machines + rows + 2) < _SAFE else object

    def vector(self, resources: Resources) -> Vector:
        """A row with one entry per dimension."""
        amounts = [resources.amount(name) // unit for name, unit in zip(self.names, self._units, strict=True)]
        return np.array(amounts, dtype=self.dtype)

    def matrix(self, many: Sequence[Resources]) -> Vector:
        """A row per vector."""
        rows = [
            [resources.amount(name) // unit for name, unit in zip(self.names, self._units, strict=True)]
            for resources in many
        ]
        return np.array(rows, dtype=self.dtype).reshape(len(many), len(self.names))

    def resources(self, vector: Vector) -> Resources:
        """The vector as named amounts again."""
        return Resources(
            (name, int(amount) * unit)
            for name, unit, amount in zip(self.names, self._units, vector, strict=True)
        )


def all_of(flags: NDArray[Any]) -> NDArray[np.bool_]:
    """For each row whether it is true in every column."""
    every: NDArray[np.bool_] = np.logical_and.reduce(flags, axis=1, dtype=np.bool_)
    return every


def first_covering(capacities: Vector, wanted: Vector) -> int:
    """How many of these machines, taken in order, cover what is wanted; all of them if they never do.

    A machine is taken as long as anything is missing, even if it has nothing of that (Q-5).
    """
    missing = np.flatnonzero(wanted > 0)
    if not missing.size:
        return 0
    covered = all_of(np.cumsum(capacities[:, missing], axis=0) >= wanted[missing])
    place = int(covered.argmax()) if covered.size else 0
    return place + 1 if covered.size and covered[place] else len(capacities)
