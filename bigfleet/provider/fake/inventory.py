"""Machines of a fake from a file of pools.

Must never: hold a record per machine; shapes are shared, machines are generated one at a time.
Rules: `providers#fake-flags`: an unknown key is refused with its path.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import yaml

from bigfleet.document.errors import WHOLE, DocumentError, from_model, quoted, step
from bigfleet.document.fields import REQUIRED, Fields, Form, checked_texts
from bigfleet.document.strict_yaml import load_strict_yaml, problem_of
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.workload.archetype import RACK_KEY

T = TypeVar("T")

MOST_MACHINES: Final = 5_000_000
SEEDED_FAILED: Final = "seeded as Failed"

FILE: Form = {"pools": REQUIRED}
POOL: Form = {
    "name": REQUIRED,
    "count": 1,
    "state": "Speculative",
    "instance_type": REQUIRED,
    "zones": REQUIRED,
    "racks": [],
    "capacity_type": "OnDemand",
    "price_per_hour": 0,
    "interruption_probability": 0,
    "resources": {},
    "allocatable": {},
    "labels": {},
    "cluster": "",
    "shard_metadata": {},
}

_STATES: Final = {
    state.label: state
    for state in (
        MachineState.SPECULATIVE,
        MachineState.IDLE,
        MachineState.CONFIGURED,
        MachineState.FAILED,
    )
}
_CAPACITY_TYPES: Final = {kind.label: kind for kind in CapacityType if kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Machines that differ only in id, zone and rack; ids are name-0, name-1 and so on."""

    name: str
    instance_type: str
    zones: tuple[str, ...]
    count: int = 1
    state: MachineState = MachineState.SPECULATIVE
    racks: tuple[str, ...] = ()
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    price_per_hour: float = 0.0
    interruption_probability: float = 0.0
    resources: Mapping[str, str] = NO_TEXTS
    allocatable: Mapping[str, str] = NO_TEXTS
    labels: Mapping[str, str] = NO_TEXTS
    cluster: str = ""
    shard_metadata: Mapping[str, str] = NO_TEXTS

    def slots(self) -> Iterator[DescribedMachine]:
        """Yield the machines, one at a time."""
        shapes: dict[tuple[str, str], Shape] = {}
        has_host = self.state is not MachineState.SPECULATIVE
        metadata = FrozenMap(self.shard_metadata) if self.shard_metadata else NO_TEXTS
        for number in range(self.count):
            zone = self.zones[number % len(self.zones)]
            rack = self.racks[number % len(self.racks)] if self.racks else ""
            shape = shapes.get((zone, rack))
            if shape is None:
                shape = shapes[zone, rack] = self._shape(zone, rack)
            machine_id = f"{self.name}-{number}"
            yield DescribedMachine(
                machine_id,
                shape,
                host=host_of(machine_id) if has_host else "",
                state=self.state,
                cluster=self.cluster,
                shard_metadata=metadata,
                last_error=SEEDED_FAILED if self.state is MachineState.FAILED else "",
            )

    def _shape(self, zone: str, rack: str) -> Shape:
        return Shape(
            instance_type=self.instance_type,
            zone=zone,
            capacity_type=self.capacity_type,
            price_per_hour=self.price_per_hour,
            interruption_probability=self.interruption_probability,
            resources=FrozenMap(self.resources),
            allocatable=FrozenMap(self.allocatable),
            labels=FrozenMap({**self.labels, **({RACK_KEY: rack} if rack else {})}),
        )


def host_of(machine_id: str) -> str:
    """Return the host reference of a seeded machine."""
    return f"host-{machine_id}"


def slots_of(pools: Iterable[Pool]) -> Iterator[DescribedMachine]:
    """Yield the machines of all pools, in the order of the file."""
    for pool in pools:
        yield from pool.slots()


def read_inventory(data: bytes) -> tuple[Pool, ...]:
    """Read the file of `--inventory`; `DocumentError` names the path of what is invalid."""
    pools = read_items(read_form(parse_yaml(data), FILE), "pools", POOL, pool_of)
    names: set[str] = set()
    for place, pool in enumerate(pools):
        if pool.name in names:
            raise DocumentError(
                f"pools[{place}].name", f"{quoted(pool.name)} a second time", "each name once"
            )
        names.add(pool.name)
    total = sum(pool.count for pool in pools)
    if total > MOST_MACHINES:
        raise DocumentError("pools", f"{total} machines", f"at most {MOST_MACHINES} machines")
    return pools


def read_form(raw: object, form: Form) -> Fields:
    """Read an object and refuse unknown keys; unlike in snapshots, also those that begin with `x-`."""
    if isinstance(raw, dict):
        for name in raw:
            if name not in form:
                allowed = f"one of {', '.join(form)}" if form else "no field at all"
                raise DocumentError(step(str(name)), "an unknown field", allowed)
    return Fields(raw, form)


def read_items(fields: Fields, name: str, form: Form, read: Callable[[Fields], T]) -> tuple[T, ...]:
    """Read a list of such objects; errors name the position in the list."""
    items = []
    for place, raw in enumerate(fields.entries(name)):
        try:
            items.append(read(read_form(raw, form)))
        except InvalidFieldError as error:
            raise from_model(error).under(f"{name}[{place}]") from None
    return tuple(items)


def parse_yaml(data: bytes) -> object:
    """Read one YAML document in which no key is given twice."""
    try:
        return load_strict_yaml(data)
    except yaml.YAMLError as error:
        raise DocumentError(WHOLE, f"broken YAML ({problem_of(error)})", "YAML") from None


def pool_of(fields: Fields) -> Pool:
    zones = fields.texts("zones")
    if not zones:
        raise DocumentError("zones", "an empty list", "one zone or more")
    state = fields.choice("state", _STATES)
    cluster = fields.text("cluster")
    metadata = _texts(fields, "shard_metadata")
    if bool(cluster) != (state is MachineState.CONFIGURED):
        raise DocumentError("cluster", quoted(cluster), "the id of a cluster for Configured, else none")
    if metadata and state is not MachineState.CONFIGURED:
        raise DocumentError("shard_metadata", "a map", "none unless Configured")
    return Pool(
        name=fields.name("name"),
        count=fields.integer("count", (0, MOST_MACHINES)),
        state=state,
        instance_type=fields.name("instance_type"),
        zones=zones,
        racks=fields.texts("racks"),
        capacity_type=fields.choice("capacity_type", _CAPACITY_TYPES),
        price_per_hour=fields.number("price_per_hour", low=0, allowed="a finite number that is not negative"),
        interruption_probability=fields.number(
            "interruption_probability", low=0, allowed="a number from 0 to 1"
        ),
        resources=_texts(fields, "resources"),
        allocatable=_texts(fields, "allocatable"),
        labels=_texts(fields, "labels"),
        cluster=cluster,
        shard_metadata=metadata,
    )


def _texts(fields: Fields, name: str) -> FrozenMap[str]:
    # YAML reads `cpu: 4` as a number; the text is meant.
    raw = {key: str(value) if type(value) is int else value for key, value in fields.mapping(name).items()}
    return FrozenMap(checked_texts(raw, name))
