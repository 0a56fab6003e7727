"""One decision: snapshot, demand and now in, actions and verdicts out.

Must never: keep anything between two decisions; `bigfleet.engine.planner` does that, and its answers are the same.
"""

from collections.abc import Sequence

from bigfleet.engine.planner import Planner
from bigfleet.engine.reporter import Reporter
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import Inventory, InventorySnapshot
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef, IdleHolds, Situation


def decide_situation(situation: Situation, reporter: Reporter | None = None) -> Decision:
    """Decide on plain records."""
    inventory = Inventory()
    for machine in situation.machines:
        inventory.insert(machine, None)
    return decide(
        inventory.snapshot(),
        situation.needs,
        parked=situation.parked,
        reported_clusters=situation.reported_clusters,
        holds=situation.holds,
        now=situation.now,
        reporter=reporter,
    )


def decide(
    snapshot: InventorySnapshot,
    needs: Sequence[Need],
    *,
    parked: frozenset[GangRef],
    reported_clusters: frozenset[str] | None,
    holds: IdleHolds,
    now: float,
    reporter: Reporter | None = None,
) -> Decision:
    """Decide what to do about this demand, in the order in which it is listed, with these machines."""
    return Planner(reporter=reporter).decide(
        snapshot,
        Demand.listed(needs),
        parked=parked,
        reported_clusters=reported_clusters,
        holds=holds,
        now=now,
    )
