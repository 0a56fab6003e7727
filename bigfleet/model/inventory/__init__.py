"""The columnar inventory; start reading at `table`."""

from bigfleet.model.inventory.masked import SnapshotMask
from bigfleet.model.inventory.rows import InventorySize, NewRows, Placement
from bigfleet.model.inventory.snapshot import InventorySnapshot, Rows
from bigfleet.model.inventory.table import Inventory

__all__ = ["Inventory", "InventorySize", "InventorySnapshot", "NewRows", "Placement", "Rows", "SnapshotMask"]
