"""A queue of the changes of one store for one consumer, with one entry per object however often it changed.

Why: a slow consumer must neither stall the watch nor let the queue grow.
Must never: lose a change, or hold more than one entry per object.
Rules: `operator#reflector`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from bigfleet.kube.resources import ObjectKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreChange(Generic[T]):
    """One object: as it was when the consumer last took a change of it, and as it is now; None if it does not exist."""

    key: ObjectKey
    before: T | None
    after: T | None


class ChangeQueue(Generic[T]):
    """Changes, oldest first."""

    def __init__(self, look_up: Callable[[ObjectKey], T | None]) -> None:
        self._look_up = look_up
        self._before: dict[ObjectKey, T | None] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._before)

    def add(self, key: ObjectKey, before: T | None) -> None:
        """Record that an object changed; of several changes the first `before` is kept."""
        self._before.setdefault(key, before)
        self._filled.set()

    async def wait(self) -> None:
        """Return once a change is queued."""
        while not self._before:
            self._filled.clear()
            await self._filled.wait()

    async def take(self) -> StoreChange[T]:
        """Wait for a change and return the oldest one, with the object as it is now."""
        await self.wait()
        return self.take_some(1)[0]

    def take_some(self, most: int) -> list[StoreChange[T]]:
        """Return up to so many changes, the oldest ones, without waiting; many at once cost less than one by one."""
        keys = list(islice(self._before, most))
        return [StoreChange(key, self._before.pop(key), self._look_up(key)) for key in keys]

    def take_all(self) -> list[StoreChange[T]]:
        """Return all changes that are queued now, without waiting."""
        taken, self._before = self._before, {}
        return [StoreChange(key, before, self._look_up(key)) for key, before in taken.items()]
