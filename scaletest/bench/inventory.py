"""Bars 6 and 7: bytes per machine, and reading listings as multiples of a plain parse of the same bytes.

Run in a process of its own per fleet, so that nothing else is in its memory: `python -m scaletest.bench.inventory FULL
DELTA OTHER` prints one JSON object; OTHER is the full listing with its maps in another order.
"""

import ctypes
import gc
import json
import sys
from pathlib import Path

from bigfleet.model.inventory import Inventory
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.listing import Listing, ListingReader
from scaletest.bench.unit import Timing, one_unit, timed


def measure(full: Path, delta: Path, other: Path) -> dict[str, object]:
    """Memory first, while the process is fresh, then the ratios."""
    # Grown and used before the first reading, so that what is counted is the inventory's alone.
    warm = Inventory()
    _load(warm, ListingReader(warm), delta.read_bytes())
    del warm
    before = _resident_bytes()
    inventory = Inventory()
    reader = ListingReader(inventory)
    _load(inventory, reader, full.read_bytes())
    inventory.snapshot()
    count = len(inventory)
    resident = (_resident_bytes() - before) / count
    exact = inventory.size().bytes_per_machine
    timings = _timings(inventory, reader, full.read_bytes(), delta.read_bytes())
    timings["ingest_other_order"] = _other_order(inventory, reader, full.read_bytes(), other.read_bytes())
    return {
        "machines": count,
        "memory": {"bytes_per_machine": round(resident, 1), "exact_bytes_per_machine": round(exact, 1)},
        "unit_ms": round(timed(one_unit).median_cpu_ms, 2),
        "timings": {
            name: timing.as_json() | {"repetitions": len(timing.cpu_ms)} for name, timing in timings.items()
        },
    }


def _load(inventory: Inventory, reader: ListingReader, data: bytes) -> None:
    inventory.insert_rows(reader.read(data).new, 0.0)
    reader.read(data)


def _timings(inventory: Inventory, reader: ListingReader, full: bytes, delta: bytes) -> dict[str, Timing]:
    def first() -> None:
        fresh = Inventory()
        fresh.insert_rows(ListingReader(fresh).read(full).new, 0.0)

    def plain() -> None:
        pb.MachineList.FromString(full)

    timings = {"plain_parse": timed(plain)}
    timings["ingest_unchanged"] = timed(lambda: reader.read(full))
    # Undone before each repetition, so that half of the delta is new to the inventory every time.
    timings["ingest_delta"] = timed(
        lambda: _apply(inventory, reader.read(delta, full=False)),
        prepare=lambda: _apply(inventory, reader.read(full)),
    )
    timings["ingest_first"] = timed(first)
    again = timed(plain)  # before and after, as other load on the machine comes and goes
    timings["plain_parse"] = Timing(
        timings["plain_parse"].cpu_ms + again.cpu_ms, timings["plain_parse"].wall_ms + again.wall_ms
    )
    return timings


def _other_order(inventory: Inventory, reader: ListingReader, full: bytes, other: bytes) -> Timing:
    def read() -> None:
        listing = reader.read(other)
        if listing.changed or len(listing.new):
            raise RuntimeError("another order of maps was taken for a change")

    _apply(inventory, reader.read(full))
    return timed(read, prepare=lambda: reader.read(full))


def _apply(inventory: Inventory, listing: Listing) -> None:
    inventory.adopt_many(listing.changed, 0.0)


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator merely keeps in reserve is not the inventory's
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel reports no resident size")


if __name__ == "__main__":
    print(json.dumps(measure(*map(Path, sys.argv[1:]))))
