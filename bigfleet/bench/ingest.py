"""The benchmarks that read: a provider's listing of the whole fleet into the inventory.

Why: a shard lists every ten seconds; reading what did not change may not cost what reading everything costs.
Must never: measure a reading that read wrongly; each result is checked for what it found.
Rules: `engine#ingest-cost`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from bigfleet.bench.meter import BenchCase
from bigfleet.model.errors import BigFleetError
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import Assignment, Machine, MachineState
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.listing import ListingReader, MachineListing
from bigfleet.wire.machines import machine_to_proto
from bigfleet.wire.metadata import assignment_to_metadata
from bigfleet.workload.worlds import START

DELTA = 1000
OWNER = "shard-0"

_AT_ONCE = 5_000
_FEWEST_BETWEEN = 200  # machines between two of a delta, so that it stays small in a small fleet too
_NEXT = {
    MachineState.SPECULATIVE: MachineState.CREATING,
    MachineState.IDLE: MachineState.DELETING,
    MachineState.CONFIGURED: MachineState.DRAINING,
}


class WrongReadingError(BigFleetError):
    """A listing was read as something that it does not say."""

    def __init__(self, name: str, found: int, wanted: int) -> None:
        super().__init__(
            f"{name}: read {found} machines that differ from what is known, and there are {wanted}"
        )
        self.name, self.found, self.wanted = name, found, wanted


class Listings:
    """The listings of one fleet: everything, and what changed in some of it."""

    def __init__(self, machines: Iterable[Machine], size: int) -> None:
        self.size = size
        known: dict[Assignment, FrozenMap[str]] = {}
        chunks: list[bytes] = []
        moved: list[Machine] = []
        every = max(_FEWEST_BETWEEN, -(-size // DELTA))
        numbered = enumerate(machines)
        while chunk := list(islice(numbered, _AT_ONCE)):
            written = [(place, replace(item, metadata=_metadata(item, known))) for place, item in chunk]
            # Messages one behind the other are one message: a repeated field goes on where it stopped.
            chunks.append(_encoded(machine for _, machine in written))
            moved += [machine for place, machine in written if place % every == 0]
        self.full = b"".join(chunks)
        self.news = -(-len(moved) // 2)
        news = [replace(machine, state=_NEXT[machine.state]) for machine in moved[: self.news]]
        self.delta = _encoded([*news, *moved[self.news :]])


def _metadata(machine: Machine, known: dict[Assignment, FrozenMap[str]]) -> FrozenMap[str]:
    if not machine.cluster:
        return NO_TEXTS
    found = known.get(machine.assigned)
    if found is None:
        found = known[machine.assigned] = FrozenMap(assignment_to_metadata(machine.assigned, OWNER))
    return found


def _encoded(machines: Iterable[Machine]) -> bytes:
    return pb.MachineList(machines=map(machine_to_proto, machines)).SerializeToString()


def ingest_cases(listings: Listings) -> Iterator[tuple[str, BenchCase[MachineListing]]]:
    """The three cases by name; one after the other they share an inventory that has read everything."""
    inventory = Inventory()
    reader = ListingReader(inventory)
    inventory.insert_rows(reader.read(listings.full).new, START)
    reader.read(listings.full)

    def first() -> MachineListing:
        fresh = Inventory()
        listing = ListingReader(fresh).read(listings.full)
        fresh.insert_rows(listing.new, START)
        return listing

    def delta() -> MachineListing:
        listing = reader.read(listings.delta, full=False)
        inventory.adopt_many(listing.changed, START)
        return listing

    def take_back() -> None:
        inventory.adopt_many(reader.read(listings.full).changed, START)

    yield (
        "ingest_unchanged",
        BenchCase(lambda: reader.read(listings.full), check=_expecting("ingest_unchanged", 0)),
    )
    yield "ingest_first", BenchCase(first, check=_expecting("ingest_first", listings.size))
    yield "ingest_delta", BenchCase(delta, take_back, _expecting("ingest_delta", listings.news))


def _expecting(name: str, wanted: int) -> Callable[[MachineListing], None]:
    """Refuses a listing that says more or less than it should."""

    def check(listing: MachineListing) -> None:
        found = len(listing.changed) + len(listing.new) + len(listing.rejected)
        if found != wanted:
            raise WrongReadingError(name, found, wanted)

    return check
