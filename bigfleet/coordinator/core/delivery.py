"""Derives the domain instructions of a shard: the difference between the table and what the shard is known to hold.

Why: level-triggered, so a lost answer, a failover or a restarted shard heals at the next report.
Must never: repeat an instruction while it is queued or right after it was refused; send domain instructions while the
coordinator re-learns (`coordinator#restore`, `coordinator#relearn`), or to shards that share a provider: their rules
(`coordinator#domain-delivery`) come with partition mode.
Rules: `coordinator#instruction-queue`, `coordinator#domain-delivery`. What a shard acked under this leader and its own
epoch counts as held; a new term begins with an empty set on both sides (ADR-0140).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.soft_state import INTERVAL_S
from bigfleet.model.instruction import Ack, AssignDomain, Domain, Instruction, Outcome, UnassignDomain

MAX_PER_REPORT: Final = 100

Pair = tuple[str, str]  # key and value; tuples, as a shard may hold 100,000


@dataclass(slots=True)
class _Known:
    """One shard's domains as known to this leader."""

    held: dict[Pair, None] = field(default_factory=dict)
    queued: dict[Pair, str] = field(default_factory=dict)
    refused_at_s: dict[Pair, float] = field(default_factory=dict)


class DomainDelivery:
    """Queues the domain instructions of all shards."""

    def __init__(self, queue: InstructionQueue) -> None:
        self._queue = queue
        self._shards: dict[str, _Known] = {}

    def restarted(self, shard: str) -> None:
        """Forget what the shard acked before it restarted."""
        for instruction_id in self._shards.pop(shard, _Known()).queued.values():
            self._queue.withdraw(shard, instruction_id)

    def forget(self, shard: str) -> None:
        """Drop everything about a removed shard."""
        self._shards.pop(shard, None)

    def taken(self, shard: str, domain: Domain) -> None:
        """Record that a domain was unassigned; the shard may hold it since an earlier leader."""
        self._shards.setdefault(shard, _Known()).held[domain.key, domain.value] = None

    def acknowledged(self, shard: str, instruction: Instruction, ack: Ack, now_s: float) -> None:
        """Record the outcome of an instruction."""
        payload = instruction.payload
        if not isinstance(payload, AssignDomain | UnassignDomain):
            return
        known = self._shards.setdefault(shard, _Known())
        pair = payload.domain.key, payload.domain.value
        if known.queued.get(pair) == instruction.id:
            del known.queued[pair]
        if ack.outcome is not Outcome.ACCEPTED:
            known.refused_at_s[pair] = now_s
        elif isinstance(payload, AssignDomain):
            known.held[pair] = None
        else:
            known.held.pop(pair, None)

    def derive(self, shard: str, desired: Mapping[Pair, None], now_s: float) -> None:
        """Queue the instructions due at this report; unassignments first."""
        known = self._shards.setdefault(shard, _Known())
        known.refused_at_s = {
            pair: at_s for pair, at_s in known.refused_at_s.items() if now_s - at_s < INTERVAL_S
        }
        self._withdraw(shard, known, desired)
        busy = {*known.queued, *known.refused_at_s}
        for pair in nsmallest(MAX_PER_REPORT, known.held.keys() - desired.keys() - busy):
            self._enqueue(shard, known, pair, UnassignDomain(Domain(*pair)))
        for pair in nsmallest(MAX_PER_REPORT, desired.keys() - known.held.keys() - busy):
            self._enqueue(shard, known, pair, AssignDomain(Domain(*pair)))

    def _enqueue(self, shard: str, known: _Known, pair: Pair, payload: AssignDomain | UnassignDomain) -> None:
        instruction = self._queue.enqueue(shard, payload)
        if instruction is not None:
            known.queued[pair] = instruction.id

    def _withdraw(self, shard: str, known: _Known, desired: Mapping[Pair, None]) -> None:
        """Withdraw queued instructions that no longer match the table.

        One may have been delivered and its ack lost. So the shard counts as having carried it out, and gets the opposite one.
        """
        by_id = {instruction.id: instruction for instruction in self._queue.pending(shard)}
        for pair, instruction_id in list(known.queued.items()):
            instruction = by_id.get(instruction_id)
            assigns = instruction is not None and isinstance(instruction.payload, AssignDomain)
            if instruction is not None and assigns == (pair in desired):
                continue
            del known.queued[pair]
            self._queue.withdraw(shard, instruction_id)
            if assigns:
                known.held[pair] = None
            else:
                known.held.pop(pair, None)
