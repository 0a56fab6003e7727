"""Instruction handling: a shard carries out, refuses, or acknowledges again what the coordinator sends.

Why: an instruction may come twice, late, or from a replaced leader. Each id is carried out once, and none below the highest term
seen.
Must never: accept what was not carried out; what an instruction changes is the business of `Obedience`.
Rules: `coordinator#shard-client`, `shard#coordinator-client`, `wire#reports`; a new term empties the set of domains of a
shard that does not share its provider (ADR-0140).
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.coordlink.core.acks import AckMemory
from bigfleet.coordlink.core.obedience import Obedience
from bigfleet.model.instruction import PAYLOAD_KINDS, Ack, Instruction, Outcome, ReportAnswer, Ruling

UNKNOWN_KIND: Final = "unknown"
"""The kind of an instruction without a payload, in metrics and logs."""
_UNKNOWN: Final = Ruling(Outcome.REJECTED_INVALID, "an instruction of a kind that this shard does not know")


@dataclass(frozen=True, slots=True)
class HandledInstruction:
    """The ack of one instruction."""

    kind: str
    ack: Ack
    repeated: bool = False


class InstructionHandler:
    """Handles answers, and remembers what was carried out."""

    def __init__(self, obedience: Obedience, memory: AckMemory | None = None) -> None:
        self._obedience = obedience
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
            self._obedience.new_term()
            self._handled_term = term
        given = {
            item.id: item for item in answer.instructions if item.id
        }  # without an id it cannot be acknowledged
        due = {item.id: item.payload for item in given.values() if self._is_due(item, term)}
        payloads = [payload for payload in due.values() if payload is not None]
        # All at once, so that one write of the shard makes them durable.
        rulings = iter(self._obedience.obey(payloads) if payloads else ())
        ruled = {
            instruction_id: _UNKNOWN if payload is None else next(rulings)
            for instruction_id, payload in due.items()
        }
        return tuple(self._handled(item, ruled.get(item.id), term) for item in given.values())

    def _is_due(self, instruction: Instruction, mark: int) -> bool:
        return self._memory.repeated(instruction.id) is None and instruction.term >= mark

    def _handled(self, instruction: Instruction, ruling: Ruling | None, mark: int) -> HandledInstruction:
        payload = instruction.payload
        kind = UNKNOWN_KIND if payload is None else PAYLOAD_KINDS[type(payload)]
        if ruling is None:
            known = self._memory.repeated(instruction.id)
            if known is not None:
                return HandledInstruction(kind, known, repeated=True)
            why = f"term {instruction.term} is below {mark}, the highest seen"
            return HandledInstruction(kind, Ack(instruction.id, Outcome.REJECTED_STALE, why))
        ack = Ack(
            instruction.id,
            ruling.outcome,
            ruling.reason,
            ruling.machine_ids,
            ruling.machine_total,
            ruling.domain_values,
        )
        if ruling.outcome is Outcome.ACCEPTED:
            self._memory.remember(ack)
        return HandledInstruction(kind, ack)
