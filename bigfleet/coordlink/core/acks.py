"""Acks: those that still have to be told to the coordinator, and those that were given before.

Why: an ack that got lost on its way is asked for again by sending the instruction again. The answer must then be the same
one, ids included: an offer whose ack was lost must not come back as an empty offer.
Must never: forget an ack that no report has delivered.
Rules: coordinator 5.2, decision S15 (the last 10,000 ids).
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bigfleet.model.instruction import Ack

REMEMBERED: Final = 10_000
DUPLICATE: Final = "duplicate-redelivery"
"""The reason of a repeated ack; contract (wire 5.2)."""


class AckMemory:
    """The acks of instructions that were carried out, the latest so many."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._acks: OrderedDict[str, Ack] = OrderedDict()

    def __len__(self) -> int:
        return len(self._acks)

    def remember(self, ack: Ack) -> None:
        """Note that an instruction was carried out."""
        self._acks[ack.instruction_id] = ack
        if len(self._acks) > self._limit:
            self._acks.popitem(last=False)

    def repeated(self, instruction_id: str) -> Ack | None:
        """The ack to give once more; None for an instruction that was not carried out, as far as is remembered."""
        known = self._acks.get(instruction_id)
        if known is None:
            return None
        self._acks.move_to_end(instruction_id)  # what is still asked for is worth keeping
        return replace(known, reason=DUPLICATE)


class AckQueue:
    """Acks on their way to the coordinator, in order, one per instruction."""

    def __init__(self) -> None:
        self._waiting: dict[str, Ack] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ack: Ack) -> None:
        """Tell it with the next report; of two for one instruction the later counts."""
        self._waiting.pop(ack.instruction_id, None)
        self._waiting[ack.instruction_id] = ack

    def take(self) -> tuple[Ack, ...]:
        """Everything that waits, for one report."""
        taken, self._waiting = tuple(self._waiting.values()), {}
        return taken

    def put_back(self, acks: Iterable[Ack]) -> None:
        """The report failed: these go in front again."""
        newer = self._waiting
        self._waiting = {ack.instruction_id: ack for ack in acks if ack.instruction_id not in newer}
        self._waiting.update(newer)
