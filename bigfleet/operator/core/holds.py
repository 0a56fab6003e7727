"""How long something that did not help is not tried again: longer each time, up to a longest time.

Must never: grow without bound, in time or in number.
Rules: `operator#fragments-holds`; ADR-0269.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Hold:
    """The first and the longest time; each is twice the one before."""

    first_s: float
    longest_s: float


@dataclass(slots=True)
class _Held:
    until_s: float
    length_s: float


class Holds(Generic[K]):
    """What is held back, and for how long."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[K, _Held] = {}

    def begin(self, key: K, hold: Hold, now_s: float) -> None:
        """Hold something back, twice as long as the last time if that was not long ago."""
        before = self._held.pop(key, None)
        length_s = hold.first_s
        if before is not None and now_s < before.until_s + 2 * before.length_s + hold.longest_s:
            length_s = min(max(2 * before.length_s, hold.first_s), max(hold.longest_s, before.length_s))
        while len(self._held) >= self._most:
            del self._held[next(iter(self._held))]  # the oldest
        self._held[key] = _Held(now_s + length_s, length_s)

    def until_s(self, key: K, now_s: float) -> float | None:
        """Return until when something is held back; None if it is not."""
        held = self._held.get(key)
        return held.until_s if held is not None and now_s < held.until_s else None

    def end(self, key: K) -> None:
        """Forget that something was held back."""
        self._held.pop(key, None)
