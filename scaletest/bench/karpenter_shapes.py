"""Diverse pods in the shapes of Karpenter's scheduling benchmark: which of them get a node, at what price, and what deciding costs.

`python -m scaletest.bench.karpenter_shapes 1000,5000,10000` prints one JSON object. Every pod takes the way it takes in a cluster, in
this one process: the pod controller's core makes its request, the operator's core adds it up, the roll-up is written and read as
on the wire, and the engine decides on 400 types of machines. CPU is counted from the list of pods to the list of actions. What follows, step by
step until nothing moves any more, is in `scaletest.bench.karpenter_loop`.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from bigfleet.bench.meter import BenchCase, BenchMeter
from bigfleet.engine.planner import Planner
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.situation import IdleHolds
from bigfleet.workload.worlds import START
from scaletest.bench.first_fit import RESOURCES, placed_pod
from scaletest.bench.karpenter_demand import CLUSTER, ClusterDemand
from scaletest.bench.karpenter_loop import ClosedLoop
from scaletest.bench.karpenter_pods import diverse_pods, machine_types, price_bound

SIZES: Final = (1_000, 5_000, 10_000)

Document = dict[str, Any]


def decision_on(needs: Sequence[Need], snapshot: InventorySnapshot) -> Decision:
    """Decide on the demand of one cluster."""
    table = NeedsTable()
    table.replace(CLUSTER, needs)
    decision = Planner().decide(
        snapshot,
        table.demand(),
        parked=frozenset(),
        reported_clusters=None,
        holds=IdleHolds(),
        now=START,
    )
    len(decision.actions)
    return decision


def measure(count: int, repetitions: int) -> Document:
    """All figures of one number of pods."""
    pods, inventory = diverse_pods(count), machine_types()
    snapshot = inventory.snapshot()
    timing = BenchMeter(repetitions).measure(
        BenchCase(lambda: decision_on(ClusterDemand(pods).needs(), snapshot))
    )
    placed = [placed_pod(pod) for pod in pods]
    cores, memory, number = (np.sum([pod.amounts for pod in placed], axis=0) / 1000).tolist()
    bound = price_bound(cores, memory, number)
    demand = ClusterDemand(pods)
    rows = len(demand.needs())
    loop = ClosedLoop(inventory, demand, placed)
    alone = _state(loop, bound)
    steps = loop.run()
    return {
        "pods": count,
        "sum": dict(zip(RESOURCES, (cores, memory, number), strict=True)),
        "rows": rows,
        "cpu_ms": round(sorted(timing.cpu_ms)[len(timing.cpu_ms) // 2], 1),
        "units": round(timing.units, 3),
        "bound_dollars": round(bound, 3),
        "sum_alone": alone,
        "at_rest": {
            **_state(loop, bound),
            "steps": steps,
            "for_fragments": loop.surplus,
            "stuck": loop.reasons,
        },
    }


def _state(loop: ClosedLoop, bound: float) -> Document:
    return {
        "machines": loop.machines,
        "without_node": len(loop.waiting),
        "rows_short": loop.unmet,
        "dollars": round(loop.dollars, 3),
        "times_bound": round(loop.dollars / bound, 4),
    }


def main(sizes: str = ",".join(map(str, SIZES)), repetitions: str = "5") -> None:
    """Measure and print."""
    worlds = [measure(int(size), int(repetitions)) for size in sizes.split(",")]
    print(json.dumps({"worlds": worlds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
