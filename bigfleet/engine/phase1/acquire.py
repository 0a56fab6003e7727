"""Acquisition: what existing machines leave open is filled from Idle, then from Speculative.

Why: the second half of Phase 1; each claim made here becomes a Bootstrap or a Provision.
Called by: the cycle, after the pre-pass.
Must never: depend on anything but precedence, gangs first among equals, and list order (decisions E1, E16).
Rules: decision-engine 7.8 to 7.11; Idle order by decision E5, spread by E8.
"""

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.index import MachineIndex, Numbers
from bigfleet.engine.phase1.domains import NO_DOMAIN
from bigfleet.engine.phase1.pools import Pools
from bigfleet.engine.phase1.spread import pick_spread
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.need import Need
from bigfleet.model.profile import Spread, WhenUnsatisfiable


def run_acquisition(phase: Phase1) -> None:
    """Serve the needs that miss something, one after the other."""
    needs = [item.need for item in phase.needs]
    open_needs = [place for place in range(len(needs)) if (phase.missing[place] > 0).any()]

    def rank(place: int) -> tuple[int, int, int, bool, int]:
        priority, interruption, reclamation = needs[place].profile.precedence
        return (-priority, -interruption, -reclamation, needs[place].profile.same_key is None, place)

    pools = Pools(phase)
    for place in sorted(open_needs, key=rank):
        need = needs[place]
        spread = strict_spread(need)
        if need.profile.same_key is not None:
            _acquire_gang(phase, pools, place)
        elif spread is not None:
            pick_spread(phase, place, spread, pools.of(need))
        else:
            pool = pools.of(need)
            phase.take(place, pool.idle())
            if (phase.missing[place] > 0).any():
                phase.take(place, pool.speculative())


def strict_spread(need: Need) -> Spread | None:
    """The one spread that is enforced: the first in canonical order that forbids scheduling otherwise."""
    strict = (
        item for item in need.profile.spreads if item.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    )
    return next(strict, None)


def _acquire_gang(phase: Phase1, pools: Pools, place: int) -> None:
    if phase.parked[place]:
        return
    index, need = phase.index, phase.needs[place].need
    key = need.profile.same_key
    assert key is not None  # noqa: S101  the caller sorts gangs from ordinary needs
    codes = index.values(key).codes
    pool = pools.of(need)
    domain = phase.domain[place]
    for machines in (pool.idle, pool.speculative):
        free = machines()
        free = free[codes[index.kind[free]] >= 0]
        here = codes[index.kind[free]]
        if domain == NO_DOMAIN and (phase.missing[place] > 0).any():
            chosen = _fallback_domain(index, free, here, phase.missing[place])
            taken = phase.take(place, free[here == chosen])
            # What Idle yielded binds the Speculative step.
            domain = chosen if taken.size else NO_DOMAIN
        else:
            phase.take(place, free[here == domain])


def _fallback_domain(index: MachineIndex, free: Numbers, codes: Numbers, missing: NDArray[np.generic]) -> int:
    """Where a gang without a domain looks: a value that covers it, cheapest first machine; else the fullest."""
    best: tuple[object, ...] | None = None
    chosen = NO_DOMAIN
    for code in np.unique(codes).tolist():
        machines = free[codes == code]
        covers = bool((index.capacity_of(machines).sum(axis=0) >= missing).all())
        price = float(index.price[index.kind[machines[0]]])
        rank = (False, 0, price, code) if covers else (True, -machines.size, price, code)
        if best is None or rank < best:
            best, chosen = rank, code
    return chosen
