"""Strict spread: machines are taken so that the values of one topology key fill up evenly.

Called by: acquisition, for an ordinary need with a spread that forbids scheduling otherwise.
Rules: decision E8: one walk over both states, counts begin at what the need already holds, exhausted values count too.
"""

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.phase1.pools import Pool
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Spread


def pick_spread(phase: Phase1, place: int, spread: Spread, pool: Pool) -> None:
    """Take one machine after the other from the value that is furthest behind, until the need is covered."""
    index, owner = phase.index, phase.broker.owner
    codes = index.values(spread.topology_key).codes
    queues = pool.by_value(spread.topology_key)
    for queue in queues.values():
        _drop_claimed(queue, owner)
    counts = {code: 0 for code, queue in queues.items() if queue}
    for machine in phase.broker.held[place]:
        code = int(codes[index.kind[machine]])
        if code >= 0:
            counts[code] = counts.get(code, 0) + 1
    skew = max(1, spread.max_skew)
    missing = phase.missing[place]
    while (missing > 0).any():
        least = min(counts.values(), default=0)
        heads = [
            (*_head(phase, queues[code][-1]), code)
            for code, count in counts.items()
            if queues.get(code) and count <= least + skew - 1
        ]
        if not heads:
            break
        code = min(heads)[-1]
        machine = queues[code].pop()
        phase.broker.propose(place, [machine])
        _drop_claimed(queues[code], owner)
        counts[code] += 1
        missing = np.maximum(missing - index.capacity[index.kind[machine]], 0)
    phase.missing[place] = missing


def _drop_claimed(queue: list[int], owner: NDArray[np.int32]) -> None:
    while queue and owner[queue[-1]] >= 0:
        queue.pop()


def _head(phase: Phase1, machine: int) -> tuple[bool, float]:
    index = phase.index
    return bool(index.state[machine] != MachineState.IDLE), float(index.price[index.kind[machine]])
