"""Fleets into an inventory in bulk: parts of parallel lists, never a record per machine.

Why: a world of two million machines is made for a benchmark of seconds; inserting them one by one would take minutes.
Must never: load a part that `bigfleet.model.machine.check` would refuse; parts come from this room, whose tests check every machine.
Rules: `shard#shared-packages`, `engine#growth`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory import Inventory, InventorySnapshot, NewRows, Rows
from bigfleet.model.inventory.wide_labels import MANY_VALUES
from bigfleet.model.machine import UNASSIGNED, MachineState, Shape
from bigfleet.model.profile import HOST_NAME_KEY
from bigfleet.workload.draws import Draws
from bigfleet.workload.fleet import PROVIDER, FleetPart, host_ref

_PRICE_RANGE = 0.01
"""Dollars over which individual prices are spread: a cent, less than the gap between any two tiers."""


def load_fleet(parts: Iterable[FleetPart], *, host_names: bool = False) -> Inventory:
    """A new inventory with these machines; with `host_names` each carries a label that no other has."""
    inventory = Inventory()
    if host_names:
        # Declared wide before the first machine; else two thousand shapes would be made only to be dropped again.
        for number in range(MANY_VALUES + 1):
            inventory.wide.observe(FrozenMap({HOST_NAME_KEY: str(number)}))
    rows = NewRows(inventory.generation, inventory.population)
    provider = inventory.providers.intern(PROVIDER)
    for part in parts:
        size = len(part.ids)
        if host_names:
            places = range(len(rows), len(rows) + size)
            rows.add_wide(HOST_NAME_KEY, places, [f"{name}.internal".encode() for name in part.ids])
        cluster = inventory.clusters.intern(part.cluster)
        numbers = np.array(
            [
                _numbers(inventory, part.shapes),
                [inventory.assignments.intern(stamp) for stamp in part.stamps],
                [cluster] * size,
                [provider if part.tier.has_host else 0] * size,
            ],
            dtype=np.int32,
        )
        hosts = [host_ref(name).encode() for name in part.ids] if part.tier.has_host else [b""] * size
        rows.extend(part.ids, [part.tier.state] * size, numbers, hosts, [0] * size)
    inventory.insert_rows(rows, None)
    return inventory


def _numbers(inventory: Inventory, shapes: Sequence[Shape]) -> list[int]:
    """The shapes' numbers; looked up by identity, as hashing a shape takes as long as all else about a machine."""
    known: dict[int, int] = {}
    numbers = []
    for shape in shapes:
        number = known.get(id(shape))
        if number is None:
            number = known[id(shape)] = inventory.intern_shape(shape)
        numbers.append(number)
    return numbers


def priced_apart(parts: Iterable[FleetPart], draws: Draws) -> Iterator[FleetPart]:
    """The same machines, each at a price that no other has, in no order that ids would betray."""
    for part in parts:
        shapes = [
            replace(shape, price_per_hour=shape.price_per_hour + draws.random() * _PRICE_RANGE)
            for shape in part.shapes
        ]
        yield replace(part, shapes=shapes)


def unbound(parts: Iterable[FleetPart]) -> Iterator[FleetPart]:
    """The same machines before the first need: bound ones are Idle and carry no stamp."""
    for part in parts:
        if part.cluster:
            tier = replace(part.tier, state=MachineState.IDLE)
            yield replace(part, tier=tier, cluster="", stamps=[UNASSIGNED] * len(part.stamps))
        else:
            yield part


def copied(snapshot: InventorySnapshot, machines: Rows) -> Inventory:
    """A new inventory with some machines of this room's making; what only few have, such as errors, is left behind."""
    inventory = Inventory()
    columns = snapshot.columns
    tables = (
        [inventory.intern_shape(snapshot.shapes[at]) for at in range(len(snapshot.shapes))],
        [inventory.assignments.intern(snapshot.assignments[at]) for at in range(len(snapshot.assignments))],
        [inventory.clusters.intern(snapshot.clusters[at]) for at in range(len(snapshot.clusters))],
        [0, inventory.providers.intern(PROVIDER)],
    )
    names = ("shape", "assignment", "cluster", "provider")
    numbers = np.stack(
        [
            np.array(table, dtype=np.int32)[columns[name][machines]]
            for table, name in zip(tables, names, strict=True)
        ]
    )
    ids = [machine_id or "" for machine_id in snapshot.ids.many(machines)]
    hosts = [
        host_ref(machine_id).encode() if provider else b""
        for machine_id, provider in zip(ids, numbers[3].tolist(), strict=True)
    ]
    rows = NewRows(inventory.generation, inventory.population)
    rows.extend(ids, columns["state"][machines].tolist(), numbers, hosts, [0] * len(ids))
    inventory.insert_rows(rows, None)
    return inventory
