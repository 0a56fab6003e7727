"""Reads the inventory from files and directories, and keeps the old one if the new one is invalid.

Must never: take over a part of an invalid inventory.
Rules: `providers#hook-inventory`.
"""

import hashlib
import posixpath
from collections.abc import Mapping, Sequence

from bigfleet.aio.disk import AnyPath, Disk, DiskError
from bigfleet.aio.given_files import INVENTORY_BYTES, UnfitFileError, read_given
from bigfleet.provider.hook.core.documents import ENDINGS, HookSets, read_inventory
from bigfleet.provider.hook.core.errors import InventoryError
from bigfleet.provider.hook.core.inventory import HookInventory, InventoryEntry, changes_refused

_EXECUTABLE = 0o111
Files = Sequence[tuple[str, bytes]]


class InventorySource:
    """Files and directories, and the last valid inventory read from them."""

    def __init__(self, disk: Disk, paths: Sequence[AnyPath], sets: HookSets) -> None:
        self._disk, self._paths, self._sets = disk, [posixpath.normpath(str(path)) for path in paths], sets
        self._inventory: HookInventory | None = None
        self._seen: bytes = b""
        self._known: dict[str, InventoryEntry] = {}

    @property
    def inventory(self) -> HookInventory:
        """The inventory in use; `load` must have succeeded once."""
        if self._inventory is None:
            raise InventoryError(["the inventory was not read yet"])
        return self._inventory

    def entry(self, machine_id: str) -> InventoryEntry | None:
        """Return a machine, also one that is no longer in the files: a bound one must still be drained."""
        return self._known.get(machine_id)

    def discovered(self, found: Mapping[str, InventoryEntry]) -> None:
        """Keep machines that a hook found, for their `vars`."""
        self._known |= found

    def load(self) -> HookInventory:
        """Read everything now; if anything is invalid, raise `InventoryError` and keep the old inventory."""
        files, problems = self._read()
        self._seen = _digest(files, problems)
        if problems:
            raise InventoryError(problems)
        found = read_inventory(files, self._sets)
        faults = self._hook_faults(found)
        if self._inventory is not None:
            faults += changes_refused(self._inventory, found)
        if faults:
            raise InventoryError(faults)
        self._inventory = found
        self._known |= found.entries
        return found

    def has_changed(self) -> bool:
        """Return whether the files differ from those of the last `load`, valid or not."""
        return _digest(*self._read()) != self._seen

    def _read(self) -> tuple[Files, list[str]]:
        files: list[tuple[str, bytes]] = []
        problems: list[str] = []
        for path in self._paths:
            try:
                if self._disk.stat(path).is_directory:
                    names = [name for name in self._disk.list_names(path) if _is_inventory(name)]
                    inside = [posixpath.join(path, name) for name in names]
                else:
                    inside = [path]
                files += [(file, read_given(self._disk, file, INVENTORY_BYTES)) for file in inside]
            except (DiskError, UnfitFileError) as error:
                problems.append(str(error))
        if not files and not problems:
            problems.append(f"{', '.join(self._paths)}: no file that ends in {', '.join(ENDINGS)}")
        return files, problems

    def _hook_faults(self, inventory: HookInventory) -> list[str]:
        faults = []
        for kind, path in sorted(inventory.hooks.items()):
            try:
                stat = self._disk.stat(path)
            except DiskError as error:
                faults.append(f"hooks.{kind}: {error}")
                continue
            if stat.is_directory or not stat.permissions & _EXECUTABLE:
                faults.append(f"hooks.{kind}: found {path!r}, allowed is a file that may be executed")
        return faults


def _is_inventory(name: str) -> bool:
    return name.endswith(ENDINGS) and not name.startswith(".")


def _digest(files: Files, problems: Sequence[str]) -> bytes:
    digest = hashlib.sha256(repr(problems).encode())
    for path, content in files:
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.digest()
