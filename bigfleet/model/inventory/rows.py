"""New machines in bulk, on their way into the inventory: parallel lists instead of a record each.

Why: the first listing of a large provider brings everything at once; making a record per machine would take longer
than parsing it.
Called by: the reader of provider listings fills one, `Inventory.insert_rows` takes it in.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class NewRows:
    """Machines the inventory does not hold yet; every list has one entry per machine unless said otherwise."""

    generation: int
    """The inventory's when the numbers below were drawn; they mean nothing in another one."""
    ids: list[str] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    shapes: list[int] = field(default_factory=list)
    assignments: list[int] = field(default_factory=list)
    clusters: list[int] = field(default_factory=list)
    providers: list[int] = field(default_factory=list)
    host_refs: list[bytes] = field(default_factory=list)
    source_hashes: list[int] = field(default_factory=list)
    wide: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    """For each wide label key the machines that have it: place in the lists, value."""
    errors: dict[int, str] = field(default_factory=dict)
    """Last error by place in the lists."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class InventorySize:
    """Where the bytes are, for benchmarks and metrics."""

    records: int
    texts: int
    index: int
    machines: int

    @property
    def bytes_per_machine(self) -> float:
        """Everything divided by the number of machines."""
        return (self.records + self.texts + self.index) / max(1, self.machines)
