"""Bad input: every spoilt record gives a typed error that names its field, and nothing of it is applied."""

import math
import random
from collections.abc import Callable
from unittest.mock import patch

import pytest

from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import Machine, MachineState
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.listing import ListingReader
from bigfleet.wire.machines import machine_from_proto, machine_to_proto
from tests.support.builders import machine, shape

Spoil = Callable[[pb.Machine, random.Random], None]


def bad_price(record: pb.Machine, rng: random.Random) -> None:
    record.price_per_hour = rng.choice([-rng.random() - 1e-9, math.nan, math.inf, -math.inf])


def bad_probability(record: pb.Machine, rng: random.Random) -> None:
    record.interruption_probability = rng.choice([-rng.random() - 1e-9, 1 + rng.random(), math.nan, math.inf])


def bad_state(record: pb.Machine, rng: random.Random) -> None:
    record.state = rng.choice([0, 9, -1, rng.randrange(10, 2**31)])  # type: ignore[assignment]  # an open enum


def bad_quantity(record: pb.Machine, rng: random.Random) -> None:
    field = rng.choice([record.resources, record.allocatable])
    field.resources["cpu"] = rng.choice(["", "x", "1Q", "--1", "1e99", "-4", " 1", "1 Gi", "9" * 70, "1\x00"])


def no_id(record: pb.Machine, _: random.Random) -> None:
    record.id = ""


def long_id(record: pb.Machine, rng: random.Random) -> None:
    record.id = "m" * rng.randrange(1025, 5000)


def no_host(record: pb.Machine, rng: random.Random) -> None:
    record.state = rng.choice([pb.MACHINE_STATE_IDLE, pb.MACHINE_STATE_DRAINING, pb.MACHINE_STATE_DELETING])
    record.ClearField("host")


def host_too_soon(record: pb.Machine, rng: random.Random) -> None:
    record.state = rng.choice([pb.MACHINE_STATE_SPECULATIVE, pb.MACHINE_STATE_CREATING])
    record.ClearField("cluster")


def long_host(record: pb.Machine, rng: random.Random) -> None:
    record.host.ref = "h" * rng.randrange(65_535, 66_000)


def no_cluster(record: pb.Machine, rng: random.Random) -> None:
    record.state = rng.choice(
        [pb.MACHINE_STATE_CONFIGURING, pb.MACHINE_STATE_CONFIGURED, pb.MACHINE_STATE_DRAINING]
    )
    record.ClearField("cluster")


def cluster_too_soon(record: pb.Machine, rng: random.Random) -> None:
    record.state = rng.choice([pb.MACHINE_STATE_SPECULATIVE, pb.MACHINE_STATE_CREATING])
    record.ClearField("host")


def failed_without_error(record: pb.Machine, _: random.Random) -> None:
    record.state = pb.MACHINE_STATE_FAILED
    record.ClearField("last_error")


SPOILERS: list[tuple[Spoil, str]] = [
    (bad_price, "price_per_hour"),
    (bad_probability, "interruption_probability"),
    (bad_state, "state"),
    (bad_quantity, "cpu"),
    (no_id, "id"),
    (long_id, "id"),
    (no_host, "host"),
    (host_too_soon, "host"),
    (long_host, "host.ref"),
    (no_cluster, "cluster"),
    (cluster_too_soon, "cluster"),
    (failed_without_error, "last_error"),
]


def good() -> Machine:
    return machine(
        "m-1", MachineState.CONFIGURED, shape=shape(labels={"rack": "r1"}, allocatable={"cpu": "3900m"})
    )


@pytest.mark.parametrize("number", range(200))
def test_a_spoilt_record_is_refused_by_the_name_of_its_field_and_changes_nothing(number: int) -> None:
    rng = random.Random(number)
    spoil, field = SPOILERS[number % len(SPOILERS)]
    record = machine_to_proto(good())
    spoil(record, rng)
    with pytest.raises(InvalidFieldError) as refused:
        machine_from_proto(record)
    assert field in refused.value.field
    assert refused.value.allowed

    inventory = Inventory()
    inventory.insert(good(), 1.0)
    inventory.insert(machine("m-2"), 1.0)
    before = list(inventory.snapshot().machines())
    listing = ListingReader(inventory).read(pb.MachineList(machines=[record]).SerializeToString())
    assert (len(listing.new), listing.changed) == (0, [])
    assert [entry.error.field for entry in listing.rejected] == [f"machines[0].{refused.value.field}"]
    with pytest.raises(BigFleetError):  # a spoilt id is an unknown one by then
        inventory.adopt(machine_unchecked(record), 2.0)
    assert list(inventory.snapshot().machines()) == before


def machine_unchecked(record: pb.Machine) -> Machine:
    """The record as the model would hold it if the boundary had not looked, for the inventory to refuse."""
    with patch("bigfleet.wire.machines.check"):
        return machine_from_proto(record)


def test_flipped_bytes_are_read_or_refused_and_never_crash_the_reader() -> None:
    rng = random.Random(7)
    whole = pb.MachineList(
        machines=[machine_to_proto(machine(f"m-{at}")) for at in range(5)]
    ).SerializeToString()
    outcomes = {"read": 0, "refused": 0, "listing refused": 0}
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        inventory = Inventory()
        try:
            listing = ListingReader(inventory).read(bytes(data))
        except InvalidFieldError:
            outcomes["listing refused"] += 1
            continue
        inventory.insert_rows(listing.new, 0.0)
        assert len(inventory) == len(listing.new)
        assert len(list(inventory.snapshot().machines())) == len(listing.new)
        outcomes["refused" if listing.rejected else "read"] += 1
    assert min(outcomes.values()) > 50, outcomes
