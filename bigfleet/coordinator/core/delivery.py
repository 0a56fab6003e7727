"""Which domain instructions a shard is owed: the difference between the table and what the shard is known to hold.

Why: level-triggered, so that a lost answer, a failover or a restarted shard heals by itself at the next report.
Must never: send the same again while it is queued, or again at once after it was refused; send domain instructions while
the coordinator re-learns (10.4), or to shards that share a provider: their rules (8.3) come with partition mode.
Rules: coordinator 5.1 and 8.3. A shard outside partition mode sends no view; what it acked under this leader and its own
epoch stands for it. What it held before that is unknown, so it takes a new term for an empty set (ADR-0140).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.soft_state import INTERVAL_S
from bigfleet.model.instruction import Ack, AssignDomain, Domain, Instruction, Outcome, UnassignDomain

MAX_PER_REPORT: Final = 100

Pair = tuple[str, str]  # key and value: a shard may hold 100,000, and tuples compare at the speed of C


@dataclass(slots=True)
class _Known:
    """What is known of one shard's domains."""

    held: dict[Pair, None] = field(default_factory=dict)
    queued: dict[Pair, str] = field(default_factory=dict)
    refused_at_s: dict[Pair, float] = field(default_factory=dict)


class DomainDelivery:
    """Brings the domain table to the shards."""

    def __init__(self, queue: InstructionQueue) -> None:
        self._queue = queue
        self._shards: dict[str, _Known] = {}

    def restarted(self, shard: str) -> None:
        """A new process of the shard knows nothing of what the last one acked."""
        for instruction_id in self._shards.pop(shard, _Known()).queued.values():
            self._queue.withdraw(shard, instruction_id)

    def forget(self, shard: str) -> None:
        """Drop all that is known of a shard, as it was removed."""
        self._shards.pop(shard, None)

    def taken(self, shard: str, domain: Domain) -> None:
        """A domain was taken from a shard under this leader, which may hold it from before this leader's time."""
        self._shards.setdefault(shard, _Known()).held[domain.key, domain.value] = None

    def acknowledged(self, shard: str, instruction: Instruction, ack: Ack, now_s: float) -> None:
        """Note what became of an instruction of ours."""
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
        """Queue what the shard is owed at this report; letting go comes before taking."""
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
        """Take back what is queued and has become wrong.

        It may have been delivered, its ack being lost or under way; so the shard counts as having done it, and is told
        the contrary.
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
