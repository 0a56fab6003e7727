"""The diverse pods in a cluster step by step: what is asked for beyond the sum until every pod has a node, and nothing moves any more.

Why: a first fit of the sum's machines says how many pods wait; what matters to an adopter is where that ends, and at what price.
The demand, the loop for fragments, the roll-up and the engine are those of production; machines join and leave at once, and pods are
placed by first fit.
Must never: let a step pass in which something moved without looking at the cluster again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bigfleet.engine.planner import Planner
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Reason
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import UNASSIGNED, HostRef, Machine, MachineState
from bigfleet.model.need import Need, assignment_of
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import HOST_NAME_KEY, INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.model.resources import Resources
from bigfleet.model.situation import IdleHolds
from bigfleet.operator.core.fragment_terms import Extra, FragmentRules, RowDemand, Unplaced
from bigfleet.operator.core.fragments import Fragments
from bigfleet.operator.core.rollup import SurplusKey
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Row, Workload
from bigfleet.workload.worlds import START
from scaletest.bench.first_fit import FirstFit, Placed
from scaletest.bench.karpenter_demand import CLUSTER, ClusterDemand

STEP_S: Final = 15.0
QUIET_STEPS: Final = 40
MOST_STEPS: Final = 240
PROVIDER: Final = "bench"
_LOSES: Final = (ActionKind.RECLAIM, ActionKind.PREEMPT)

Document = dict[str, Any]


@dataclass(slots=True)
class Waiting:
    """A pod without a node, and since when the scheduler says so."""

    pod: Placed
    since_s: float


class ClosedLoop:
    """One cluster and its shard, moved on in steps."""

    def __init__(self, inventory: Inventory, demand: ClusterDemand, pods: Sequence[Placed]) -> None:
        self.now_s, self.fit = START, FirstFit()
        self.waiting = {pod.name: Waiting(pod, START) for pod in pods}
        self.started = self.surplus = self.unmet = 0
        self.reasons: dict[str, int] = {}
        """Of the last look: how many pods are stuck, and why no more is asked for them."""
        self._inventory, self._demand = inventory, demand
        self._sums = {
            Row(row.profile, row.group): RowDemand(total, unit)
            for row, (total, unit) in demand.sums().items()
        }
        self._planner, self._table = Planner(), NeedsTable()
        self._rooms = Rooms()
        self._rules = FragmentRules()
        self._fragments = Fragments(self._rules, self._rooms)
        self._workloads: dict[tuple[Row, Resources], Workload] = {}
        self._bound: dict[str, Machine] = {}
        self._shard()

    @property
    def dollars(self) -> float:
        """What all machines of the cluster cost an hour."""
        return sum(machine.shape.price_per_hour for machine in self._bound.values())

    @property
    def machines(self) -> int:
        """How many machines the cluster has."""
        return len(self._bound)

    def run(self) -> int | None:
        """Go on until nothing moved for a while; return after how many steps the last thing moved, None if things go on moving."""
        last = 0
        for step in range(1, MOST_STEPS + 1):
            if self._step():
                last = step
            if step - last >= QUIET_STEPS:
                return last
        return None

    def _step(self) -> bool:
        self.now_s += STEP_S
        answer = self._fragments.look(
            self.now_s,
            self._sums,
            [Unplaced(name, self._workload(one.pod), one.since_s) for name, one in self.waiting.items()],
            (),
        )
        self.reasons = {why.value: count for why, count in answer.stuck.items()}
        self.surplus = sum(extra.machines for extra in answer.extra.values())
        changed = self._demand.put_surplus(_surplus(answer.extra))
        return self._shard() or changed

    def _shard(self) -> bool:
        """Decide and carry out until there is nothing to do; return whether there was anything."""
        moved = False
        while actions := self._decide():
            moved = True
            for action, need in actions:
                self._carry_out(action, need)
            self._schedule()
        return moved

    def _decide(self) -> list[tuple[Action, Need | None]]:
        self._table.replace(CLUSTER, self._demand.needs())
        decision = self._planner.decide(
            self._inventory.snapshot(),
            self._table.demand(),
            parked=frozenset(),
            reported_clusters=None,
            holds=IdleHolds(on_demand_s=0, spot_s=0),
            now=self.now_s,
        )
        listed = self._table.demand().rows
        self.unmet = sum(verdict.reason is not Reason.SATISFIED for verdict in decision.verdicts)
        return [(action, None if action.need is None else listed[action.need]) for action in decision.actions]

    def _carry_out(self, action: Action, need: Need | None) -> None:
        self.started += action.kind is not ActionKind.DELETE
        machine = self._inventory.get(action.machine_id)
        if action.kind in _LOSES:
            self._leave(machine)
            machine = replace(
                machine, state=MachineState.IDLE, cluster="", assigned=UNASSIGNED, idle_since=None
            )
        elif action.kind is ActionKind.DELETE:
            machine = replace(machine, state=MachineState.SPECULATIVE, host=HostRef(), idle_since=None)
        elif need is not None:
            machine = replace(
                machine,
                state=MachineState.CONFIGURED,
                host=HostRef(PROVIDER, machine.id),
                cluster=CLUSTER,
                assigned=assignment_of(need),
                idle_since=None,
            )
            self._join(machine)
        self._inventory.adopt_many([(machine, 0)], self.now_s)

    def _join(self, machine: Machine) -> None:
        self._bound[machine.id] = machine
        self.fit.add([machine])
        labels = {
            INSTANCE_TYPE_KEY: machine.shape.instance_type,
            ZONE_KEY: machine.shape.zone,
            HOST_NAME_KEY: machine.id,
        }
        capacity = machine.shape.with_pods
        self._rooms.put_node(NodeFacts(machine.id, machine.id, labels, capacity, capacity), self.now_s)

    def _leave(self, machine: Machine) -> None:
        del self._bound[machine.id]
        for pod in self.fit.remove(machine.id):
            self._rooms.drop_pod(pod.name)
            self.waiting[pod.name] = Waiting(pod, self.now_s)
        self._rooms.drop_node(machine.id)

    def _schedule(self) -> None:
        left = {pod.name for pod in self.fit.place([one.pod for one in self.waiting.values()])}
        for name in [name for name in self.waiting if name not in left]:
            pod = self.waiting.pop(name).pod
            self._rooms.put_pod(name, self._workload(pod), self.fit.node_of[name])

    def _workload(self, pod: Placed) -> Workload:
        row, requests = self._demand.of_pod(pod.name)
        key = (Row(row.profile, row.group), requests)
        return self._workloads.setdefault(key, Workload(key[0], "", requests))


def _surplus(extra: Mapping[Row, Extra]) -> dict[SurplusKey, Resources]:
    return {
        SurplusKey(row.profile, row.group, more.size, int(more.for_fragments)): more.total
        for row, more in extra.items()
    }
