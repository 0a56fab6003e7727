"""The store of a provider's state: the interface that the kit needs, and a store that keeps nothing.

Must never: report an entry as durable before it is, or entries in another order than they were given.
Rules: `providers#durable-state`.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from bigfleet.model.errors import BigFleetError

Written = Callable[[BigFleetError | None], None]
"""Called with None when the entry is durable, or with the reason when it certainly is not."""


class StateStore(Protocol):
    """Keeps one provider's state; entries are opaque bytes."""

    def open(self) -> Iterator[bytes]:
        """Lock the store and yield every durable entry, those of the snapshot first; nothing for a new store."""

    def append(self, entry: bytes, written: Written) -> None:
        """Write an entry; callbacks run in the order of these calls, perhaps before this returns."""

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended to make a new snapshot worthwhile."""

    async def snapshot(self, entries: Iterator[bytes]) -> None:
        """Replace everything appended before this call by these entries; appending continues meanwhile."""

    @property
    def failure(self) -> BigFleetError | None:
        """Why nothing can be written until the process restarts; None while the store works."""

    async def wait_failure(self) -> BigFleetError:
        """Wait for such a failure and return it."""

    def observe_syncs(self, observe: Callable[[float], object]) -> None:
        """Set a callback that gets the duration of each sync in seconds."""

    async def close(self) -> None:
        """Finish pending writes and release the store."""


class Volatile:
    """A store that keeps nothing: every start is a first start."""

    def open(self) -> Iterator[bytes]:
        return iter(())

    def append(self, _entry: bytes, written: Written) -> None:
        written(None)

    @property
    def wants_snapshot(self) -> bool:
        return False

    async def snapshot(self, _entries: Iterator[bytes]) -> None:
        """Keep nothing; the entries are not generated."""

    @property
    def failure(self) -> BigFleetError | None:
        return None

    async def wait_failure(self) -> BigFleetError:
        await asyncio.get_running_loop().create_future()  # for ever
        raise AssertionError("a store that keeps nothing cannot fail")

    def observe_syncs(self, _observe: Callable[[float], object]) -> None:
        """A volatile store has no syncs."""

    async def close(self) -> None:
        """There is nothing to release."""
