"""Instruction handling: a shard carries out, refuses, or acknowledges again what the coordinator sends.

Why: an instruction may come twice, late, or from a replaced leader. Each id is carried out once, and none below the highest term
seen.
Must never: accept what it does not carry out. Instructions that move machines between shards need a shared provider;
this shard refuses them with that reason (`coordinator#one-shard-per-provider`, `coordinator#no-accepted-no-ops`).
Rules: `coordinator#shard-client`, `shard#coordinator-client`, `wire#reports`; a new term empties the set of domains
(ADR-0140).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bigfleet.coordlink.core.acks import AckMemory
from bigfleet.coordlink.core.domains import AssignedDomains
from bigfleet.model.errors import BigFleetError
from bigfleet.model.instruction import (
    PAYLOAD_KINDS,
    Ack,
    AssignDomain,
    Instruction,
    Outcome,
    Payload,
    ReportAnswer,
    UnassignDomain,
)

UNKNOWN_KIND: Final = "unknown"
"""The kind of an instruction without a payload, in metrics and logs."""


@dataclass(frozen=True, slots=True)
class HandledInstruction:
    """The ack of one instruction."""

    kind: str
    ack: Ack
    repeated: bool = False


class InstructionHandler:
    """Handles answers, and remembers what was carried out."""

    def __init__(self, domains: AssignedDomains, memory: AckMemory | None = None) -> None:
        self._domains = domains
        self._handled_term = 0
        self._memory = AckMemory() if memory is None else memory

    def term_after(self, answer: ReportAnswer, mark: int) -> int | None:
        """Return the highest term seen after this answer; None if the answer is stale and must be dropped."""
        if 0 < answer.term < mark:
            return None
        return max(mark, answer.term)

    def handle(self, answer: ReportAnswer, term: int) -> tuple[HandledInstruction, ...]:
        """Handle the instructions of an answer; `term` is that of `term_after`, and durable by now."""
        if term > self._handled_term:
            # An unassignment of the last leader may be lost; the new leader sends all domains again.
            self._domains.clear()
            self._handled_term = term
        handled = (self._handle(instruction, term) for instruction in answer.instructions)
        return tuple(item for item in handled if item is not None)

    def _handle(self, instruction: Instruction, mark: int) -> HandledInstruction | None:
        if not instruction.id:
            return None  # it could not be acknowledged
        payload = instruction.payload
        kind = UNKNOWN_KIND if payload is None else PAYLOAD_KINDS[type(payload)]
        known = self._memory.repeated(instruction.id)
        if known is not None:
            return HandledInstruction(kind, known, repeated=True)
        if instruction.term < mark:
            why = f"term {instruction.term} is below {mark}, the highest seen"
            return HandledInstruction(kind, Ack(instruction.id, Outcome.REJECTED_STALE, why))
        outcome, why = self._carry_out(payload, kind)
        ack = Ack(instruction.id, outcome, why)
        if outcome is Outcome.ACCEPTED:
            self._memory.remember(ack)
        return HandledInstruction(kind, ack)

    def _carry_out(self, payload: Payload | None, kind: str) -> tuple[Outcome, str]:
        match payload:
            case None:
                return Outcome.REJECTED_INVALID, "an instruction of a kind that this shard does not know"
            case AssignDomain(domain) | UnassignDomain(domain) if not domain.key or not domain.value:
                return (
                    Outcome.REJECTED_INVALID,
                    f"{kind}: the domain {domain} lacks its key or its value, both are required",
                )
            case AssignDomain(domain):
                return _tried(lambda: self._domains.assign(domain))
            case UnassignDomain(domain):
                return _tried(lambda: self._domains.unassign(domain))
            case _:
                return (
                    Outcome.REJECTED_INVALID,
                    f"{kind}: this shard shares its provider with no other, so that no machine can change hands",
                )


def _tried(change: Callable[[], None]) -> tuple[Outcome, str]:
    try:
        change()
    except BigFleetError as error:
        return Outcome.FAILED, str(error)
    return Outcome.ACCEPTED, ""
