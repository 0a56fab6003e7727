"""Listings of a shared provider: only what a shard claims is read, whatever was listed before
(`coordinator#partition-mode`, `coordinator#ownership-file`)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import CLUSTER_REQUIRED, Machine
from bigfleet.model.ownership import Claim, Ownership
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.listing import ListingReader, MachineListing
from bigfleet.wire.machines import machine_to_proto
from bigfleet.wire.metadata import OWNER_SHARD
from tests.support.records import machines

IDS = st.sampled_from([f"m-{number}" for number in range(8)])
RACKS = st.sets(st.sampled_from(["", "a", "b", "c"]), max_size=3)


class Claims:
    """Claims of shard-0, whose ownership a test replaces."""

    def __init__(self, ownership: Ownership) -> None:
        self.ownership, self.revision = ownership, 0

    @property
    def key(self) -> str:
        return self.ownership.key

    def become(self, ownership: Ownership) -> None:
        self.ownership, self.revision = ownership, self.revision + 1

    def claim(self, machine_id: str, value: str | None, *, bound: bool) -> Claim:
        return self.ownership.claim(machine_id, value, bound=bound)

    def bound_here(self, owner_shard: str, cluster: str) -> bool:
        return owner_shard == "shard-0"


def encoded(found: list[Machine], owner: str) -> bytes:
    message = pb.MachineList()
    for machine in found:
        record = message.machines.add()
        record.CopyFrom(machine_to_proto(machine))
        if machine.state in CLUSTER_REQUIRED:
            record.shard_metadata[OWNER_SHARD] = owner
    return message.SerializeToString()


def wanted(claims: Claims, machine: Machine, owner: str) -> bool:
    bound = machine.state in CLUSTER_REQUIRED
    claim = claims.claim(machine.id, machine.shape.label(claims.key), bound=bound)
    return claim is Claim.OWN or (claim is Claim.IF_MARKED and owner == "shard-0")


def read(reader: ListingReader, inventory: Inventory, data: bytes) -> MachineListing:
    listing = reader.read(data)
    inventory.insert_rows(listing.new, 0.0)
    return listing


@pytest.mark.rule("coordinator#partition-mode")
@given(
    st.lists(
        st.tuples(
            st.lists(machines(IDS), max_size=8, unique_by=lambda machine: machine.id),
            RACKS,
            RACKS,
            st.dictionaries(IDS, st.integers(0, 9), max_size=2),
            st.booleans(),
            st.sampled_from(["shard-0", "shard-1", ""]),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_only_claimed_machines_are_new_in_any_sequence_of_listings(
    rounds: list[tuple[list[Machine], set[str], set[str], dict[str, int], bool, str]],
) -> None:
    inventory, claims = Inventory(), Claims(Ownership("rack"))
    reader = ListingReader(inventory, claims)
    for found, domains, leaving, adopted, settled, owner in rounds:
        claims.become(Ownership("rack", domains, leaving - domains, adopted, {}, settled))
        data = encoded(found, owner)
        for _ in range(2):  # the second time from memory
            known = {machine.id for machine in inventory.snapshot().machines()}
            listing = read(reader, inventory, data)
            new = {machine.id for machine in inventory.snapshot().machines()} - known
            own = {machine.id for machine in found if wanted(claims, machine, owner)}
            assert new == own - known
            assert listing.foreign == len({machine.id for machine in found} - known - own)


@pytest.mark.rule("coordinator#partition-mode")
def test_records_of_other_shards_are_not_taken_apart_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.builders import machine, shape

    found = [machine(f"m-{place}", shape=shape(labels={"rack": f"r{place % 4}"})) for place in range(100)]
    inventory, claims = Inventory(), Claims(Ownership("rack", {"r0"}, settled=True))
    reader, data = ListingReader(inventory, claims), encoded(found, "")
    assert read(reader, inventory, data).foreign == 75
    assert len(inventory) == 25
    scanned: list[bytes] = []
    monkeypatch.setattr("bigfleet.wire.listing.scan", lambda record, _marks: scanned.append(record))
    again = read(reader, inventory, data)
    assert (again.foreign, again.without_domain, scanned) == (75, 0, [])
    monkeypatch.undo()
    claims.become(Ownership("rack", {"r0", "r1"}, settled=True))
    assert read(reader, inventory, data).foreign == 50
    assert len(inventory) == 50


@pytest.mark.rule("coordinator#partition-mode")
def test_a_label_with_a_value_per_machine_divides_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.builders import machine, shape

    monkeypatch.setattr("bigfleet.model.inventory.wide_labels.MANY_VALUES", 3)
    found = [machine(f"m-{place}", shape=shape(labels={"rack": f"r{place}"})) for place in range(40)]
    inventory, claims = Inventory(), Claims(Ownership("rack", {"r7", "r9"}, settled=True))
    reader = ListingReader(inventory, claims)
    listing = read(reader, inventory, encoded(found, ""))
    assert {machine.id for machine in inventory.snapshot().machines()} == {"m-7", "m-9"}
    assert listing.foreign == 38
