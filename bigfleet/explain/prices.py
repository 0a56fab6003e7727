"""Prices: how cheap the next best machine would have to be to be taken instead.

Rules: `engine#acquisition-order`; Idle machines are taken by price, Speculative ones by effective cost, Idle ones first.
"""

import numpy as np

from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.fit import FitChecker, FitResult
from bigfleet.explain.fleet_summary import cost_for
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need

S = MachineState
_LESS = 0.01


def price_idea(cycle: DecidedCycle, place: int) -> tuple[str, float] | None:
    """A machine that was not needed, and a price at which it should be; None when there is nothing to beat."""
    checker, columns = FitChecker(cycle, place), cycle.columns
    for state in (S.SPECULATIVE, S.IDLE):
        taken = columns.records(np.flatnonzero((columns.holder == place) & (columns.state == state)))
        free = [
            group.first
            for group in cycle.groups
            if group.first.state is state and checker.fit(group).result is FitResult.NOT_NEEDED
        ]
        if not taken or not free:
            continue
        dearest = max(_cost(machine, checker.need) for machine in taken)
        other = min(free, key=lambda machine: (_cost(machine, checker.need), machine.id))
        risk = _cost(other, checker.need) - other.shape.price_per_hour
        price = round(dearest - risk - _LESS, 2)
        if 0 <= price < other.shape.price_per_hour:
            return other.id, price
    return None


def _cost(machine: Machine, need: Need) -> float:
    shape = machine.shape
    return shape.price_per_hour if machine.state is S.IDLE else cost_for(shape, need)
