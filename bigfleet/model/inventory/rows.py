"""New machines in bulk, on their way into the inventory: parallel lists instead of a record each.

Why: the first listing of a large provider brings everything at once; making a record per machine would take longer
than parsing it.
Called by: the reader of provider listings fills one, `Inventory.insert_rows` takes it in.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Placement:
    """Where new machines went; told to whoever asked for it without keeping the machines themselves."""

    first_row: int | None = None


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
    wide: dict[str, tuple[list[int], list[bytes]]] = field(default_factory=dict)
    """For each wide label key the places in the lists of the machines that have it, and their values."""
    errors: dict[int, str] = field(default_factory=dict)
    """Last error by place in the lists."""
    placement: Placement = field(default_factory=Placement)
    """Filled by the inventory when it takes the rows in, which it does in their order."""

    def __len__(self) -> int:
        return len(self.ids)

    def add_wide(self, key: str, place: int, value: bytes) -> None:
        """Give the machine at a place a wide label."""
        places, values = self.wide.setdefault(key, ([], []))
        places.append(place)
        values.append(value)


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
