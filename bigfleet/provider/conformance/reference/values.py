"""The model provider's own values: kinds of operation, records, what survives a kill, the slots it begins with.

Must never: be shared with the kit for provider authors; see `bigfleet.provider.conformance.reference`.
Rules: `providers#states`, `providers#idempotency-table`, `providers#fault-convention`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bigfleet.provider.conformance.states import CONFIGURING, CREATING, DELETING, DRAINING, C, I, S, State
from bigfleet.v1alpha1 import provider_pb2 as pb

Mutation = pb.CreateRequest | pb.ConfigureRequest | pb.DrainRequest | pb.DeleteRequest


class ReferenceOperation(StrEnum):
    """The kinds of operation; each is its own idempotency key."""

    CREATE = "create"
    CONFIGURE = "configure"
    DRAIN = "drain"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ReferenceEdge:
    source: State
    through: State
    target: State


EDGES: Final[Mapping[ReferenceOperation, ReferenceEdge]] = {
    ReferenceOperation.CREATE: ReferenceEdge(S, CREATING, I),
    ReferenceOperation.CONFIGURE: ReferenceEdge(I, CONFIGURING, C),
    ReferenceOperation.DRAIN: ReferenceEdge(C, DRAINING, I),
    ReferenceOperation.DELETE: ReferenceEdge(I, DELETING, S),
}


@dataclass(frozen=True, slots=True)
class ReferenceToken:
    shard: str
    epoch: int
    sequence: int

    @property
    def empty(self) -> bool:
        return not (self.shard or self.epoch or self.sequence)

    @property
    def pair(self) -> tuple[int, int]:
        return self.epoch, self.sequence


@dataclass(slots=True)
class ReferenceRecord:
    """One machine, the operations it has seen, and the revision of its last change."""

    machine: pb.Machine
    operations: dict[ReferenceOperation, str] = field(default_factory=dict)
    changed: int = 0
    serial: int = 0
    """Counts accepted operations, so that the late result of an old one can be recognised and dropped."""


@dataclass(slots=True)
class ReferenceStore:
    """What survives a kill."""

    records: dict[str, ReferenceRecord] = field(default_factory=dict)
    marks: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    revision: int = 0
    operations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions:
    """What kind of provider to play."""

    slots: int = 32
    idle: int = 0
    """Machines that exist from the start, as in a pool of bare metal."""
    latency_s: float = 0.0
    """How long a transition takes; 0 completes it inside the call."""
    delete: bool = True
    cursor: bool = True
    faults: bool = False
    """Follow the fault convention (`providers#fault-convention`)."""
    timeout_s: float = 300.0
    staged: bool = False
    """Nodes become Ready only when `ready` is called."""


FAULTS: Final[Mapping[ReferenceOperation, tuple[str, ...]]] = {
    ReferenceOperation.CREATE: (),
    ReferenceOperation.CONFIGURE: ("fault-error", "fault-timeout", "fault-slow-ok", "fault-readiness-block"),
    ReferenceOperation.DRAIN: ("fault-drain-error",),
    ReferenceOperation.DELETE: (),
}


def slot(
    number: int, name: str = "slot", capacity_type: "pb.CapacityType.ValueType | None" = None
) -> pb.Machine:
    """Return the record of a slot; every third one is spot."""
    spot = number % 3 == 2
    kind = pb.CAPACITY_TYPE_SPOT if spot else pb.CAPACITY_TYPE_ON_DEMAND
    machine = pb.Machine(
        id=f"{name}-{number:05d}",
        state=S,
        instance_type="model-standard-4",
        zone=f"model-zone-{'abc'[number % 3]}",
        capacity_type=kind if capacity_type is None else capacity_type,
        price_per_hour=0.12 if spot else 0.40,
        interruption_probability=0.05 if spot else 0.0,
        labels={"topology.bigfleet/rack": f"rack-{number % 7}"},
    )
    machine.resources.resources.update({"cpu": "4", "memory": "16Gi"})
    machine.allocatable.resources.update({"cpu": "3920m", "memory": "14Gi"})
    return machine
