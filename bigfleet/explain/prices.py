"""Prices: how cheap the next best machine would have to be to be taken instead.

Rules: `engine#pools`; machines are taken by effective cost, Idle ones first.
"""

import numpy as np

from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.fit import FitChecker, FitResult
from bigfleet.explain.fleet_summary import cost_for
from bigfleet.model.machine import MachineState

S = MachineState
_LESS = 0.01


def price_idea(cycle: DecidedCycle, place: int) -> tuple[str, float] | None:
    """A machine that was not needed, and a price at which it should be; None when there is nothing to beat."""
    checker, columns = FitChecker(cycle, place), cycle.columns
    need = checker.need
    for state in (S.SPECULATIVE, S.IDLE):
        taken = columns.records(np.flatnonzero((columns.holder == place) & (columns.state == state)))
        free = [
            group.first
            for group in cycle.groups
            if group.first.state is state and checker.fit(group).result is FitResult.NOT_NEEDED
        ]
        if not taken or not free:
            continue
        dearest = max(cost_for(machine.shape, need) for machine in taken)
        other = min(free, key=lambda machine: (cost_for(machine.shape, need), machine.id))
        risk = cost_for(other.shape, need) - other.shape.price_per_hour
        price = round(dearest - risk - _LESS, 2)
        if 0 <= price < other.shape.price_per_hour:
            return other.id, price
    return None
