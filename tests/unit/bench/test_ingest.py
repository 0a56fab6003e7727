"""Listings of a fleet, and readings that are refused when they read wrongly."""

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.bench.ingest import Listings, WrongReadingError, ingest_cases
from bigfleet.bench.meter import BenchMeter
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import MachineState
from bigfleet.wire.listing import ListingReader
from bigfleet.workload.fleet import fleet_size, generate_fleet
from bigfleet.workload.profiles import profile_named

TINY = profile_named("tiny")


@pytest.fixture
def listings() -> Listings:
    return Listings(generate_fleet(TINY, SeededRng(1)), fleet_size(TINY))


def test_a_listing_holds_the_whole_fleet_with_its_stamps(listings: Listings) -> None:
    inventory = Inventory()
    inventory.insert_rows(ListingReader(inventory).read(listings.full).new, None)
    machines = sorted(generate_fleet(TINY, SeededRng(1)), key=lambda machine: machine.id)
    assert list(inventory.snapshot().machines()) == machines


def test_half_of_a_delta_is_news(listings: Listings) -> None:
    inventory = Inventory()
    reader = ListingReader(inventory)
    inventory.insert_rows(reader.read(listings.full).new, 0.0)
    delta = reader.read(listings.delta, full=False)
    assert len(delta.changed) == listings.news == -(-delta.size // 2) > 0
    moved = {MachineState.CREATING, MachineState.DELETING, MachineState.DRAINING}
    assert {machine.state for machine, _ in delta.changed} <= moved


def test_every_repetition_reads_the_same_news_again(listings: Listings) -> None:
    meter = BenchMeter(2, unit=lambda: None)
    names = []
    for name, case in ingest_cases(listings):
        assert len(meter.measure(case).cpu_ms) == 2
        names.append(name)
    assert names == ["ingest_unchanged", "ingest_first", "ingest_delta"]


def test_a_reading_that_finds_more_or_less_than_there_is_gets_refused(listings: Listings) -> None:
    listings.news += 1
    meter = BenchMeter(1, unit=lambda: None)
    cases = dict(ingest_cases(listings))
    with pytest.raises(WrongReadingError, match=r"ingest_delta: read \d+ machines .* and there are \d+"):
        meter.measure(cases["ingest_delta"])
