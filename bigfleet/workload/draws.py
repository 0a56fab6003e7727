"""Where lots come from: named streams of numbers, and the few kinds of draw this room makes from them.

Why: one seed is one world. The room draws from what it is handed and from nothing else, and only through `random()`,
the one method whose sequence the standard library promises to keep from version to version.
Must never: keep a stream between two calls of a generator, since then the second world would differ from the first.
Rules: `testing#constructor-seams`, `testing#named-streams`.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Protocol


class Draws(Protocol):
    """One sequence of draws; every call moves it on."""

    def random(self) -> float:
        """Return a float from 0 up to, but without, 1."""


class DrawSource(Protocol):
    """A family of named streams; a child of one name starts over each time it is asked for."""

    def stream(self, name: str) -> Draws:
        """Return the stream of that name."""

    def child(self, name: str) -> "DrawSource":
        """Return a family of its own, the same for the same name."""


def between(low: int, high: int, draws: Draws) -> int:
    """An integer between the bounds, both included, each as likely as the others."""
    return low + int(draws.random() * (high - low + 1))


class Wheel:
    """Places with whole-number weights; a place is drawn as often as its weight says."""

    __slots__ = ("_bounds", "_total")

    def __init__(self, weights: Iterable[int]) -> None:
        self._bounds = tuple(accumulate(weights))
        self._total = self._bounds[-1]

    def draw(self, draws: Draws) -> int:
        """The place drawn; a wheel of one place draws no lot."""
        if len(self._bounds) == 1:
            return 0
        return bisect_right(self._bounds, draws.random() * self._total)
