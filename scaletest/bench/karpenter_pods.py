"""Pods and machine types in the shapes of Karpenter's own scheduling benchmark, made from a seed.

Why: it is the public measure of an autoscaler that packs. Five families of pods, a fifth of the pods each: no constraint; strict
spread over zones; strict spread over host names; affinity over host names; affinity over zones. A pod's label and what its constraint
selects are drawn independently, as there, so most pods select pods that are not like themselves. Machine types are whole
multiples of one core with 2 GiB and room for 10 pods, at a price that is linear in their size.
Must never: draw from anything but the seed.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import CapacityType, Machine, MachineState, Shape
from bigfleet.model.profile import HOST_NAME_KEY, ZONE_KEY

SEED: Final = 42
TYPES: Final = 400
ZONES: Final = ("zone-1", "zone-2", "zone-3")
SLOTS: Final = 10
"""Slots of one type in one zone: the quota that a cluster has of it."""
NAMESPACE: Final = "default"

CPU: Final = ("100m", "250m", "500m", "1", "1500m")
MEMORY: Final = ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
LETTERS: Final = "abcdefg"
SPREAD_LABEL: Final = "my-label"
AFFINITY_LABEL: Final = "my-affinity"

SIZE_GIB: Final = 2
SIZE_PODS: Final = 10
PRICE_PER_CORE: Final = 0.1
PRICE_PER_GB: Final = 0.1
PRICE_OF_SIZE: Final = PRICE_PER_CORE + PRICE_PER_GB * SIZE_GIB * 2**30 / 1e9
"""Dollars an hour of the smallest type."""

Document = dict[str, Any]


def diverse_pods(count: int, seed: int = SEED) -> list[Document]:
    """The pods, family after family; what is left of the division is without constraint."""
    draws = Random(seed)
    families = (_spread(ZONE_KEY), _spread(HOST_NAME_KEY), _affinity(HOST_NAME_KEY), _affinity(ZONE_KEY))
    share = count // (len(families) + 1)
    makers: list[Family] = [_generic] * (count - share * len(families))
    makers += [family for family in families for _ in range(share)]
    return [_pod(number, draws, make) for number, make in enumerate(makers)]


def machine_types(types: int = TYPES, slots: int = SLOTS) -> Inventory:
    """An inventory of nothing but slots: so many types in three zones."""
    inventory = Inventory()
    for machine in _slots(types, slots):
        inventory.insert(machine, None)
    return inventory


def price_bound(cores: float, memory_bytes: float, pods: float) -> float:
    """Dollars an hour below which no machines hold such a sum.

    Every type is the smallest one times a whole number, in each resource and in price. So parts of machines, which a bound may
    buy, cost the same per size whatever their type, and the resource that needs the most sizes decides.
    """
    return PRICE_OF_SIZE * max(cores, memory_bytes / (SIZE_GIB * 2**30), pods / SIZE_PODS)


def _slots(types: int, slots: int) -> Iterator[Machine]:
    for size in range(1, types + 1):
        for zone in ZONES:
            shape = Shape(
                instance_type=f"size-{size}",
                zone=zone,
                capacity_type=CapacityType.ON_DEMAND,
                price_per_hour=size * PRICE_OF_SIZE,
                resources=FrozenMap(
                    {"cpu": str(size), "memory": f"{size * SIZE_GIB}Gi", "pods": str(size * SIZE_PODS)}
                ),
            )
            for slot in range(slots):
                # Of equal price the engine takes the first id; a zone in its first place would take all work.
                yield Machine(f"{shape.instance_type}.{slot:03}.{zone}", MachineState.SPECULATIVE, shape)


Family = Callable[[Random], tuple[dict[str, str], Document]]


def _pod(number: int, draws: Random, family: Family) -> Document:
    labels, constraint = family(draws)
    requests = {"cpu": draws.choice(CPU), "memory": draws.choice(MEMORY)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number:05}",
            "namespace": NAMESPACE,
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **constraint},
        "status": {"phase": "Pending"},
    }


def _generic(draws: Random) -> tuple[dict[str, str], Document]:
    return {SPREAD_LABEL: draws.choice(LETTERS)}, {}


def _spread(key: str) -> Family:
    def family(draws: Random) -> tuple[dict[str, str], Document]:
        term = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {SPREAD_LABEL: draws.choice(LETTERS)}},
        }
        return {SPREAD_LABEL: draws.choice(LETTERS)}, {"topologySpreadConstraints": [term]}

    return family


def _affinity(key: str) -> Family:
    def family(draws: Random) -> tuple[dict[str, str], Document]:
        term = {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {AFFINITY_LABEL: draws.choice(LETTERS)}},
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return {AFFINITY_LABEL: draws.choice(LETTERS)}, {"affinity": {"podAffinity": required}}

    return family
