"""The machines that needs may acquire, in the order in which they take them.

Called by: acquisition and spread.
Rules: decision-engine 7.8; Idle by price, reclamation penalty, id (decision E5), Speculative by effective cost, id.
"""

from collections.abc import Iterator

import numpy as np

from bigfleet.engine.index import Numbers
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.buckets import PenaltyBucket, upper_bound
from bigfleet.model.costs import effective_cost
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources


class Pool:
    """The machines that needs of one kind may acquire, in the order in which they take them.

    Claims only grow while a cycle runs, so what is claimed once is never looked at again.
    """

    def __init__(self, phase: Phase1, idle: Numbers, speculative: Numbers) -> None:
        self._phase = phase
        self._idle, self._speculative = idle, speculative
        self._by_value: dict[str, dict[int, list[int]]] = {}

    def idle(self) -> Numbers:
        """Idle machines that nobody has claimed."""
        self._idle = self._phase.free(self._idle)
        return self._idle

    def speculative(self) -> Numbers:
        """Speculative machines that nobody has claimed."""
        self._speculative = self._phase.free(self._speculative)
        return self._speculative

    def by_value(self, key: str) -> dict[int, list[int]]:
        """Machines by their value of a label key, Idle before Speculative, the next one to take last.

        Claimed ones may be among them; whoever takes from the end drops those.
        """
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            for machines in (self.speculative(), self.idle()):
                for code, part in _split(
                    machines[::-1],
                    self._phase.index.values(key).codes[self._phase.index.kind[machines[::-1]]],
                ):
                    found.setdefault(code, []).extend(part)
        return found


def _split(machines: Numbers, codes: Numbers) -> Iterator[tuple[int, list[int]]]:
    """Machines by code, those without one left out, the order kept within each."""
    by_code = np.argsort(codes, kind="stable")
    by_code = by_code[codes[by_code] >= 0]
    codes, machines = codes[by_code], machines[by_code]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for start, part in zip(starts.tolist(), np.split(machines, starts[1:]), strict=bool(starts.size)):
        yield int(codes[start]), part.tolist()


class Pools:
    """Pools by what makes them differ: requirements, unit and penalty bucket."""

    def __init__(self, phase: Phase1) -> None:
        self._phase, index = phase, phase.index
        self._index = index
        idle = index.in_state(MachineState.IDLE)
        price = index.price[index.kind[idle]]
        self._idle = idle[np.lexsort((idle, index.reclamation_penalty[idle], price))]
        self._speculative = index.in_state(MachineState.SPECULATIVE)
        self._by_cost: dict[PenaltyBucket, Numbers] = {}
        self._pools: dict[tuple[str, Resources, PenaltyBucket], Pool] = {}

    def of(self, need: Need) -> Pool:
        """The pool of a need."""
        bucket = need.profile.interruption_bucket
        name = (need.profile.requirements_text, need.unit, bucket)
        found = self._pools.get(name)
        if found is None:
            flags, kind = self._index.acquirable(need), self._index.kind
            by_cost = self._ordered(bucket)
            idle = self._idle[flags[kind[self._idle]]]
            found = self._pools[name] = Pool(self._phase, idle, by_cost[flags[kind[by_cost]]])
        return found

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
