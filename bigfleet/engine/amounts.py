"""Resource vectors as rows of integers, exact, in a scale of their own per dimension.

Why: the engine adds up and compares capacities of many machines at once. In units of 10⁻⁹ the memory of one machine
would overflow 64 bits, so each dimension is divided by what all its amounts have in common.
Must never: round. Where even the scaled sums could leave 64 bits, Python's own integers take over, slower and as exact.
"""

from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.demand import Amounts
from bigfleet.model.resources import Resources

Matrix = NDArray[Any]  # int64, or object where 64 bits would not do
Vector = tuple[int, ...]  # what one need wants or misses: a handful of numbers, for which Python is quicker
_SAFE = 2**62
_RUNS = 16
_LOOK = 64  # most needs are covered by a few machines, so sums over all candidates would be wasted


class Scale:
    """The dimensions that demand names, and the unit of each."""

    def __init__(self, wanted: Amounts, offered: Amounts, terms: int) -> None:
        """`terms` bounds how many amounts are ever added up: machines, and rows that fold into one total."""
        self.names: tuple[str, ...] = tuple(sorted(wanted.common))
        self.units = tuple(gcd(wanted.common[name], offered.common.get(name, 0)) for name in self.names)
        self._dimensions = tuple(zip(self.names, self.units, strict=True))
        self.dtype: type = np.int64 if self._largest(wanted, offered) * (terms + 2) < _SAFE else object

    def _largest(self, *parts: Amounts) -> int:
        return max(
            (
                part.largest.get(name, 0) // unit
                for part in parts
                for name, unit in zip(self.names, self.units, strict=True)
            ),
            default=0,
        )

    def serves(self, wanted: Amounts, offered: Amounts, terms: int) -> bool:
        """Whether amounts that came later can be expressed in this scale without loss."""
        if not wanted.common.keys() <= set(self.names):
            return False
        units = dict(zip(self.names, self.units, strict=True))
        whole = all(
            divisor % units[name] == 0
            for part in (wanted, offered)
            for name, divisor in part.common.items()
            if name in units
        )
        return whole and (self.dtype is object or self._largest(wanted, offered) * (terms + 2) < _SAFE)

    def vector(self, resources: Resources) -> Vector:
        """A number per dimension."""
        amount = resources.amount
        return tuple([amount(name) // unit for name, unit in self._dimensions])

    def matrix(self, vectors: Sequence[Vector]) -> Matrix:
        """A row per vector."""
        return np.array(vectors, dtype=self.dtype).reshape(len(vectors), len(self.names))

    def resources(self, vector: Iterable[int]) -> Resources:
        """The vector as named amounts again."""
        return Resources(
            (name, int(amount) * unit)
            for name, unit, amount in zip(self.names, self.units, vector, strict=True)
        )


def all_of(flags: NDArray[Any]) -> NDArray[np.bool_]:
    """For each row whether it is true in every column."""
    every: NDArray[np.bool_] = np.logical_and.reduce(flags, axis=1, dtype=np.bool_)
    return every


def fill(missing: Vector, size: Vector, available: int) -> tuple[int, Vector]:
    """How many machines of one size it takes, as far as there are any, and what is still missing then.

    A machine is taken as long as anything is missing, even if it has nothing of that (`engine#crediting`).
    """
    count = 0
    for wanted, held in zip(missing, size):  # noqa: B905  of one length by construction, and this is the inmost loop
        if wanted:
            if not held:
                return available, less(missing, size, available)
            count = max(count, -(-wanted // held))
    if count > available:
        return available, less(missing, size, available)
    return count, (0,) * len(missing)


def less(missing: Vector, size: Iterable[int], count: int = 1) -> Vector:
    """What is still missing after `count` machines of a size."""
    return tuple(
        [wanted - held * count if wanted > held * count else 0 for wanted, held in zip(missing, size)]  # noqa: B905
    )


def first_covering(capacities: Matrix, wanted: Vector) -> int:
    """How many of these machines, taken in order, cover what is wanted; all of them if they never do."""
    missing = [place for place, amount in enumerate(wanted) if amount > 0]
    if not missing:
        return 0
    goal = np.array([wanted[place] for place in missing], dtype=capacities.dtype)
    covered = all_of(np.cumsum(capacities[:, missing], axis=0) >= goal)
    place = int(covered.argmax()) if covered.size else 0
    return place + 1 if covered.size and covered[place] else len(capacities)


class CapacitySizes:
    """What machines count as, by the number of their size: as vectors and as rows of a matrix."""

    def __init__(self, scale: Scale, vectors: list[Vector]) -> None:
        self._scale, self.vectors = scale, vectors
        self.matrix: Matrix = scale.matrix(vectors)

    @classmethod
    def of(cls, scale: Scale, capacities: Iterable[Resources]) -> "CapacitySizes":
        """The sizes of some capacities."""
        return cls(scale, [scale.vector(capacity) for capacity in capacities])

    def at_most(self, limits: Resources) -> "CapacitySizes":
        """The same sizes with no more than the limit in each dimension that the limits name."""
        dimensions = [
            (place, limit)
            for place, (name, limit) in enumerate(
                zip(self._scale.names, self._scale.vector(limits), strict=True)
            )
            if name in limits
        ]
        limited = []
        for vector in self.vectors:
            amounts = list(vector)
            for place, limit in dimensions:
                amounts[place] = min(amounts[place], limit)
            limited.append(tuple(amounts))
        return CapacitySizes(self._scale, limited)

    def cover(self, sizes: NDArray[np.intp], missing: Vector) -> tuple[int, Vector]:
        """How many machines of these sizes, taken in order, it takes, and what is still missing then."""
        if not sizes.size or not any(missing):
            return 0, missing
        first = int(sizes[0])
        count, left = fill(missing, self.vectors[first], sizes.size)
        if count == 1 or np.count_nonzero(sizes[:count] == first) == count:
            return count, left
        # Machines come sorted by cost, so equal sizes are together in a few runs, each of which is arithmetic.
        ends = (sizes[1:] != sizes[:-1]).nonzero()[0]
        if ends.size > _RUNS:
            return self._cover_mixed(sizes, missing)
        start = 0
        for end in (*(ends + 1).tolist(), sizes.size):
            count, missing = fill(missing, self.vectors[sizes[start]], end - start)
            if not any(missing):
                return start + count, missing
            start = end
        return start, missing

    def _cover_mixed(self, sizes: NDArray[np.intp], missing: Vector) -> tuple[int, Vector]:
        look, before = _LOOK, 0
        while any(missing) and before < sizes.size:
            capacities = self.matrix.take(sizes[before : before + look], axis=0)
            count = first_covering(capacities, missing)
            missing = less(missing, capacities[:count].sum(axis=0).tolist())
            before += count
            look *= 8
        return before, missing
