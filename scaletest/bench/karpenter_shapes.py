"""Diverse pods in the shapes of Karpenter's scheduling benchmark: which of them get a node, at what price, and what deciding costs.

`python -m scaletest.bench.karpenter_shapes 1000,5000,10000` prints one JSON object. Every pod takes the way it takes in a cluster, in
this one process: the pod controller's core makes its request, the operator's core adds it up, the roll-up is written and read as
on the wire, and the engine decides on 400 types of machines. CPU is counted from the list of pods to the list of actions.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bigfleet.bench.meter import BenchCase, BenchMeter
from bigfleet.engine.planner import Planner
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import Inventory, InventorySnapshot
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.situation import IdleHolds
from bigfleet.operator.core.contribution import Contributions
from bigfleet.operator.core.request_status import view_of
from bigfleet.operator.core.rollup import KeptDemand
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS
from bigfleet.podcontroller.core.request_plan import request_document, request_names
from bigfleet.podcontroller.core.views import pod_view
from bigfleet.v1alpha1.capacity_pb2 import CapacityNeed, ClusterCapacityNeeds
from bigfleet.wire.operator_frames import encoded_row
from bigfleet.wire.rollups import RollupReader
from bigfleet.workload.worlds import START
from scaletest.bench.first_fit import RESOURCES, FirstFit, Placed, placed_pod
from scaletest.bench.karpenter_pods import diverse_pods, machine_types, price_bound

CLUSTER: Final = "bench"
SIZES: Final = (1_000, 5_000, 10_000)
_ALL_ROWS: Final = 1 << 30

Document = dict[str, Any]


def demand_of(pods: Sequence[Document]) -> tuple[Need, ...]:
    """Add up pods as pod controller and operator do, and read the roll-up as a shard does."""
    project = pod_view(NO_DEFAULTS, exclude_daemonsets=True)
    contributions, kept = Contributions(), KeptDemand()
    for pod in pods:
        view = project(pod)
        if view is None:
            raise ValueError(f"pod {pod['metadata']['name']}: left out by the pod controller")
        request = request_document(view, request_names(view)[0])
        metadata = request["metadata"]
        kept.put(view.key, view_of(metadata, None, contributions.of(metadata, request["spec"])))
    if any(kept.skipped.values()):
        raise ValueError(f"requests that the operator leaves out: {kept.skipped}")
    encoded = {
        row: encoded_row(row.profile, added_up.total, added_up.unit, row.group)
        for row, added_up in kept.take_changed(_ALL_ROWS)
        if added_up is not None
    }
    rows = [CapacityNeed.FromString(encoded[row]) for row in kept.order()]
    frame = ClusterCapacityNeeds(cluster_id=CLUSTER, timestamp_unix_nanos=1, needs=rows)
    return RollupReader(CLUSTER).read(frame.SerializeToString()).needs


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


@dataclass(frozen=True, slots=True)
class Bought:
    """The machines of one decision, and what they hold."""

    machines: list[Machine]
    left: list[Placed]
    fit: FirstFit

    @property
    def dollars(self) -> float:
        """What all machines cost an hour."""
        return sum(machine.shape.price_per_hour for machine in self.machines)


def bought(decision: Decision, inventory: Inventory, pods: Sequence[Placed]) -> Bought:
    """Carry out a decision at once, and place the pods."""
    unmet = [verdict.need.key for verdict in decision.verdicts if verdict.reason != "SATISFIED"]
    if unmet or any(action.kind is not ActionKind.PROVISION for action in decision.actions):
        raise ValueError(f"not all demand is bought: {unmet}")
    machines = [inventory.get(action.machine_id) for action in decision.actions]
    fit = FirstFit()
    fit.add(machines)
    return Bought(machines, fit.place(pods), fit)


def measure(count: int, repetitions: int) -> Document:
    """All figures of one number of pods."""
    pods, inventory = diverse_pods(count), machine_types()
    snapshot = inventory.snapshot()
    timing = BenchMeter(repetitions).measure(BenchCase(lambda: decision_on(demand_of(pods), snapshot)))
    needs = demand_of(pods)
    placed = [placed_pod(pod) for pod in pods]
    first = bought(decision_on(needs, snapshot), inventory, placed)
    cores, memory, number = (np.sum([pod.amounts for pod in placed], axis=0) / 1000).tolist()
    bound = price_bound(cores, memory, number)
    return {
        "pods": count,
        "sum": dict(zip(RESOURCES, (cores, memory, number), strict=True)),
        "rows": len(needs),
        "cpu_ms": round(sorted(timing.cpu_ms)[len(timing.cpu_ms) // 2], 1),
        "units": round(timing.units, 3),
        "bound_dollars": round(bound, 3),
        "sum_alone": {
            "machines": len(first.machines),
            "without_node": len(first.left),
            "dollars": round(first.dollars, 3),
            "times_bound": round(first.dollars / bound, 4),
        },
    }


def main(sizes: str = ",".join(map(str, SIZES)), repetitions: str = "5") -> None:
    """Measure and print."""
    worlds = [measure(int(size), int(repetitions)) for size in sizes.split(",")]
    print(json.dumps({"worlds": worlds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
