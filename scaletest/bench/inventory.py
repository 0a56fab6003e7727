"""Bars 6 and 7: bytes per machine, and reading listings as multiples of a plain parse of the same bytes.

Run in a process of its own per fleet, so that nothing else is in its memory: `python -m scaletest.bench.inventory FULL
DELTA OTHER` prints one JSON object; OTHER is the full listing with its maps in another order.
"""

import json
import statistics
import sys
from pathlib import Path

from bigfleet.bench.memory import resident_bytes
from bigfleet.bench.meter import BenchCase, BenchMeter, Timing
from bigfleet.bench.report import result_of
from bigfleet.model.inventory import Inventory
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.listing import ListingReader, MachineListing


def measure(full: Path, delta: Path, other: Path) -> dict[str, object]:
    """Memory first, while the process is fresh, then the ratios."""
    # Grown and used before the first reading, so that what is counted is the inventory's alone.
    warm = Inventory()
    _load(warm, ListingReader(warm), delta.read_bytes())
    del warm
    before = resident_bytes()
    inventory = Inventory()
    reader = ListingReader(inventory)
    _load(inventory, reader, full.read_bytes())
    inventory.snapshot()
    count = len(inventory)
    resident = (resident_bytes() - before) / count
    exact = inventory.size().bytes_per_machine
    timings = _timings(inventory, reader, full.read_bytes(), delta.read_bytes())
    timings["ingest_other_order"] = _other_order(inventory, reader, full.read_bytes(), other.read_bytes())
    units = [unit for timing in timings.values() for unit in timing.unit_ms]
    return {
        "machines": count,
        "memory": {"bytes_per_machine": round(resident, 1), "exact_bytes_per_machine": round(exact, 1)},
        "unit_ms": round(statistics.median(units), 2),
        "results": [result_of(name, timing).document() for name, timing in timings.items()],
    }


def _load(inventory: Inventory, reader: ListingReader, data: bytes) -> None:
    inventory.insert_rows(reader.read(data).new, 0.0)
    reader.read(data)


def _timings(inventory: Inventory, reader: ListingReader, full: bytes, delta: bytes) -> dict[str, Timing]:
    def first() -> None:
        fresh = Inventory()
        fresh.insert_rows(ListingReader(fresh).read(full).new, 0.0)

    meter = BenchMeter()
    plain: BenchCase[object] = BenchCase(lambda: pb.MachineList.FromString(full))
    parsed = meter.measure(plain)
    timings = {
        "ingest_unchanged": meter.measure(BenchCase(lambda: reader.read(full))),
        # Undone before each repetition, so that half of the delta is new to the inventory every time.
        "ingest_delta": meter.measure(
            BenchCase(
                lambda: _apply(inventory, reader.read(delta, full=False)),
                prepare=lambda: _apply(inventory, reader.read(full)),
            )
        ),
        "ingest_first": meter.measure(BenchCase(first)),
    }
    again = meter.measure(plain)  # before and after, as other load on the machine comes and goes
    timings["plain_parse"] = Timing(
        parsed.cpu_ms + again.cpu_ms, parsed.wall_ms + again.wall_ms, parsed.unit_ms + again.unit_ms
    )
    return timings


def _other_order(inventory: Inventory, reader: ListingReader, full: bytes, other: bytes) -> Timing:
    def check(listing: MachineListing) -> None:
        if listing.changed or len(listing.new):
            raise RuntimeError("another order of maps was taken for a change")

    _apply(inventory, reader.read(full))
    return BenchMeter().measure(BenchCase(lambda: reader.read(other), lambda: reader.read(full), check))


def _apply(inventory: Inventory, listing: MachineListing) -> None:
    inventory.adopt_many(listing.changed, 0.0)


if __name__ == "__main__":
    print(json.dumps(measure(*map(Path, sys.argv[1:]))))
