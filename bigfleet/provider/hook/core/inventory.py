"""The inventory of a hook provider: machines, hooks, and the rules between them.

Must never: read a disk; `bigfleet.provider.hook.sources` checks whether a hook can be executed.
Rules: `providers#hook-inventory`, `providers#hook-modes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import CapacityType, Shape
from bigfleet.provider.kit.core.validation import RecordValidator
from bigfleet.provider.kit.core.values import DescribedMachine

DEFAULT_NAME = "hook"


class HookKind(StrEnum):
    """The kinds of hooks; the first argument of a hook."""

    CREATE = "create"
    CONFIGURE = "configure"
    READY = "ready"
    DRAIN = "drain"
    DELETE = "delete"
    PROBE = "probe"
    DISCOVER = "discover"


REQUIRED_HOOKS = (HookKind.CONFIGURE, HookKind.DRAIN)


class InventoryMode(Enum):
    """Whether hosts exist already or are obtained by hooks."""

    FREE_POOL = "free-pool"
    """Hosts exist: machines begin Idle and are never deleted."""
    POWER_MANAGED = "power-managed"
    """`create` obtains hosts and `delete` gives them back: machines begin Speculative."""


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """One machine of the inventory; only its hooks see `vars`."""

    id: str
    ref: str
    shape: Shape
    vars: FrozenMap[str] = NO_TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class HookInventory:
    """The content of all inventory files."""

    name: str = DEFAULT_NAME
    clusters: Mapping[str, str] = field(default_factory=dict)
    """Kubeconfig file by cluster, for the built-in readiness check."""
    hooks: Mapping[HookKind, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    resume: bool = True
    entries: Mapping[str, InventoryEntry] = field(default_factory=dict)

    @property
    def mode(self) -> InventoryMode:
        return InventoryMode.POWER_MANAGED if HookKind.CREATE in self.hooks else InventoryMode.FREE_POOL

    @property
    def discovers(self) -> bool:
        """Whether a hook reports machines in addition to those of the files."""
        return HookKind.DISCOVER in self.hooks

    def slot(self, entry: InventoryEntry) -> DescribedMachine:
        """Return a machine as the kit takes it."""
        return DescribedMachine(
            entry.id, entry.shape, entry.ref if self.mode is InventoryMode.FREE_POOL else ""
        )

    def with_machines(self, found: Mapping[str, InventoryEntry]) -> "HookInventory":
        """Return the inventory with the machines that a discover hook found added."""
        return replace(self, entries={**self.entries, **found})


def faults_of(inventory: HookInventory) -> list[str]:
    """Return the faults of an inventory whose parts are valid by themselves."""
    faults = [
        f"hooks.{kind}: missing, allowed is the path of an executable file"
        for kind in REQUIRED_HOOKS
        if kind not in inventory.hooks
    ]
    if (HookKind.CREATE in inventory.hooks) != (HookKind.DELETE in inventory.hooks):
        faults.append("hooks: found one of create and delete, allowed is both or neither")
    if not inventory.entries and not inventory.discovers:
        faults.append("machines: found none, allowed is at least one machine or a discover hook")
    return [*faults, *machine_faults(inventory, inventory.entries)]


def machine_faults(inventory: HookInventory, entries: Mapping[str, InventoryEntry]) -> list[str]:
    """Return the rules of the contract that machines break."""
    validator = RecordValidator()
    faults: list[str] = []
    for entry in entries.values():
        faults += [f"machine {fault}" for fault in validator.faults(inventory.slot(entry))]
        if inventory.mode is InventoryMode.FREE_POOL and not entry.ref:
            faults.append(
                f"machine {entry.id}: ref: missing, allowed is a host where there is no create hook"
            )
    return faults


def changes_refused(before: HookInventory, after: HookInventory) -> list[str]:
    """Return the changes that a reload may not make, as existing records depend on them."""
    pairs = (
        ("name", before.name, after.name),
        ("mode", before.mode.value, after.mode.value),
    )
    return [
        f"{what}: found {new!r}, allowed is {old!r} until the provider is restarted"
        for what, old, new in pairs
        if old != new
    ]


def warnings_of(inventory: HookInventory) -> list[str]:
    """Return what is allowed but probably a mistake."""
    warnings = []
    owned = sorted(
        entry.id
        for entry in inventory.entries.values()
        if entry.shape.capacity_type in (CapacityType.BARE_METAL, CapacityType.RESERVED)
    )
    if inventory.mode is InventoryMode.POWER_MANAGED and owned:
        warnings.append(
            f"{len(owned)} machines are bare-metal or reserved (first {owned[0]}); a shard never gives those back, "
            "so they stay powered once created; declare them on-demand"
        )
    if HookKind.READY not in inventory.hooks and not inventory.clusters:
        warnings.append(
            "there is neither a ready hook nor a kubeconfig, so exit code 0 of configure counts as Ready"
        )
    return warnings
