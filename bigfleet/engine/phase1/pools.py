"""The machines that needs may acquire, in the order in which they take them.

Called by: acquisition and spread.
Rules: decision-engine 7.8; Idle by price, reclamation penalty, id (decision E5), Speculative by effective cost, id.
"""

from dataclasses import dataclass

import numpy as np

from bigfleet.engine.index import MachineIndex, Numbers
from bigfleet.model.buckets import PenaltyBucket, upper_bound
from bigfleet.model.costs import effective_cost
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need


@dataclass(frozen=True, slots=True)
class Pool:
    """The machines a profile may acquire, in the order in which it takes them."""

    idle: Numbers
    speculative: Numbers


class Pools:
    """Orders shared by all needs of a kind: one over Idle, one over Speculative per penalty bucket."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        idle = index.in_state(MachineState.IDLE)
        price = index.price[index.kind[idle]]
        self._idle = idle[np.lexsort((idle, index.reclamation_penalty[idle], price))]
        self._speculative = index.in_state(MachineState.SPECULATIVE)
        self._by_cost: dict[PenaltyBucket, Numbers] = {}

    def of(self, need: Need) -> Pool:
        """The pool of a need, claimed machines included."""
        flags = self._index.acquirable(need)
        by_cost = self._ordered(need.profile.interruption_bucket)
        kind = self._index.kind
        return Pool(self._idle[flags[kind[self._idle]]], by_cost[flags[kind[by_cost]]])

    def _ordered(self, bucket: PenaltyBucket) -> Numbers:
        found = self._by_cost.get(bucket)
        if found is None:
            index, penalty = self._index, upper_bound(bucket)
            prices, risks = index.price.tolist(), index.probability.tolist()
            costs = np.array(
                [effective_cost(price, risk, penalty) for price, risk in zip(prices, risks, strict=True)]
            )
            machines = self._speculative
            found = self._by_cost[bucket] = machines[np.lexsort((machines, costs[index.kind[machines]]))]
        return found
