"""Instructions of the coordinator, the answers of shards to them, and what both speak of: domains and moves.

Why: coordinator and shard must mean the same by an instruction without knowing each other.
Must never: say what to do with an instruction; that is the shard's part.
Rules: `wire#reports`, `wire#additions`, `coordinator#instructions`, `coordinator#move-steps`.
"""

from dataclasses import dataclass
from enum import IntEnum

from bigfleet.model.buckets import UNSPECIFIED, PenaltyBucket
from bigfleet.model.profile import Requirement
from bigfleet.model.resources import ZERO, Resources


@dataclass(frozen=True, slots=True, order=True)
class Domain:
    """All machines whose label `key` has the value `value`, for example a rack."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class MovePhase(IntEnum):
    """The step of a move between shards; the numbers are the wire's."""

    UNSPECIFIED = 0
    OFFER = 1
    RELEASE = 2
    ADOPT = 3
    CANCEL = 4


class Outcome(IntEnum):
    """What became of an instruction; the numbers are the wire's. Every one of them clears the queue's entry."""

    UNSPECIFIED = 0
    ACCEPTED = 1
    REJECTED_STALE = 2
    REJECTED_INVALID = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class MoveSelector:
    """What a donor is to choose, while the machines of a move are still open."""

    count: int = 0
    instance_type: str = ""
    zone: str = ""
    requirements: tuple[Requirement, ...] = ()
    min_unit: Resources = ZERO
    deficit: Resources = ZERO
    requester_bucket: PenaltyBucket = UNSPECIFIED


@dataclass(frozen=True, slots=True)
class AssignDomain:
    """A domain is the shard's from now on."""

    domain: Domain


@dataclass(frozen=True, slots=True)
class UnassignDomain:
    """A domain is the shard's no more."""

    domain: Domain


@dataclass(frozen=True, slots=True)
class Move:
    """What the three kinds of move have in common."""

    machine_ids: tuple[str, ...] = ()
    selector: MoveSelector | None = None
    phase: MovePhase = MovePhase.UNSPECIFIED
    move_seq: int = 0
    flow_id: str = ""


@dataclass(frozen=True, slots=True)
class ReassignSpeculative(Move):
    """Machines that do not exist yet change hands."""

    from_shard: str = ""
    to_shard: str = ""


@dataclass(frozen=True, slots=True)
class CrossShardDrain(Move):
    """Machines in use are drained for the benefit of another shard."""

    preemptor_priority: int = 0


@dataclass(frozen=True, slots=True)
class TransferOwnership(Move):
    """Machines change hands."""

    from_shard: str = ""
    to_shard: str = ""


Payload = AssignDomain | UnassignDomain | ReassignSpeculative | CrossShardDrain | TransferOwnership

PAYLOAD_KINDS: dict[type, str] = {
    AssignDomain: "assign_domain",
    UnassignDomain: "unassign_domain",
    ReassignSpeculative: "reassign_speculative",
    CrossShardDrain: "cross_shard_drain",
    TransferOwnership: "transfer_ownership",
}
"""The name of each kind, as on the wire and in metrics."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One order to a shard: fenced by its term, carried out once by its id, ordered by its sequence number.

    Without a payload it is of a kind that this version does not know.
    """

    term: int
    sequence: int
    id: str
    payload: Payload | None


@dataclass(frozen=True, slots=True)
class Ack:
    """What became of one instruction."""

    instruction_id: str
    outcome: Outcome
    reason: str = ""
    machine_ids: tuple[str, ...] = ()
    machine_total: Resources = ZERO
    domain_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a shard did with one instruction; with the id of the instruction it is an `Ack`."""

    outcome: Outcome
    reason: str = ""
    machine_ids: tuple[str, ...] = ()
    machine_total: Resources = ZERO
    domain_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """What the leader answers to a report."""

    term: int
    acknowledged: bool
    instructions: tuple[Instruction, ...] = ()
