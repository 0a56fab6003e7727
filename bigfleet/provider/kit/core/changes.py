"""Changes of a provider's state as values, which are written to disk before they are applied.

Must never: depend on the state before; applied twice, or on top of a newer snapshot, a change has no further effect.
Rules: `providers#durable-state`.
"""

from dataclasses import dataclass

from bigfleet.model.machine import MachineState, Shape

NO_OPERATIONS = (0, 0, 0, 0)
"""Number of the last operation of each kind, in the order of `OperationKind`; 0 for none."""

Operations = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class PutMachine:
    """Sets one machine.

    `own` is the encoded part of the record that no other machine shares; `shape` is what listings show and `offer` what
    the backend last described; `gone_at_s` is when the machine became a tombstone, 0 for never.
    """

    id: str
    state: MachineState
    own: bytes
    shape: Shape
    offer: Shape
    operations: Operations
    revision: int
    gone_at_s: int = 0


@dataclass(frozen=True, slots=True)
class FenceMark:
    """Records the newest accepted token of a shard for a machine."""

    shard_id: str
    machine_id: str
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ShardEpoch:
    """Records the highest epoch of a shard that announced exclusive epochs."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LowerMarks:
    """Lowers every mark of a shard above an epoch to the beginning of that epoch, because a person said that it is the right one."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class GraceEnd:
    """Records when the grace period of a drain ends, so that a restart neither extends it nor cuts it short."""

    machine_id: str
    operation: int
    at_s: int


@dataclass(frozen=True, slots=True)
class DropMachine:
    """Removes a tombstone whose retention has ended."""

    id: str


SmallChange = FenceMark | ShardEpoch | LowerMarks | GraceEnd | DropMachine
StateChange = PutMachine | SmallChange
