"""What a shard makes of an answer of the coordinator: which instructions it obeys, refuses, or answers a second time.

Why: an instruction may come twice, late, or from a leader that has been replaced without knowing; each id is carried out
once, and no term below the highest one seen is obeyed.
Must never: accept what it does not carry out. Instructions that move machines between shards need a provider that shards
share, which this shard does not do; they are refused with that reason (decision C4).
Rules: coordinator 5.2, shard 17, wire 5.2; a new term empties the set of domains (ADR-0140).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from bigfleet.coordlink.core.acks import AckMemory
from bigfleet.model.errors import BigFleetError
from bigfleet.model.instruction import (
    PAYLOAD_KINDS,
    Ack,
    AssignDomain,
    Domain,
    Instruction,
    Outcome,
    Payload,
    ReportAnswer,
    UnassignDomain,
)

UNKNOWN_KIND: Final = "unknown"
"""What an instruction without a payload is called in metrics and logs."""


class DomainStore(Protocol):
    """Where assignments are taken down; a `BigFleetError` means that it could not be done."""

    def assign(self, domain: Domain) -> None: ...

    def unassign(self, domain: Domain) -> None: ...

    def clear(self) -> None: ...


@dataclass(frozen=True, slots=True)
class HandledInstruction:
    """One instruction and the ack that it is owed."""

    kind: str
    ack: Ack
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """What became of an answer: the term to hold from now on, and the acks owed for its instructions."""

    term: int
    handled: tuple[HandledInstruction, ...] = ()
    stale: bool = False
    """The answer as a whole came from a leader that has been replaced; its instructions come again."""


class InstructionHandler:
    """Remembers what was carried out, and handles one answer after the other."""

    def __init__(self, domains: DomainStore, memory: AckMemory | None = None) -> None:
        self._domains = domains
        self._handled_term = 0
        self._memory = AckMemory() if memory is None else memory

    def term_after(self, answer: ReportAnswer, mark: int) -> int | None:
        """The term to hold after this answer; None when the answer is stale and is to be dropped."""
        if 0 < answer.term < mark:
            return None
        return max(mark, answer.term)

    def handle(self, answer: ReportAnswer, mark: int) -> AnswerOutcome:
        """Handle an answer; the caller has made `highest` durable before, so that a crash cannot forget what was obeyed."""
        term = self.term_after(answer, mark)
        if term is None:
            return AnswerOutcome(mark, stale=True)
        if term > self._handled_term:
            # What the leader before took away and did not live to deliver, nobody else knows of; the new one sends all again.
            self._domains.clear()
            self._handled_term = term
        handled = [found for item in answer.instructions if (found := self._handle(item, term)) is not None]
        return AnswerOutcome(term, tuple(handled))

    def _handle(self, instruction: Instruction, mark: int) -> HandledInstruction | None:
        if not instruction.id:
            return None  # nobody could be told what became of it
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
