"""Reading listings the fast way gives what decoding every record in full would give."""

import random
from dataclasses import replace
from unittest.mock import patch

from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import CLUSTER_REQUIRED, HostRef, Machine, MachineState
from bigfleet.provider.kit.core import values as kit
from bigfleet.provider.kit.encoding import RecordCodec
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.listing import ListingReader, MachineListing
from bigfleet.wire.machines import machine_from_proto, machine_to_proto
from bigfleet.wire.metadata import PRIORITY, assignment_to_metadata
from bigfleet.wire.record_scan import fields_of, leading_id, scan
from tests.support.messages import messages
from tests.support.records import machines

IDS = st.sampled_from([f"m-{number}" for number in range(8)])


REPEATS = [
    pb.Machine(zone="zz"),
    pb.Machine(id="m-0"),
    pb.Machine(cluster="x"),
    pb.Machine(labels={"rack": "again"}),
    pb.Machine(resources=pb.Resources(resources={"cpu": "77"})),
    pb.Machine(shard_metadata={PRIORITY: "77"}),
]


def shuffled(record: bytes, rng: random.Random) -> bytes:
    """The same record as another encoder might write it: id and state first, all else in any order."""
    head_size = 2 + record[1] + 2
    fields = fields_of(record[head_size:])
    if record[head_size - 2] != 0x10 or fields is None:
        return record
    for at, field in enumerate(fields):
        if field[0] in (0x4A, 0x6A) and field[1] < 0x80:
            entries = fields_of(field[2:]) or []
            rng.shuffle(entries)
            fields[at] = field[:2] + b"".join(entries)
    rng.shuffle(fields)
    # In ascending order of numbers, as most encoders write them, or in none at all.
    if rng.random() < 0.7:
        fields.sort(key=_field_number)
    return record[:head_size] + b"".join(fields)


def _field_number(field: bytes) -> int:
    return field[0] >> 3


def as_the_kit_writes(machine: Machine, metadata: dict[str, str]) -> bytes:
    """What is the machine's own, then what many share."""
    codec = RecordCodec(machine.host.provider)
    own = kit.MachineRecord(
        machine.id,
        machine.state,
        machine.shape,
        machine.host.ref,
        machine.cluster,
        metadata,
        machine.last_error,
    )
    return codec.own(own) + codec.shape(machine.shape)


@st.composite
def encoded_records(draw: st.DrawFn) -> bytes:
    """A record as encoders write it, or with its fields in any order, or spoilt."""
    machine = draw(machines(IDS))
    message = machine_to_proto(machine)
    if machine.cluster:
        message.shard_metadata.update(assignment_to_metadata(machine.assigned, "s"))
    kinds = ["plain", "plain", "kit", "kit", "shuffled", "twice", "reversed", "cut", "cut kit", "wild"]
    kind = draw(st.sampled_from(kinds))
    data = message.SerializeToString(deterministic=True)
    if kind == "shuffled":
        return shuffled(data, draw(st.randoms(use_true_random=False)))
    if kind == "twice":
        return data + draw(st.sampled_from(REPEATS)).SerializeToString()
    if kind == "reversed":
        parts = [pb.Machine(id=message.id), pb.Machine(state=message.state)]
        message.ClearField("id")
        message.ClearField("state")
        return message.SerializeToString() + b"".join(part.SerializeToString() for part in parts)
    if kind in ("kit", "cut kit"):
        data = as_the_kit_writes(machine, dict(message.shard_metadata))
        return data if kind == "kit" else data[: draw(st.integers(0, len(data)))]
    if kind == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if kind == "wild":
        return draw(messages(pb.Machine)).SerializeToString()
    return data


def listing_of(records: list[bytes]) -> bytes:
    return b"".join(b"\x0a" + _varint(len(record)) + record for record in records)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def apply(listing: MachineListing, inventory: Inventory, now: float) -> None:
    inventory.insert_rows(listing.new, now)
    inventory.adopt_many(listing.changed, now)


