"""Small numbers for values that many machines share: shapes, assignments, cluster names.

Why: half a million machines have a few hundred shapes; a number per machine instead of a value makes columns possible.
Must never: give a number that is in use a new meaning; `kept` makes a new interner and says how to renumber.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Values by number and numbers by value; number 0 is the default and always there."""

    def __init__(self, default: T) -> None:
        self._values: list[T] = [default]
        self._numbers: dict[T, int] = {default: 0}

    def intern(self, value: T) -> int:
        """The value's number, a new one if it was never seen."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._values)
            self._values.append(value)
        return number

    def number(self, value: T) -> int | None:
        """The value's number if it has one."""
        return self._numbers.get(value)

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)

    def kept(self, in_use: NDArray[np.bool_]) -> tuple["Interner[T]", NDArray[np.int32]]:
        """A new interner of the values in use, and the new number of every old one."""
        fresh = Interner(self._values[0])
        renumber = np.zeros(len(self._values), dtype=np.int32)
        for number in np.flatnonzero(in_use[1:]) + 1:
            renumber[number] = fresh.intern(self._values[number])
        return fresh, renumber
