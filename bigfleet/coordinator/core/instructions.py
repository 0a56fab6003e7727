"""The queue of instructions per shard: sent with every answer until acknowledged, under the term that was won.

Why: instructions ride on answers to reports and may be lost with them; the queue is what makes them arrive.
Must never: stamp another term than the one captured when this process won, send again what was answered in any way, or
grow beyond its bound.
Rules: coordinator 5.1 and 5.3.
"""

from collections.abc import Callable
from typing import Final

from bigfleet.model.instruction import Ack, Instruction, Payload

MAX_PENDING: Final = 1000
MAX_PER_ANSWER: Final = 100


class InstructionQueue:
    """What waits for each shard, in the order it was queued."""

    def __init__(self, term: int, new_id: Callable[[], str]) -> None:
        self._term, self._new_id = term, new_id
        self._sequence = 0
        self._pending: dict[str, dict[str, Instruction]] = {}
        self.dropped = 0
        """How many were not queued because the shard's queue was full."""

    def enqueue(self, shard: str, payload: Payload, instruction_id: str = "") -> Instruction | None:
        """Queue one instruction; the same id overwrites. None when the shard's queue is full."""
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
        """Take an instruction off the queue, whatever became of it; None when it is not there."""
        return self._pending.get(shard, {}).pop(ack.instruction_id, None)

    def withdraw(self, shard: str, instruction_id: str) -> None:
        """Take an instruction off the queue that nobody wants any more."""
        self._pending.get(shard, {}).pop(instruction_id, None)

    def pending(self, shard: str) -> tuple[Instruction, ...]:
        """All that waits for a shard, by sequence number."""
        return tuple(self._pending.get(shard, {}).values())

    def next_answer(self, shard: str) -> tuple[Instruction, ...]:
        """What goes with the next answer."""
        return self.pending(shard)[:MAX_PER_ANSWER]

    def forget(self, shard: str) -> None:
        """Drop a shard's queue, as it was removed."""
        self._pending.pop(shard, None)
