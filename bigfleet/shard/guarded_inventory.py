"""The inventory of a running shard, and the lock that long work in a thread takes on it.

Why: reading a full listing or sorting half a million ids would block the event loop for too long. Such work runs in a
worker thread, and writers wait here until it ends.
Must never: be locked twice; the cycle and a poll of machines in transition take turns.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from bigfleet.model.inventory import Inventory, InventorySnapshot

T = TypeVar("T")

WASTE_BYTES = 16 << 20
"""Unused texts below this size are not worth compacting."""

WASTE_VALUES = 8192
"""Unused shapes, assignments and names below this number are not worth collecting. A shape takes about 4 KiB with all
that is derived from it, and the engine sorts its machines again once their numbers have changed."""


class GuardedInventory:
    """One inventory and its lock."""

    def __init__(
        self,
        inventory: Inventory | None = None,
        waste_bytes: int = WASTE_BYTES,
        waste_values: int = WASTE_VALUES,
    ) -> None:
        self.inventory = inventory or Inventory()
        self._waste_bytes, self._tidy_bytes = waste_bytes, 0
        self._waste_values, self._tidy_values = waste_values, 0
        self._open = asyncio.Event()
        self._open.set()

    async def available(self) -> None:
        """Wait until the inventory may be used; the caller may use it until it next waits."""
        while not self._open.is_set():
            await self._open.wait()

    async def exclusively(self, work: Callable[[Inventory], T]) -> T:
        """Run long work on the inventory in a thread while no other task uses it."""
        await self.available()
        self._open.clear()
        try:
            return await asyncio.to_thread(work, self.inventory)
        finally:
            self._open.set()

    async def compact_if_wasteful(self) -> None:
        """Free texts, shapes and other shared values once there are more unused ones than used ones."""
        if self.inventory.size().texts > 2 * self._tidy_bytes + self._waste_bytes:
            await self.exclusively(Inventory.compact)
            self._tidy_bytes = self.inventory.size().texts
        elif self.inventory.shared_values > 2 * self._tidy_values + self._waste_values:
            await self.exclusively(Inventory.collect)
        else:
            return
        self._tidy_values = self.inventory.shared_values

    async def snapshot(self) -> InventorySnapshot:
        """An immutable snapshot; made in a thread, since the first one after a machine came or went sorts all ids."""
        return await self.exclusively(Inventory.snapshot)
