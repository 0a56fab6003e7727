"""Where a provider's memory is kept: the promise that the kit needs, and the store that keeps nothing.

Why: the same kit runs on a journal, on memory in tests, and on nothing at all where losing everything is part of the plan.
Must never: report an entry as durable before it is, or two entries in another order than they were given.
Rules: providers 4.1 (durable state).
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from bigfleet.model.errors import BigFleetError

Written = Callable[[BigFleetError | None], None]
"""Called once the entry is durable, with None, or once it is certain that it is not, with the reason."""


class StateStore(Protocol):
    """One provider's state on some medium; entries are opaque bytes."""

    def open(self) -> Iterator[bytes]:
        """Take possession and yield every entry that is durable, the snapshot's first; nothing for a new store."""

    def append(self, entry: bytes, written: Written) -> None:
        """Write an entry; answers come in the order of these calls, perhaps before this returns."""

    @property
    def wants_snapshot(self) -> bool:
        """Whether so much was appended that a new snapshot would pay."""

    async def snapshot(self, entries: Iterator[bytes]) -> None:
        """Replace everything appended before this call by these entries; appending goes on meanwhile."""

    @property
    def failure(self) -> BigFleetError | None:
        """Why nothing can be written any more before the process is started anew; None while all is well."""

    async def wait_failure(self) -> BigFleetError:
        """Wait until there is such a failure and return it."""

    def observe_syncs(self, observe: Callable[[float], object]) -> None:
        """Let somebody hear how long each sync took, in seconds."""

    async def close(self) -> None:
        """Finish what was begun and let the medium go."""


class Volatile:
    """A store that keeps nothing: every start is the first one."""

    def open(self) -> Iterator[bytes]:
        return iter(())

    def append(self, _entry: bytes, written: Written) -> None:
        written(None)

    @property
    def wants_snapshot(self) -> bool:
        return False

    async def snapshot(self, _entries: Iterator[bytes]) -> None:
        """Keep nothing; the entries are not even made."""

    @property
    def failure(self) -> BigFleetError | None:
        return None

    async def wait_failure(self) -> BigFleetError:
        await asyncio.get_running_loop().create_future()  # for ever
        raise AssertionError("a store that keeps nothing cannot fail")

    def observe_syncs(self, _observe: Callable[[float], object]) -> None:
        """There are none."""

    async def close(self) -> None:
        """There is nothing to let go."""
