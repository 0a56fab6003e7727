"""The inventory of a running shard, and the gate in front of it.

Why: reading a full listing, or putting half a million ids in order, takes longer than the event loop may be still. Such
work runs in a thread, and while it does nobody may write; whoever wants to waits here, without holding up the loop.
Must never: be shut by two at once; only the cycle shuts it, and cycles do not overlap.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from bigfleet.model.inventory import Inventory, InventorySnapshot

T = TypeVar("T")

WASTE_BYTES = 16 << 20
"""Unused texts that are never worth the trouble."""


class GuardedInventory:
    """One inventory and its gate."""

    def __init__(self, inventory: Inventory | None = None, waste_bytes: int = WASTE_BYTES) -> None:
        self.inventory = inventory or Inventory()
        self._waste_bytes, self._tidy_bytes = waste_bytes, 0
        self._open = asyncio.Event()
        self._open.set()

    async def available(self) -> None:
        """Wait until the inventory may be touched; it then may until the caller next waits."""
        while not self._open.is_set():
            await self._open.wait()

    async def exclusively(self, work: Callable[[Inventory], T]) -> T:
        """Do long work on the inventory in a thread, with everybody else kept away from it."""
        await self.available()
        self._open.clear()
        try:
            return await asyncio.to_thread(work, self.inventory)
        finally:
            self._open.set()

    async def compact_if_wasteful(self) -> None:
        """Give back what texts of hosts and labels that are no longer used take, once it is more than all others."""
        if self.inventory.size().texts > 2 * self._tidy_bytes + self._waste_bytes:
            await self.exclusively(Inventory.compact)
            self._tidy_bytes = self.inventory.size().texts

    async def snapshot(self) -> InventorySnapshot:
        """One immutable view; in a thread, as the first one after a machine came or went sorts all ids."""
        return await self.exclusively(Inventory.snapshot)
