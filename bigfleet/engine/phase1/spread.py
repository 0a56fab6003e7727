"""Strict spread: machines are taken so that the values of one topology key fill up evenly.

Called by: acquisition, for an ordinary need with a spread that forbids scheduling otherwise.
Rules: decision E8: one walk over both states, counts begin at what the need already holds, exhausted values count too.
"""

import numpy as np

from bigfleet.engine.phase1.pools import Pool
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Spread


def pick_spread(phase: Phase1, place: int, spread: Spread, pool: Pool) -> None:
    """Take one machine after the other from the value that is furthest behind, until the need is covered."""
    index = phase.index
    codes = index.values(spread.topology_key).codes
    queues: dict[int, list[int]] = {}
    for machines in (pool.idle, pool.speculative):
        free = phase.free(machines[codes[index.kind[machines]] >= 0])
        here = codes[index.kind[free]]
        by_value = np.argsort(here, kind="stable")  # keeps the pool's order inside each value
        here, free = here[by_value], free[by_value]
        starts = np.flatnonzero(np.diff(here, prepend=-1))
        for start, part in zip(starts.tolist(), np.split(free, starts[1:]), strict=bool(starts.size)):
            queues.setdefault(int(here[start]), []).extend(part.tolist())
    counts = dict.fromkeys(queues, 0)
    for machine in phase.broker.held[place]:
        code = int(codes[index.kind[machine]])
        if code >= 0:
            counts[code] = counts.get(code, 0) + 1
    next_of = dict.fromkeys(queues, 0)
    skew = max(1, spread.max_skew)
    missing = phase.missing[place]
    taken: list[int] = []
    while (missing > 0).any():
        least = min(counts.values(), default=0)
        heads = [
            (*_head(phase, queues[code][next_of[code]]), code)
            for code in queues
            if next_of[code] < len(queues[code]) and counts[code] <= least + skew - 1
        ]
        if not heads:
            break
        code = min(heads)[-1]
        machine = queues[code][next_of[code]]
        next_of[code] += 1
        counts[code] += 1
        taken.append(machine)
        missing = np.maximum(missing - index.capacity[index.kind[machine]], 0)
    phase.broker.propose(place, taken)
    phase.missing[place] = missing


def _head(phase: Phase1, machine: int) -> tuple[bool, float]:
    index = phase.index
    return bool(index.state[machine] != MachineState.IDLE), float(index.price[index.kind[machine]])
