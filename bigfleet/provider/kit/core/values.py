"""The nouns of the kit: a machine as its author sees it, the slot it was described as, the host behind it.

Why: author code gets frozen values and returns frozen values; no message, no token and no row number ever reaches it.
Must never: know how a value is stored or sent.
Rules: providers 1.2, 1.9 and 4.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import CapacityType, MachineState, Shape


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """One record of the provider; `host` is the reference of the host, empty where there is none."""

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
    """What `create` obtained. Resources given here are those of this host, and win over the slot's while it lives."""

    ref: str
    resources: Mapping[str, str] | None = None
    allocatable: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class DescribedMachine:
    """One line of `describe`: what the substrate has or could have.

    Without a host it is a quota slot and starts Speculative; with one it belongs to the free pool and starts Idle. The
    state is given only where a seed stands for a machine with a past, such as a Configured one with its cluster.
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
        """Return a slot from plain values; backends with many machines of one kind share a `Shape` instead."""
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
        """The state in which a machine of this slot begins."""
        if self.state is not None:
            return self.state
        return MachineState.IDLE if self.host else MachineState.SPECULATIVE


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time of day: whole seconds since 1970, and the same as RFC 3339 in UTC."""

    seconds: int
    text: str


def with_host(offer: Shape, host: CreatedHost) -> Shape:
    """Return the shape of a machine on this host: what the host says of its size wins over the offer."""
    return replace(
        offer,
        resources=offer.resources if host.resources is None else _texts(host.resources),
        allocatable=offer.allocatable if host.allocatable is None else _texts(host.allocatable),
    )


def shown_after(shown: Shape, before: Shape, offer: Shape) -> Shape:
    """Return what is shown of a machine whose offer changed: all of the offer but what its host said of its size."""
    return replace(
        offer,
        resources=offer.resources if shown.resources == before.resources else shown.resources,
        allocatable=offer.allocatable if shown.allocatable == before.allocatable else shown.allocatable,
    )


def refreshed_offer(before: Shape, described: Shape) -> Shape:
    """Return an offer with what a refresh may change; type, zone and capacity type are the machine's for life."""
    return replace(
        described,
        instance_type=before.instance_type,
        zone=before.zone,
        capacity_type=before.capacity_type,
    )


def _texts(given: Mapping[str, str] | None) -> FrozenMap[str]:
    return FrozenMap(given) if given else NO_TEXTS
