"""What instructions that move single machines change in the ownership of a shard.

Why: a machine is adopted only after its last possible owner has let it go durably, so a shard says exactly what it let go.
Must never: let a bound machine go, drain one, adopt for another shard, or follow a move older than one it has seen.
Rules: `coordinator#move-marks`, `coordinator#no-accepted-no-ops`.
"""

from dataclasses import dataclass
from typing import Protocol

from bigfleet.model.instruction import MovePhase, Outcome, ReassignSpeculative, Ruling, TransferOwnership
from bigfleet.model.machine import MachineState
from bigfleet.model.ownership import Ownership

_FREE = frozenset({MachineState.IDLE, MachineState.SPECULATIVE})

MoveInstruction = TransferOwnership | ReassignSpeculative


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A machine in the inventory of a shard."""

    state: MachineState
    value: str | None
    """Of the partition key."""
    busy: bool
    """Whether an action is under way."""

    @property
    def free(self) -> bool:
        """Whether it may be let go now."""
        return self.state in _FREE and not self.busy


class Machines(Protocol):
    """The inventory of a shard as these rulings see it."""

    @property
    def listed(self) -> bool:
        """Whether the provider was listed since the start, so that a machine that is not known is not the shard's."""

    def known(self, machine_id: str) -> KnownMachine | None:
        """A machine, None if the inventory lacks it."""


def rule_on_move(draft: Ownership, shard: str, move: MoveInstruction, machines: Machines) -> Ruling:
    """Change a draft as an instruction says, and return the ruling with the machines it was carried out for."""
    if not machines.listed:
        return Ruling(
            Outcome.FAILED, "the provider has not been listed yet, so what this shard holds is not known"
        )
    for machine_id in move.machine_ids:
        seen = max(draft.adopted.get(machine_id, 0), draft.released.get(machine_id, 0))
        if move.move_seq < seen:
            why = f"move_seq: found {move.move_seq} for machine {machine_id}, allowed is {seen} or more"
            return Ruling(Outcome.REJECTED_STALE, why)
    match move.phase:
        case MovePhase.RELEASE:
            return _release(draft, shard, move, machines)
        case MovePhase.ADOPT:
            return _adopt(draft, shard, move)
        case MovePhase.CANCEL:
            return _cancel(draft, move, machines)
        case _:
            return Ruling(
                Outcome.REJECTED_INVALID,
                f"phase: found {move.phase.name}, allowed is RELEASE, ADOPT or CANCEL",
            )


def _release(draft: Ownership, shard: str, move: MoveInstruction, machines: Machines) -> Ruling:
    if move.to_shard == shard:
        return Ruling(
            Outcome.REJECTED_INVALID, f"to_shard: found {shard}, allowed is another shard than this one"
        )
    gone = tuple(machine_id for machine_id in move.machine_ids if _may_go(draft, machine_id, machines))
    for machine_id in gone:
        draft.adopted.pop(machine_id, None)
        draft.released[machine_id] = move.move_seq
    if move.from_shard != shard and len(gone) < len(move.machine_ids):
        # A mark for a machine that another shard holds; it cannot be in use here.
        kept = sorted({*move.machine_ids} - {*gone})
        return Ruling(Outcome.FAILED, f"machine {kept[0]} is in use here")
    return Ruling(Outcome.ACCEPTED, machine_ids=gone)


def _may_go(draft: Ownership, machine_id: str, machines: Machines) -> bool:
    if machine_id in draft.released:
        return True
    known = machines.known(machine_id)
    # What is adopted and not listed yet may be anything by now; what is neither is not held here.
    return machine_id not in draft.adopted if known is None else known.free


def _adopt(draft: Ownership, shard: str, move: MoveInstruction) -> Ruling:
    if move.to_shard != shard:
        return Ruling(
            Outcome.REJECTED_INVALID, f"to_shard: found {move.to_shard!r}, allowed is {shard}, this shard"
        )
    for machine_id in move.machine_ids:
        draft.released.pop(machine_id, None)
        draft.adopted[machine_id] = move.move_seq
    return Ruling(Outcome.ACCEPTED, machine_ids=move.machine_ids)


def _cancel(draft: Ownership, move: MoveInstruction, machines: Machines) -> Ruling:
    for machine_id in [name for name in move.machine_ids if name in draft.adopted]:
        known = machines.known(machine_id)
        if known is None or known.value not in draft.domains:
            return Ruling(
                Outcome.FAILED,
                f"machine {machine_id} is adopted and not known to be in a domain of this shard",
            )
    for machine_id in move.machine_ids:
        draft.released.pop(machine_id, None)
        draft.adopted.pop(machine_id, None)
    return Ruling(Outcome.ACCEPTED, machine_ids=move.machine_ids)
