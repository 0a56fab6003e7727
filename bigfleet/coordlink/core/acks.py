"""Acks of instructions: those waiting for the next report, and those already sent.

Why: if an ack is lost, the coordinator sends the instruction again and must get the same ack, machine ids included.
Must never: drop an ack that no report has delivered.
Rules: `coordinator#shard-client`, `shard#coordinator-client`.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bigfleet.model.instruction import Ack

REMEMBERED: Final = 10_000
DUPLICATE: Final = "duplicate-redelivery"
"""The reason of a repeated ack; contract (`wire#reports`)."""


class AckMemory:
    """The latest acks of instructions that were carried out."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._acks: OrderedDict[str, Ack] = OrderedDict()

    def __len__(self) -> int:
        return len(self._acks)

    def remember(self, ack: Ack) -> None:
        """Remember the ack of an instruction that was carried out."""
        self._acks[ack.instruction_id] = ack
        if len(self._acks) > self._limit:
            self._acks.popitem(last=False)

    def repeated(self, instruction_id: str) -> Ack | None:
        """Return the ack to repeat; None for an instruction that was not carried out, or too long ago."""
        known = self._acks.get(instruction_id)
        if known is None:
            return None
        self._acks.move_to_end(instruction_id)  # the coordinator still asks for it
        return replace(known, reason=DUPLICATE)


class AckQueue:
    """Acks for the next report, in order, one per instruction."""

    def __init__(self) -> None:
        self._waiting: dict[str, Ack] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ack: Ack) -> None:
        """Queue an ack; it replaces an earlier one of the same instruction."""
        self._waiting.pop(ack.instruction_id, None)
        self._waiting[ack.instruction_id] = ack

    def take(self) -> tuple[Ack, ...]:
        """Remove and return all acks, for one report."""
        taken, self._waiting = tuple(self._waiting.values()), {}
        return taken

    def put_back(self, acks: Iterable[Ack]) -> None:
        """Put acks of a failed report back in front."""
        newer = self._waiting
        self._waiting = {ack.instruction_id: ack for ack in acks if ack.instruction_id not in newer}
        self._waiting.update(newer)
