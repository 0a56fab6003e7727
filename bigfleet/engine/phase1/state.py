"""What Phase 1 works with: demand, machines, claims, and what is still missing for each need.

Called by: the pre-pass and acquisition fill it, verdicts and the later phases read it.
"""

from collections.abc import Sequence

import numpy as np

from bigfleet.engine.amounts import Vector, first_covering
from bigfleet.engine.fold import NormalisedNeed
from bigfleet.engine.index import MachineIndex, Numbers
from bigfleet.engine.phase1.broker import Broker
from bigfleet.engine.phase1.domains import NO_DOMAIN
from bigfleet.model.decision import DomainCoverage

_FIRST_LOOK = 256  # most needs are covered by a few machines, so sums over all candidates would be wasted


class Phase1:
    """One pass of Phase 1 while it runs, and its outcome."""

    def __init__(self, index: MachineIndex, needs: Sequence[NormalisedNeed], parked: Sequence[bool]) -> None:
        self.index, self.needs, self.parked = index, needs, parked
        self.broker = Broker(len(index), [item.need.profile.precedence for item in needs])
        self.missing: list[Vector] = [index.scale.vector(item.need.total) for item in needs]
        self.domain: list[int] = [NO_DOMAIN] * len(needs)
        self.structural: list[bool] = [False] * len(needs)
        self.candidates: list[tuple[DomainCoverage, ...]] = [()] * len(needs)

    def free(self, machines: Numbers) -> Numbers:
        """Those machines that nobody has claimed."""
        return machines[self.broker.owner[machines] < 0]

    def take(self, need: int, machines: Numbers) -> Numbers:
        """Claim machines in this order until the need misses nothing more; return those taken."""
        wanted = self.missing[need]
        if not (wanted > 0).any() or not machines.size:
            return machines[:0]
        look = _FIRST_LOOK
        while True:
            capacities = self.index.capacity_of(machines[:look])
            count = first_covering(capacities, wanted)
            if count < len(capacities) or look >= machines.size or _covers(capacities, wanted):
                break
            look *= 16
        taken = machines[:count]
        self.broker.propose(need, taken.tolist())
        self.missing[need] = np.maximum(wanted - capacities[:count].sum(axis=0), 0)
        return taken


def _covers(capacities: Vector, wanted: Vector) -> bool:
    return bool((capacities.sum(axis=0) >= wanted).all())
