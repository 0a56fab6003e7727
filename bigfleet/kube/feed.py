"""What has changed since a consumer last looked, one entry per object however often it changed.

Why: a consumer that is slow must neither stall the watch nor let a queue grow; all it ever needs is which objects to look at
again, and what they are now.
Must never: lose a change, or hold more than one entry per object.
Rules: operator 15.6 item 1 (no reader of a watch waits for a handler).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bigfleet.kube.resources import ObjectKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One object: what it was when the consumer last took a change of it, and what it is now; None where it is not there."""

    key: ObjectKey
    before: T | None
    after: T | None


class Feed(Generic[T]):
    """Changes of one store for one consumer, oldest first."""

    def __init__(self, look_up: Callable[[ObjectKey], T | None]) -> None:
        self._look_up = look_up
        self._before: dict[ObjectKey, T | None] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._before)

    def note(self, key: ObjectKey, before: T | None) -> None:
        """Remember that an object changed; what it was is kept from the first time on."""
        self._before.setdefault(key, before)
        self._filled.set()

    async def take(self) -> Change[T]:
        """Return the change that has waited longest, as it stands now; wait for one."""
        while not self._before:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._before))
        return Change(key, self._before.pop(key), self._look_up(key))

    def take_waiting(self) -> list[Change[T]]:
        """Return every change that is there now, without waiting."""
        taken, self._before = self._before, {}
        return [Change(key, before, self._look_up(key)) for key, before in taken.items()]
