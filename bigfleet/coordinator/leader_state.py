"""The memory of a leader under one term: soft state, instruction queue, deliveries.

Why: a handler that waits keeps the object of the term in which it began. A leader that lost and regained leadership thus never
stamps another term than its own, nor reuses what it heard in an earlier one.
Must never: be shared between two terms of one process.
Rules: `coordinator#soft-state`, `coordinator#won-term`.
"""

from collections.abc import Callable

from bigfleet.coordinator.core.delivery import DomainDelivery
from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.moves import MoveSteps
from bigfleet.coordinator.core.partition import PartitionedDomains
from bigfleet.coordinator.core.soft_state import ClockReading, SoftState
from bigfleet.coordinator.core.tables import Tables


class LeaderState:
    """What this process knows under one term that it serves."""

    def __init__(self, term: int, new_id: Callable[[], str]) -> None:
        self.term = term
        self.soft = SoftState()
        self.queue = InstructionQueue(term, new_id)
        self.delivery = DomainDelivery(self.queue)
        self.partition = PartitionedDomains(self.queue, self.soft)
        self.moves = MoveSteps(self.queue, self.soft, self.partition)
        self.first_report: ClockReading | None = None

    def forget(self, shard: str) -> None:
        """Drop everything about a shard that was removed."""
        self.soft.forget(shard)
        self.queue.forget(shard)
        self.delivery.forget(shard)
        self.partition.forget(shard)
        self.moves.forget(shard)

    def blockers(self, tables: Tables) -> list[str]:
        """Return what keeps domains of shared providers from moving (`coordinator#domain-delivery`): ghosts, unsettled
        shards, re-learning."""
        found = [f"~{ghost}" for ghost in sorted(tables.ghosts)]
        if found or any(self.soft.shares_provider(shard) for shard in tables.shards):
            found += [shard for shard in sorted(tables.shards) if not self.soft.has_settled(shard)]
        return [*found, "relearn"] if tables.relearn else found
