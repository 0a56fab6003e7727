"""Instructions and acks: protobuf to model and back.

Why: coordinator and shard exchange them by way of reports, and a kind that one of them does not know must be distinguished
from a broken message: it is read without its payload, and the shard then refuses it by name.
Must never: refuse an instruction as a whole answer because one of several is unreadable to us.
Rules: `wire#reports`, `wire#additions`.
"""

from typing import Final

from bigfleet.model.buckets import checked_bucket
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.instruction import (
    Ack,
    AssignDomain,
    CrossShardDrain,
    Domain,
    Instruction,
    Move,
    MovePhase,
    MoveSelector,
    Outcome,
    Payload,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
)
from bigfleet.model.resources import Resources
from bigfleet.v1alpha1 import capacity_pb2, provider_pb2
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from bigfleet.wire.requirements import requirement_from_proto, requirements_to_proto
from bigfleet.wire.rollups import resources_from_texts

_PHASES: Final = {int(phase): phase for phase in MovePhase}
_OUTCOMES: Final = {int(outcome): outcome for outcome in Outcome}

_MoveMessage = pb.ReassignSpeculative | pb.CrossShardDrain | pb.TransferOwnership


def instruction_to_proto(instruction: Instruction) -> pb.CoordinatorInstruction:
    """Write one instruction."""
    message = pb.CoordinatorInstruction(
        coordinator_term=instruction.term,
        sequence_number=instruction.sequence,
        instruction_id=instruction.id,
    )
    match instruction.payload:
        case AssignDomain(domain):
            message.assign_domain.CopyFrom(domain_to_proto(domain))
        case UnassignDomain(domain):
            message.unassign_domain.topology_key = domain.key
            message.unassign_domain.topology_value = domain.value
        case ReassignSpeculative() as move:
            _write_move(message.reassign_speculative, move)
            message.reassign_speculative.from_shard_id = move.from_shard
            message.reassign_speculative.to_shard_id = move.to_shard
        case CrossShardDrain() as move:
            _write_move(message.cross_shard_drain, move)
            message.cross_shard_drain.preemptor_priority = move.preemptor_priority
        case TransferOwnership() as move:
            _write_move(message.transfer_ownership, move)
            message.transfer_ownership.from_shard_id = move.from_shard
            message.transfer_ownership.to_shard_id = move.to_shard
        case None:
            pass
    return message


def instruction_from_proto(message: pb.CoordinatorInstruction) -> Instruction:
    """Read one instruction; of an unknown kind, or unreadable, it has no payload and is refused by its id."""
    try:
        payload = _payload(message)
    except InvalidFieldError:
        payload = None
    return Instruction(message.coordinator_term, message.sequence_number, message.instruction_id, payload)


def domain_to_proto(domain: Domain) -> pb.AssignDomain:
    """Write one domain."""
    return pb.AssignDomain(topology_key=domain.key, topology_value=domain.value)


def ack_to_proto(ack: Ack) -> pb.InstructAck:
    """Write what became of one instruction."""
    message = pb.InstructAck(
        instruction_id=ack.instruction_id,
        outcome=pb.InstructAck.Outcome.ValueType(int(ack.outcome)),
        reason=ack.reason,
        machine_ids=ack.machine_ids,
        domain_values=ack.domain_values,
    )
    if ack.machine_total:
        message.machine_total.CopyFrom(amounts_to_proto(ack.machine_total))
    return message


def ack_from_proto(message: pb.InstructAck) -> Ack:
    """Read an ack; an outcome of a later version reads as unspecified, which clears the entry like any other."""
    return Ack(
        message.instruction_id,
        _OUTCOMES.get(message.outcome, Outcome.UNSPECIFIED),
        message.reason,
        tuple(message.machine_ids),
        resources_from_texts(message.machine_total.resources, "machine_total"),
        tuple(message.domain_values),
    )


def amounts_to_proto(amounts: Resources) -> provider_pb2.Resources:
    """Write a resource vector as a message."""
    return provider_pb2.Resources(resources=amounts.texts())


def _payload(message: pb.CoordinatorInstruction) -> Payload | None:
    match message.WhichOneof("payload"):
        case "assign_domain":
            given = message.assign_domain
            return AssignDomain(Domain(given.topology_key, given.topology_value))
        case "unassign_domain":
            taken = message.unassign_domain
            return UnassignDomain(Domain(taken.topology_key, taken.topology_value))
        case "reassign_speculative":
            slots = message.reassign_speculative
            return ReassignSpeculative(
                *_parts(_move(slots)), from_shard=slots.from_shard_id, to_shard=slots.to_shard_id
            )
        case "cross_shard_drain":
            drain = message.cross_shard_drain
            return CrossShardDrain(*_parts(_move(drain)), preemptor_priority=drain.preemptor_priority)
        case "transfer_ownership":
            transfer = message.transfer_ownership
            return TransferOwnership(
                *_parts(_move(transfer)), from_shard=transfer.from_shard_id, to_shard=transfer.to_shard_id
            )
    return None


def _parts(move: Move) -> tuple[tuple[str, ...], MoveSelector | None, MovePhase, int, str]:
    return move.machine_ids, move.selector, move.phase, move.move_seq, move.flow_id


def _move(message: _MoveMessage) -> Move:
    phase = _PHASES.get(message.phase)
    if phase is None:
        raise InvalidFieldError("phase", int(message.phase), f"a move phase from 0 to {max(_PHASES)}")
    selector = _selector(message.selector) if message.HasField("selector") else None
    return Move(tuple(message.machine_ids), selector, phase, message.move_seq, message.flow_id)


def _selector(message: pb.MoveSelector) -> MoveSelector:
    return MoveSelector(
        count=message.count,
        instance_type=message.instance_type,
        zone=message.zone,
        requirements=tuple(map(requirement_from_proto, message.requirements)),
        min_unit=resources_from_texts(message.min_unit, "min_unit"),
        deficit=resources_from_texts(message.deficit.resources, "deficit"),
        requester_bucket=checked_bucket(message.requester_penalty_bucket, "requester_penalty_bucket"),
    )


def _write_move(message: _MoveMessage, move: Move) -> None:
    message.machine_ids.extend(move.machine_ids)
    message.phase = pb.MovePhase.ValueType(int(move.phase))
    message.move_seq = move.move_seq
    message.flow_id = move.flow_id
    if move.selector is not None:
        message.selector.CopyFrom(_selector_to_proto(move.selector))


def _selector_to_proto(selector: MoveSelector) -> pb.MoveSelector:
    return pb.MoveSelector(
        count=selector.count,
        instance_type=selector.instance_type,
        zone=selector.zone,
        requirements=requirements_to_proto(selector.requirements),
        min_unit=selector.min_unit.texts(),
        deficit=amounts_to_proto(selector.deficit),
        requester_penalty_bucket=capacity_pb2.PenaltyBucket.ValueType(selector.requester_bucket),
    )
