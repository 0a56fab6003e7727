"""Changes: what a decision does to the provider's state, as values that can be written down before they happen.

Why: an accepted call is answered only after it is on disk, so a decision must exist as data before it is applied; and what
is read back after a crash must be the very same thing.
Must never: depend on what the state was before; applied twice, or on top of a newer snapshot, they change nothing more.
Rules: providers 4.1 (durable state).
"""

from dataclasses import dataclass

from bigfleet.model.machine import MachineState, Shape

NO_OPERATIONS = (0, 0, 0, 0)
"""Number of the last operation of each kind, in the order of `Kind`; zero where there was none."""

Operations = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class PutMachine:
    """A machine is from now on exactly this.

    `own` is the encoded part of the record that no other machine shares; `shape` is what is shown of it and `offer` what
    the substrate last described; `revision` is when it changed; `gone_at_s` is when a tombstone was set, zero for none.
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
    """A shard's token for a machine was accepted."""

    shard_id: str
    machine_id: str
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class DropMachine:
    """A tombstone's time is over; the machine is gone."""

    id: str


StateChange = PutMachine | FenceMark | DropMachine
