"""New machines in bulk, on their way into the inventory: parallel lists instead of a record each.

Why: the first listing of a large provider brings everything at once; making a record per machine would take longer
than parsing it.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Placement:
    """The rows of new machines, for callers that do not keep the machines themselves."""

    first_row: int | None = None


@dataclass(slots=True)
class NewRows:
    """Machines the inventory does not hold yet, in flat buffers with one entry per machine unless said otherwise.

    Flat, and not lists of objects: a first listing is large, and what a quarter of a million small objects leave behind
    in the allocator would outweigh the inventory itself.
    """

    generation: int
    """The inventory's when the numbers below were drawn; they mean nothing in another one."""
    population: int
    """The inventory's when the machines were found to be new."""
    ids: bytearray = field(default_factory=bytearray)  # one behind the other
    id_lengths: "array[int]" = field(default_factory=lambda: array("H"))
    id_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    states: bytearray = field(default_factory=bytearray)
    shapes: "array[int]" = field(default_factory=lambda: array("i"))
    assignments: "array[int]" = field(default_factory=lambda: array("i"))
    clusters: "array[int]" = field(default_factory=lambda: array("i"))
    providers: "array[int]" = field(default_factory=lambda: array("i"))
    host_refs: bytearray = field(default_factory=bytearray)  # one behind the other
    host_lengths: "array[int]" = field(default_factory=lambda: array("H"))
    source_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    wide: dict[str, "WideValues"] = field(default_factory=dict)
    """The labels of each wide key."""
    errors: dict[int, str] = field(default_factory=dict)
    """Last error by place."""
    placement: Placement = field(default_factory=Placement)
    """Filled by the inventory when it takes the rows in, which it does in their order."""

    def __len__(self) -> int:
        return len(self.states)

    def extend(
        self,
        ids: Sequence[str],
        states: Iterable[int],
        numbers: NDArray[np.int32],
        host_refs: Sequence[bytes],
        source_hashes: Iterable[int],
    ) -> None:
        """Add machines whose records were checked; `numbers` has four rows and a column per machine.

        The rows are the inventory's numbers for shape, assignment, cluster and provider.
        """
        encoded = [machine_id.encode() for machine_id in ids]
        self.ids += b"".join(encoded)
        self.id_lengths.extend(map(len, encoded))
        self.id_hashes.extend(map(hash, ids))
        self.states.extend(states)
        for target, values in zip(
            (self.shapes, self.assignments, self.clusters, self.providers), numbers, strict=True
        ):
            target.frombytes(values.tobytes())
        self.host_refs += b"".join(host_refs)
        self.host_lengths.extend(map(len, host_refs))
        self.source_hashes.extend(source_hashes)

    def add_wide(self, key: str, places: Iterable[int], labels: Sequence[bytes]) -> None:
        """Give the machines at these places, which may be added only afterwards, a wide label each."""
        values = self.wide.setdefault(key, WideValues())
        values.places.extend(places)
        values.texts += b"".join(labels)
        values.lengths.extend(map(len, labels))


@dataclass(slots=True)
class WideValues:
    """The values of one wide label: which machines have it, and the texts one behind the other."""

    places: "array[int]" = field(default_factory=lambda: array("i"))
    texts: bytearray = field(default_factory=bytearray)
    lengths: "array[int]" = field(default_factory=lambda: array("H"))


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
