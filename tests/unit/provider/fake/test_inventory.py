"""Pools from files, strictly (`providers#fake-flags`)."""

from textwrap import dedent

import pytest

from bigfleet.document.errors import DocumentError
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fake.inventory import read_inventory, slots_of
from bigfleet.provider.kit.core.validation import RecordValidator
from bigfleet.provider.kit.core.values import DescribedMachine

GOOD = """
pools:
  - name: metal
    count: 3
    state: Idle
    instance_type: gen11
    zones: [hall-1, hall-2]
    racks: [r1, r2, r3]
    capacity_type: BareMetal
    resources: {cpu: 96, memory: 384Gi}
    allocatable: {cpu: "94", memory: 370Gi}
    labels: {generation: "11"}
  - {name: spot, count: 2, instance_type: m6i.large, zones: [zone-a], capacity_type: Spot, price_per_hour: 0.03,
     interruption_probability: 0.1, resources: {cpu: 2}}
  - {name: bound, state: Configured, instance_type: m6i.large, zones: [zone-a], cluster: prod,
     shard_metadata: {k: v}}
  - {name: broken, state: Failed, instance_type: m6i.large, zones: [zone-a]}
"""


def slots(text: str) -> list[DescribedMachine]:
    return list(slots_of(read_inventory(dedent(text).encode())))


def test_pools_become_sound_machines_with_zones_and_racks_in_turn() -> None:
    made = slots(GOOD)
    assert [slot.id for slot in made] == [
        "metal-0",
        "metal-1",
        "metal-2",
        "spot-0",
        "spot-1",
        "bound-0",
        "broken-0",
    ]
    metal = made[:3]
    assert [slot.shape.zone for slot in metal] == ["hall-1", "hall-2", "hall-1"]
    assert [slot.shape.labels["topology.bigfleet/rack"] for slot in metal] == ["r1", "r2", "r3"]
    assert metal[0].shape.labels["generation"] == "11"
    assert (
        metal[0].shape.resources == {"cpu": "96", "memory": "384Gi"}
        or metal[0].shape.resources["cpu"] == "96"
    )
    assert metal[0].shape.capacity_type is CapacityType.BARE_METAL
    assert [slot.first_state for slot in made] == [S.IDLE] * 3 + [S.SPECULATIVE] * 2 + [
        S.CONFIGURED,
        S.FAILED,
    ]
    assert (made[5].cluster, dict(made[5].shard_metadata), bool(made[5].host)) == ("prod", {"k": "v"}, True)
    validator = RecordValidator()
    assert [fault for slot in made for fault in validator.faults(slot)] == []


def test_machines_of_a_pool_share_their_shapes() -> None:
    made = slots("pools: [{name: m, count: 100, instance_type: t, zones: [a, b]}]")
    assert len({id(slot.shape) for slot in made}) == 2


POOL = "pools: [{{name: m, instance_type: t, zones: [a]{}}}]"
BAD = [
    pytest.param("machines: []", "machines", "unknown field", id="unknown key at the top"),
    pytest.param(
        POOL.format(", colour: red"), "pools[0].colour", "unknown field", id="unknown key in a pool"
    ),
    pytest.param(
        POOL.format(", x-note: hi"), "pools[0].x-note", "unknown field", id="x- keys are no exception"
    ),
    pytest.param("pools: [{name: m, zones: [a]}]", "pools[0].instance_type", "not empty", id="required"),
    pytest.param(
        "pools: [{name: m, instance_type: t, zones: []}]", "pools[0].zones", "one zone", id="no zone"
    ),
    pytest.param(POOL.format(", count: -1"), "pools[0].count", "an integer", id="negative count"),
    pytest.param(POOL.format(", count: 1.5"), "pools[0].count", "an integer", id="half a machine"),
    pytest.param(POOL.format(", count: 9999999"), "pools[0].count", "an integer", id="too many"),
    pytest.param(POOL.format(", state: Draining"), "pools[0].state", "Speculative", id="transitional state"),
    pytest.param(POOL.format(", capacity_type: on-demand"), "pools[0].capacity_type", "OnDemand", id="type"),
    pytest.param(POOL.format(", price_per_hour: -1"), "pools[0].price_per_hour", "not negative", id="price"),
    pytest.param(POOL.format(", price_per_hour: .nan"), "pools[0].price_per_hour", "finite", id="NaN"),
    pytest.param(
        POOL.format(", resources: {cpu: 1.5}"), "pools[0].resources[cpu]", "text", id="float quantity"
    ),
    pytest.param(POOL.format(", cluster: prod"), "pools[0].cluster", "Configured", id="cluster unbound"),
    pytest.param(POOL.format(", state: Configured"), "pools[0].cluster", "a cluster", id="bound to nobody"),
    pytest.param(POOL.format(", shard_metadata: {a: b}"), "pools[0].shard_metadata", "none", id="metadata"),
    pytest.param(
        "pools: [{name: m, instance_type: t, zones: [a]}, {name: m, instance_type: t, zones: [a]}]",
        "pools[1].name",
        "once",
        id="name twice",
    ),
    pytest.param("pools: [1]", "pools[0]", "an object", id="no object"),
    pytest.param("pools: {}", "pools", "a list", id="no list"),
    pytest.param("[]", "", "an object", id="a list at the top"),
    pytest.param("", "", "an object", id="nothing"),
    pytest.param("pools: [", "document", "YAML", id="broken"),
    pytest.param("pools: []\npools: []", "document", "YAML", id="key twice"),
    pytest.param("!!python/object:os.system {}", "document", "YAML", id="no code"),
]


@pytest.mark.parametrize(("text", "path", "allowed"), BAD)
def test_a_bad_inventory_is_refused_with_the_path(text: str, path: str, allowed: str) -> None:
    with pytest.raises(DocumentError) as refused:
        slots(text)
    assert refused.value.field == path
    assert allowed in str(refused.value)
