"""The queue of instructions per shard: each goes with every answer until the shard acknowledges it.

Must never: stamp another term than the one this process won, send again what was acknowledged with any outcome, or grow
beyond its bound.
Rules: `coordinator#instruction-queue`, `coordinator#won-term`.
"""

from collections.abc import Callable
from typing import Final

from bigfleet.model.instruction import Ack, Instruction, Payload

MAX_PENDING: Final = 1000
MAX_PER_ANSWER: Final = 100


class InstructionQueue:
    """The pending instructions of each shard, in the order they were queued."""

    def __init__(self, term: int, new_id: Callable[[], str]) -> None:
        self._term, self._new_id = term, new_id
        self._sequence = 0
        self._pending: dict[str, dict[str, Instruction]] = {}
        self.dropped = 0
        """How many were not queued because a shard's queue was full."""

    def enqueue(self, shard: str, payload: Payload, instruction_id: str = "") -> Instruction | None:
        """Queue one instruction, in place of one with the same id; None if the shard's queue is full."""
        queue = self._pending.setdefault(shard, {})
        chosen = instruction_id or self._new_id()
        if len(queue) >= MAX_PENDING and chosen not in queue:
            self.dropped += 1
            return None
        queue.pop(chosen, None)
        self._sequence += 1
        instruction = Instruction(self._term, self._sequence, chosen, payload)
        queue[chosen] = instruction
        return instruction

    def acknowledge(self, shard: str, ack: Ack) -> Instruction | None:
        """Remove and return the instruction of an ack; None if it is not queued."""
        return self._pending.get(shard, {}).pop(ack.instruction_id, None)

    def withdraw(self, shard: str, instruction_id: str) -> None:
        """Remove an instruction that is no longer wanted."""
        self._pending.get(shard, {}).pop(instruction_id, None)

    def pending(self, shard: str) -> tuple[Instruction, ...]:
        """Return the pending instructions of a shard by sequence number."""
        return tuple(self._pending.get(shard, {}).values())

    def next_answer(self, shard: str) -> tuple[Instruction, ...]:
        """Return the instructions of the next answer."""
        return self.pending(shard)[:MAX_PER_ANSWER]

    def forget(self, shard: str) -> None:
        """Drop the queue of a removed shard."""
        self._pending.pop(shard, None)
