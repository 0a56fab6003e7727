"""Listings are decoded in pieces, so that none holds the event loop for long."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import MachineState
from bigfleet.v1alpha1 import provider_pb2
from bigfleet.wire import listing
from bigfleet.wire.listing import ListingReader, pieces
from bigfleet.wire.machines import machine_to_proto
from tests.support.builders import machine


def encoded(count: int, revision: bytes = b"r7") -> bytes:
    machines = [machine_to_proto(machine(f"m-{number}", MachineState.IDLE)) for number in range(count)]
    return provider_pb2.MachineList(machines=machines, revision=revision).SerializeToString()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PIECE_BYTES", 500)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 50])
def test_pieces_are_the_listing_and_each_is_one_by_itself(count: int) -> None:
    data = encoded(count)
    cut = list(pieces(data))
    assert b"".join(cut) == data
    assert sum(len(provider_pb2.MachineList.FromString(piece).machines) for piece in cut) == count
    assert len(cut) >= count // 10


def test_a_listing_in_pieces_reads_as_a_whole_one() -> None:
    inventory = Inventory()
    found = ListingReader(inventory).read(encoded(50))
    assert (found.size, len(found.new), found.revision) == (50, 50, b"r7")


def test_fields_of_tomorrow_and_bytes_that_end_too_early_are_left_to_the_decoder() -> None:
    data = encoded(50)
    unknown = b"\x9a\x3e\x03abc"
    assert b"".join(pieces(unknown + data)) == unknown + data
    reader = ListingReader(Inventory())
    assert reader.read(unknown + data).size == 50
    for end in (len(data) - 1, len(data) // 2, 3):
        with pytest.raises(InvalidFieldError, match="an encoded MachineList"):
            reader.read(data[:end])
