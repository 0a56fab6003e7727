"""Resource vectors: named amounts in exact integers, and the arithmetic of `engine#quantities` and `engine#vectors`.

Why: "does this machine cover that unit" is asked millions of times and must have one answer.
Must never: hold a negative amount, or distinguish a missing dimension from a zero one.
"""

from collections.abc import Iterable, Mapping
from typing import Self

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.quantity import format_quantity, parse_amount


class Resources(FrozenMap[int]):
    """Amounts per resource name in units of 10⁻⁹; zero dimensions are left out, so equal values are equal."""

    __slots__ = ()

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        positive = {name: amount for name, amount in dict(amounts).items() if amount}
        for name, amount in positive.items():
            if amount < 0:
                raise InvalidFieldError(
                    f"[{name}]", format_quantity(amount), "an amount that is not negative"
                )
        super().__init__(positive)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Read a map of quantity texts; a refusal names the dimension, as `[cpu]`."""
        return cls({name: parse_amount(text, f"[{name}]") for name, text in texts.items()})

    def texts(self) -> dict[str, str]:
        """Write every positive dimension as exact decimal text."""
        return {name: format_quantity(amount) for name, amount in self.items()}

    def amount(self, name: str) -> int:
        """The amount of one dimension, zero when it is missing."""
        return self._entries.get(name, 0)

    def __add__(self, other: "Resources") -> "Resources":
        total = dict(self._entries)
        for name, amount in other.items():
            total[name] = total.get(name, 0) + amount
        return Resources(total)

    def __sub__(self, other: "Resources") -> "Resources":
        """Difference per dimension; what would be negative becomes zero."""
        return Resources((name, max(0, amount - other.amount(name))) for name, amount in self.items())

    def maximum(self, other: "Resources") -> "Resources":
        """The larger amount of each dimension."""
        return Resources({name: max(self.amount(name), other.amount(name)) for name in (*self, *other)})

    def at_most(self, limits: "Resources") -> "Resources":
        """The vector with no more than the limit in each dimension that the limits name."""
        return Resources(
            (name, min(amount, limits.amount(name)) if name in limits else amount)
            for name, amount in self.items()
        )

    def scaled(self, count: int) -> "Resources":
        """The vector times a positive count."""
        if count < 1:
            raise InvalidFieldError("count", count, "a positive count")
        return Resources((name, amount * count) for name, amount in self.items())

    def covers(self, wanted: "Resources") -> bool:
        """Whether there is at least as much as wanted in every dimension that `wanted` names."""
        return all(self.amount(name) >= amount for name, amount in wanted.items())

    @property
    def is_zero(self) -> bool:
        """Whether no dimension is positive."""
        return not self._entries


ZERO = Resources()
