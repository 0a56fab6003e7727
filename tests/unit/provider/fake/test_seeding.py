"""Fleets from a workload catalogue (`testing#seeded-machines`, `testing#machine-allocation`, `testing#sizing-oracle`)."""

from collections import Counter
from itertools import islice

import pytest

from bigfleet.document.errors import DocumentError
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fake.catalogue_file import read_catalogue
from bigfleet.provider.fake.seeding import CatalogueSeed
from bigfleet.provider.kit.core.validation import RecordValidator
from bigfleet.wire.metadata import OWNER_SHARD, PRIORITY, assignment_from_metadata
from bigfleet.workload.catalogues import REALISTIC


def test_the_published_counts_hold_tier_by_tier() -> None:
    seed = CatalogueSeed(idle=1000, speculative=1000, spot=250, configured_per_cluster=250, clusters=2)
    slots = list(seed.slots())
    assert Counter(slot.id.split("-")[0] for slot in slots) == {
        "idle": 1006,
        "spec": 1006,
        "spot": 326,
        "conf": 2 * 326,
    }
    validator = RecordValidator()
    assert [fault for slot in slots for fault in validator.faults(slot)] == []
    assert len({slot.id for slot in slots}) == len(slots)


def test_tiers_have_their_state_type_and_price() -> None:
    seed = CatalogueSeed(idle=300, speculative=300, spot=300, configured_per_cluster=300, clusters=1)
    found = {}
    for slot in seed.slots():
        shape = slot.shape
        found[slot.id.split("-")[0]] = (
            slot.first_state,
            shape.capacity_type,
            shape.price_per_hour,
            shape.interruption_probability,
        )
    assert found == {
        "idle": (S.IDLE, CapacityType.BARE_METAL, 0.0, 0.0),
        "spec": (S.SPECULATIVE, CapacityType.ON_DEMAND, 1.0, 0.05),
        "spot": (S.SPECULATIVE, CapacityType.SPOT, 0.3, 0.30),
        "conf": (S.CONFIGURED, CapacityType.BARE_METAL, 0.0, 0.0),
    }


def test_configured_machines_belong_to_the_clusters_of_their_ordinal_and_carry_stamps() -> None:
    seed = CatalogueSeed(configured_per_cluster=100, clusters=5, shards=2, ordinal=1, owner_shard="shard-1")
    slots = list(seed.slots())
    assert {slot.cluster for slot in slots} == {"cluster-00001", "cluster-00003"}
    for slot in slots:
        assigned, unreadable = assignment_from_metadata(slot.shard_metadata)
        assert not unreadable
        assert assigned.priority > 0
        assert slot.shard_metadata[OWNER_SHARD] == "shard-1"


def test_without_an_owner_the_mark_is_left_out() -> None:
    slot = next(CatalogueSeed(configured_per_cluster=10, clusters=1).slots())
    assert OWNER_SHARD not in slot.shard_metadata
    assert PRIORITY in slot.shard_metadata


def test_one_seed_is_one_fleet_and_another_seed_another() -> None:
    def metadata(seed: int) -> list[dict[str, str]]:
        made = CatalogueSeed(configured_per_cluster=300, clusters=2, seed=seed).slots()
        return [dict(slot.shard_metadata) for slot in made]

    assert metadata(1) == metadata(1)
    assert metadata(1) != metadata(2)


def test_a_million_machines_are_made_without_holding_them() -> None:
    slots = CatalogueSeed(speculative=1_000_000).slots()
    assert [slot.id for slot in islice(slots, 2)] == ["spec-0000000000", "spec-0000000001"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"idle": -1}, "idle"),
        ({"density": 0}, "density"),
        ({"ordinal": 1}, "ordinal"),
        ({"shards": 0}, "shards"),
        ({"configured_per_cluster": 1}, "clusters"),
    ],
)
def test_counts_that_cannot_be_are_refused(fields: dict[str, int], named: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        CatalogueSeed(**fields)  # type: ignore[arg-type]  # mypy reads the map as if it could hold a catalogue
    assert refused.value.field == named


CATALOGUE = b"""
name: two
zones: [a, b]
racks_per_zone: 2
archetypes:
  - name: web
    weight: 3
    instance_types: [m1, m2]
    sizes: [{amounts: {cpu: 500m, memory: 1Gi}, share: 60}, {amounts: {cpu: 1, memory: 2Gi}, share: 40}]
    priority: 100
    interruption_penalty: 8
    spread: {probability: 0.5, max_skew: 2}
  - name: train
    weight: 1
    instance_types: [g8]
    sizes: [{amounts: {cpu: 64, nvidia.com/gpu: 8}}]
    gang: {fewest: 2, most: 4}
    pods_per_node: 1
"""


def test_a_catalogue_of_ones_own_seeds_its_own_types() -> None:
    catalogue = read_catalogue(CATALOGUE)
    assert [archetype.name for archetype in catalogue.archetypes] == ["web", "train"]
    slots = list(CatalogueSeed(catalogue=catalogue, idle=50).slots())
    assert {slot.shape.instance_type for slot in slots} == {"m1", "m2", "g8"}
    assert {slot.shape.zone for slot in slots} == {"a", "b"}


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ("weight: 3", "wait: 3", "archetypes[0].wait"),
        ("share: 60", "share: 50", "archetypes[0].sizes"),
        ("fewest: 2", "fewest: 5", "archetypes[1].most"),
        ("name: two", "title: two", "title"),
        ("cpu: 500m", "cpu: lots", "archetypes[0].sizes[0]"),
    ],
)
def test_a_bad_catalogue_is_refused_with_the_path(before: str, after: str, path: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_catalogue(CATALOGUE.decode().replace(before, after, 1).encode())
    assert refused.value.field.startswith(path)


def test_the_built_in_catalogue_is_the_default() -> None:
    assert CatalogueSeed().catalogue is REALISTIC