def expected_after(twin: dict[str, Machine], records: list[bytes]) -> tuple[dict[str, Machine], set[int]]:
    """The naive reading: decode everything; the first valid record of a machine counts, and it has one id."""
    after, rejected, valid = dict(twin), set(), set()
    for place, record in enumerate(records):
        try:
            message = pb.Machine.FromString(record)
            machine = machine_from_proto(message)
        except (InvalidFieldError, DecodeError):
            rejected.add(place)
            continue
        if machine.id in valid or machine.id != (leading_id(record) or machine.id):
            rejected.add(place)
            continue
        valid.add(machine.id)
        after[machine.id] = machine
    return after, rejected


def without_stamps(machine: Machine) -> tuple[object, ...]:
    return (
        machine.id,
        machine.state,
        machine.shape,
        machine.host,
        machine.cluster,
        machine.assigned,
        machine.last_error,
    )


@given(
    st.lists(machines(IDS), min_size=1, max_size=8, unique_by=lambda machine: machine.id),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
def test_maps_in_another_order_are_no_change(given_machines: list[Machine], rng: random.Random) -> None:
    with patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 2):
        records = []
        for machine in given_machines:
            message = machine_to_proto(machine)
            if machine.cluster:
                message.shard_metadata.update(assignment_to_metadata(machine.assigned, "s"))
            records.append(message.SerializeToString())
        inventory = Inventory()
        reader = ListingReader(inventory)
        apply(reader.read(listing_of(records)), inventory, 0.0)
        again = reader.read(listing_of([shuffled(record, rng) for record in records]))
        assert (len(again.new), again.rejected) == (0, [])
        # What is decoded in full is reported although nothing changed; what is taken apart is not.
        for machine, _ in again.changed:
            assert without_stamps(inventory.get(machine.id)) == without_stamps(machine)


LISTINGS = st.lists(st.lists(encoded_records(), max_size=10), min_size=1, max_size=4)


@given(LISTINGS)
@example([[b"\x0a\x01m\x10\x01\x52\x08\x0a\x04host\x12\x00"]])
@example([[b"\x0a\x01m\x10\x01\x22\x01a\x2a\x01b", b"\x0a\x01m\x10\x01\x2a\x01b\x22\x01a"]])
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_fast_way_and_the_full_way_agree(listings: list[list[bytes]]) -> None:
    with patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 2):
        inventory = Inventory()
        reader = ListingReader(inventory)
        twin: dict[str, Machine] = {}
        for now, records in enumerate(listings):
            data = listing_of(records)
            listing = reader.read(data)
            twin, rejected = expected_after(twin, records)
            assert {record.place for record in listing.rejected} == rejected
            apply(listing, inventory, float(now))
            assert len(inventory) == len(twin)
            for machine_id, machine in twin.items():
                assert without_stamps(inventory.get(machine_id)) == without_stamps(machine)
            again = reader.read(data)
            assert (len(again.new), again.changed) == (0, [])
            assert {record.place for record in again.rejected} == rejected


@given(st.lists(encoded_records(), max_size=10))
@settings(max_examples=100, deadline=None)
def test_a_refusal_names_record_and_field_and_the_rest_is_taken(records: list[bytes]) -> None:
    inventory = Inventory()
    listing = ListingReader(inventory).read(listing_of(records))
    for refused in listing.rejected:
        assert refused.error.field.startswith(f"machines[{refused.place}].")
        assert refused.error.allowed
    assert len(listing.new) + len(listing.rejected) == len(records)
    assert all(1 <= state <= MachineState.FAILED for state in listing.new.states)


@given(
    machines(IDS).filter(lambda machine: machine.state not in (MachineState.FAILED, MachineState.UNSPECIFIED))
)
@settings(max_examples=100, deadline=None)
def test_records_of_the_kit_are_taken_apart_without_being_decoded(machine: Machine) -> None:
    bound = machine.state in CLUSTER_REQUIRED
    metadata = assignment_to_metadata(machine.assigned, "s") if bound else {}
    host = HostRef("p", machine.host.ref or "h")
    bare = replace(machine, last_error="", host=host, cluster="prod" if bound else "")
    parts = scan(as_the_kit_writes(bare, metadata))
    assert parts is not None
    state, _, ref, shape, cluster, found, _ = parts
    assert (state, ref.decode(), cluster.decode()) == (machine.state, host.ref, bare.cluster)
    assert shape == RecordCodec("p").shape(machine.shape)
    assert dict(pb.Machine.FromString(found).shard_metadata) == metadata
