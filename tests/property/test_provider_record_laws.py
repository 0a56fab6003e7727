"""Records as bytes: what the kit puts together by hand is what the library would write, and comes back equal."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.provider.contract import STATES
from bigfleet.provider.kit.core.changes import DropMachine, FenceMark, PutMachine, StateChange
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.encoding import (
    RecordCodec,
    ack,
    decode_shape,
    encode_shape,
    id_of,
    listing,
    listing_bytes,
)
from bigfleet.provider.kit.entries import EntryDecoder, SnapshotHeader, encode, encode_snapshot
from bigfleet.v1alpha1 import provider_pb2 as pb

TEXTS = st.text(max_size=20).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
NAMES = TEXTS.filter(bool)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3).map(FrozenMap)
SHAPES = st.builds(
    Shape,
    instance_type=TEXTS,
    zone=TEXTS,
    capacity_type=st.sampled_from(CapacityType),
    price_per_hour=st.floats(0, 1e6),
    interruption_probability=st.floats(0, 1),
    resources=MAPS,
    allocatable=MAPS,
    labels=MAPS,
)
MACHINES = st.builds(
    MachineRecord,
    id=NAMES,
    state=st.sampled_from(STATES),
    shape=SHAPES,
    host=TEXTS,
    cluster=TEXTS,
    shard_metadata=MAPS,
    last_error=TEXTS,
)
INT64 = st.integers(0, 2**63 - 1)
CODEC = RecordCodec("acme")
QUICKLY = settings(max_examples=30, deadline=None)


def message(machine: MachineRecord) -> pb.Machine:
    record = pb.Machine(
        id=machine.id,
        state=pb.MachineState.ValueType(int(machine.state)),
        last_error=machine.last_error,
        cluster=machine.cluster,
        shard_metadata=machine.shard_metadata,
    )
    if machine.host:
        record.host.provider, record.host.ref = "acme", machine.host
    return record


@QUICKLY
@given(MACHINES)
def test_an_own_part_put_together_by_hand_is_what_the_library_would_have_written(
    machine: MachineRecord,
) -> None:
    own = CODEC.own(machine)
    assert pb.Machine.FromString(own) == message(machine)
    assert len(own) == message(machine).ByteSize()  # nothing written twice, nothing left over
    assert id_of(own) == machine.id
    assert CODEC.machine(own, machine.shape) == machine


@QUICKLY
@given(SHAPES)
def test_a_shape_comes_back_equal(shape: Shape) -> None:
    assert decode_shape(encode_shape(shape)) == shape


@QUICKLY
@given(st.lists(MACHINES, max_size=5), st.binary(max_size=20))
def test_a_listing_and_an_ack_are_plain_messages(machines: list[MachineRecord], revision: bytes) -> None:
    pieces: list[bytes] = []
    for machine in machines:
        own, shape = CODEC.own(machine), encode_shape(machine.shape)
        listed = CODEC.listed(own, len(shape))
        assert CODEC.unlisted(listed) == own
        pieces += (listed, shape)
    size = listing_bytes(pieces, revision)
    data = listing(pieces, revision)
    assert size == len(data)
    read = pb.MachineList.FromString(data)
    assert [record.id for record in read.machines] == [machine.id for machine in machines]
    assert read.revision == revision
    for machine, record in zip(machines, read.machines, strict=True):
        whole = pb.TransitionAck.FromString(ack("op-1", CODEC.own(machine), encode_shape(machine.shape)))
        assert (whole.operation_id, whole.machine) == ("op-1", record)
        assert dict(record.shard_metadata) == dict(machine.shard_metadata)


PUTS = st.builds(
    lambda machine, offer, numbers, revision, gone: PutMachine(
        machine.id,
        machine.state,
        CODEC.own(machine),
        machine.shape,
        offer or machine.shape,
        numbers,
        revision,
        gone,
    ),
    MACHINES,
    st.none() | SHAPES,
    st.tuples(INT64, INT64, INT64, INT64),
    INT64,
    INT64,
)
CHANGES: st.SearchStrategy[list[StateChange]] = st.lists(
    st.one_of(PUTS, st.builds(FenceMark, TEXTS, TEXTS, INT64, INT64), st.builds(DropMachine, TEXTS)),
    max_size=6,
)


@QUICKLY
@given(CHANGES)
def test_changes_survive_the_journal(changes: list[StateChange]) -> None:
    assert list(EntryDecoder().decode(encode(changes))) == changes


@QUICKLY
@given(CHANGES, CHANGES)
def test_changes_survive_a_snapshot_followed_by_a_journal(
    first: list[StateChange], then: list[StateChange]
) -> None:
    decoder = EntryDecoder()
    entries = [*encode_snapshot(SnapshotHeader("store", 7), first), encode(then)]
    read = [change for entry in entries for change in decoder.decode(entry)]
    assert read == [SnapshotHeader("store", 7), *first, *then]


def test_a_state_of_every_kind_is_one_byte() -> None:
    assert max(MachineState) < 128
