"""Derives the domain instructions of shards that share a provider: the difference between the table and their views.

Why: two shards that both take a domain for their own give its machines two owners. So a domain is assigned only once every
shard has said what it holds, and none but the new owner can still be holding it.
Must never: withdraw an assignment that may have been delivered, or count a shard as not holding what it has not denied
under this leader.
Rules: `coordinator#partition-assign`, `coordinator#ownership-view`, `coordinator#leaving-domain`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import Final

from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.soft_state import INTERVAL_S, ShardState, SoftState
from bigfleet.coordinator.core.tables import MoveState, Tables
from bigfleet.model.instruction import Ack, AssignDomain, Domain, Instruction, Outcome, UnassignDomain
from bigfleet.model.shard_report import OwnershipView

MAX_PER_REPORT: Final = 100

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HeldDomains:
    """The domains of one view."""

    view: OwnershipView
    held: frozenset[Pair]
    leaving: frozenset[Pair]
    released: frozenset[str]


@dataclass(slots=True)
class _Sent:
    """What is on its way to one shard."""

    queued: dict[Pair, str] = field(default_factory=dict)
    assigning: set[Pair] = field(default_factory=set)
    refused_at_s: dict[Pair, float] = field(default_factory=dict)


class PartitionedDomains:
    """Queues the domain instructions of shards that share their provider."""

    def __init__(self, queue: InstructionQueue, soft: SoftState) -> None:
        self._queue, self._soft = queue, soft
        self._sent: dict[str, _Sent] = {}
        self._held: dict[str, HeldDomains] = {}

    def restarted(self, shard: str) -> None:
        """Forget what was queued for an earlier process: its successor says what of it took effect."""
        for instruction_id in self._sent.pop(shard, _Sent()).queued.values():
            self._queue.withdraw(shard, instruction_id)

    def forget(self, shard: str) -> None:
        """Drop everything about a removed shard."""
        self._sent.pop(shard, None)
        self._held.pop(shard, None)

    def acknowledged(self, shard: str, instruction: Instruction, ack: Ack, now_s: float) -> None:
        """Record the outcome of an instruction."""
        payload = instruction.payload
        if not isinstance(payload, AssignDomain | UnassignDomain):
            return
        sent = self._sent.setdefault(shard, _Sent())
        pair = payload.domain.key, payload.domain.value
        if sent.queued.get(pair) == instruction.id:
            del sent.queued[pair]
            sent.assigning.discard(pair)
        if ack.outcome is not Outcome.ACCEPTED:
            sent.refused_at_s[pair] = now_s

    def derive(self, shard: str, tables: Tables, now_s: float) -> None:
        """Queue the instructions due at this report; unassignments first."""
        state = self._soft.of(shard)
        if state is None or state.summary is None or tables.relearn:
            return
        mine = self.held(shard)
        if mine is None:
            return
        sent = self._sent.setdefault(shard, _Sent())
        sent.refused_at_s = {
            pair: at_s for pair, at_s in sent.refused_at_s.items() if now_s - at_s < INTERVAL_S
        }
        busy = {*sent.queued, *sent.refused_at_s}
        key = state.summary.partition_key
        rows = tables.domains_of_shard.get(shard, {})
        desired = {pair for pair in rows if pair[0] == key}
        settled = mine.held - mine.leaving
        for pair in nsmallest(MAX_PER_REPORT, settled - desired - busy):
            self._enqueue(shard, sent, pair, UnassignDomain(Domain(*pair)))
        wanted = sorted(desired - settled - busy)
        if wanted and not self.blockers(shard, tables):
            for pair in islice(self._free(shard, mine, wanted, tables), MAX_PER_REPORT):
                self._enqueue(shard, sent, pair, AssignDomain(Domain(*pair)))

    def held(self, shard: str) -> HeldDomains | None:
        """The domains in the view of a shard; None if it has sent none under this leader."""
        state = self._soft.of(shard)
        view = None if state is None else state.view
        if view is None:
            return None
        known = self._held.get(shard)
        if known is None or known.view is not view:
            known = HeldDomains(
                view,
                frozenset((domain.key, domain.value) for domain in view.domains),
                frozenset((domain.key, domain.value) for domain in view.leaving),
                frozenset(mark.machine_id for mark in view.released),
            )
            self._held[shard] = known
        return known

    def blockers(self, shard: str, tables: Tables) -> list[str]:
        """Return what keeps every domain from being assigned to a shard, ghosts with a leading `~`."""
        found = [f"~{ghost}" for ghost in sorted(tables.ghosts)]
        mine = self._soft.of(shard)
        for other in sorted(tables.shards):
            if other == shard:
                continue
            if not self._soft.has_settled(other) or _owns_all_of_it(self._soft.of(other), mine):
                found.append(other)
        return found

    def holders(self, pair: Pair, shards: Iterable[str]) -> Iterator[str]:
        """Return the shards that hold a domain, or may have been told to."""
        for shard in shards:
            held, sent = self.held(shard), self._sent.get(shard)
            if (held is not None and pair in held.held) or (sent is not None and pair in sent.assigning):
                yield shard

    def _free(self, shard: str, mine: HeldDomains, wanted: Iterable[Pair], tables: Tables) -> Iterator[Pair]:
        """The domains that no other shard can be holding, and whose moved machines the new owner knows of."""
        others = [other for other in tables.shards if other != shard]
        for pair in wanted:
            if next(self.holders(pair, others), None) is None and _knows_moves(shard, mine, pair, tables):
                yield pair

    def _enqueue(self, shard: str, sent: _Sent, pair: Pair, payload: AssignDomain | UnassignDomain) -> None:
        instruction = self._queue.enqueue(shard, payload)
        if instruction is not None:
            sent.queued[pair] = instruction.id
            if isinstance(payload, AssignDomain):
                sent.assigning.add(pair)


def _owns_all_of_it(other: ShardState | None, mine: ShardState | None) -> bool:
    """Whether another shard owns every machine of this one's provider, or may do so."""
    if other is None or mine is None or mine.summary is None:
        return False
    if other.summary is None:
        return other.view is None  # before its first cycle it has not said which provider is its own
    same = other.summary.provider_address == mine.summary.provider_address
    return same and bool(mine.summary.provider_address) and not other.summary.partition_key


def _knows_moves(shard: str, mine: HeldDomains, pair: Pair, tables: Tables) -> bool:
    rows: Mapping[Pair, None] = tables.moves_of_domain.get(pair, {})
    for provider, machine_id in rows:
        row = tables.moves[provider][machine_id]
        if row.holder == shard:
            if row.phase != MoveState.HELD:
                return False
        elif machine_id not in mine.released:
            return False
    return True
