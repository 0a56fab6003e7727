"""The values that author code takes and returns: a machine record, a described machine, a created host.

Must never: know how a value is stored or sent.
Rules: `providers#states`, `providers#record-fields`, `providers#backend`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import CapacityType, MachineState, Shape


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """One machine of the provider; `host` is the reference of its host, empty while it has none."""

    id: str
    state: MachineState
    shape: Shape
    host: str = ""
    cluster: str = ""
    shard_metadata: Mapping[str, str] = NO_TEXTS
    last_error: str = ""

    @property
    def instance_type(self) -> str:
        return self.shape.instance_type

    @property
    def zone(self) -> str:
        return self.shape.zone

    @property
    def capacity_type(self) -> CapacityType:
        return self.shape.capacity_type

    @property
    def labels(self) -> Mapping[str, str]:
        return self.shape.labels


@dataclass(frozen=True, slots=True)
class CreatedHost:
    """The host that `create` obtained. Sizes given here replace the described ones for as long as the machine has the host."""

    ref: str
    resources: Mapping[str, str] | None = None
    allocatable: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class DescribedMachine:
    """One machine that `describe` yields: it exists or could be obtained.

    Without a host it is a slot of the quota and begins Speculative; with one it belongs to the free pool and begins Idle.
    `state` is set only by seeds, for example a Configured machine with its cluster.
    """

    id: str
    shape: Shape
    host: str = ""
    state: MachineState | None = None
    cluster: str = ""
    shard_metadata: Mapping[str, str] = NO_TEXTS
    last_error: str = ""

    @classmethod
    def of(
        cls,
        machine_id: str,
        *,
        instance_type: str,
        zone: str,
        capacity_type: CapacityType,
        price_per_hour: float = 0.0,
        interruption_probability: float = 0.0,
        resources: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        host: str = "",
    ) -> Self:
        """Build one from plain values; backends with many equal machines share a `Shape` instead."""
        shape = Shape(
            instance_type=instance_type,
            zone=zone,
            capacity_type=capacity_type,
            price_per_hour=price_per_hour,
            interruption_probability=interruption_probability,
            resources=_texts(resources),
            allocatable=_texts(allocatable),
            labels=_texts(labels),
        )
        return cls(machine_id, shape, host)

    @property
    def first_state(self) -> MachineState:
        if self.state is not None:
            return self.state
        return MachineState.IDLE if self.host else MachineState.SPECULATIVE


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A wall-clock time: whole seconds since 1970, and the same as RFC 3339 in UTC."""

    seconds: int
    text: str


def with_host(offer: Shape, host: CreatedHost) -> Shape:
    """Return the shape of a machine on this host: sizes that the host reports replace those of the offer."""
    return replace(
        offer,
        resources=offer.resources if host.resources is None else _texts(host.resources),
        allocatable=offer.allocatable if host.allocatable is None else _texts(host.allocatable),
    )


def shown_after(shown: Shape, before: Shape, offer: Shape) -> Shape:
    """Return the shown shape after a change of the offer: the offer, but with the sizes that the host reported."""
    return replace(
        offer,
        resources=offer.resources if shown.resources == before.resources else shown.resources,
        allocatable=offer.allocatable if shown.allocatable == before.allocatable else shown.allocatable,
    )


def refreshed_offer(before: Shape, described: Shape) -> Shape:
    """Return the offer after a refresh; type, zone and capacity type of a machine never change."""
    return replace(
        described,
        instance_type=before.instance_type,
        zone=before.zone,
        capacity_type=before.capacity_type,
    )


def _texts(given: Mapping[str, str] | None) -> FrozenMap[str]:
    return FrozenMap(given) if given else NO_TEXTS
