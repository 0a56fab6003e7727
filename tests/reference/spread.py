"""Strict spread: one walk over Idle and Speculative machines that keeps the groups even.

Rules: `engine#spread-picker`, which replaces the two calls of `engine#spread-picker`.
Read literally: a machine credited to the need that has no value for the topology key is in no group.
"""

from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.profile import Spread
from tests.reference.board import Board, Row
from tests.reference.supply import cost_of, idle_pool, speculative_pool, value_for


def fill_evenly(board: Board, row: Row, spread: Spread) -> None:
    """Take machine after machine from the groups that may grow, until covered or none may (`engine#spread-picker`)."""
    left: dict[str, list[Machine]] = {}
    count: dict[str, int] = {}
    for machine in board.claims_of(row):
        value = value_for(machine, spread.topology_key)
        if value is not None:
            count[value] = count.get(value, 0) + 1
    for machine in (*idle_pool(board.machines, row.need), *speculative_pool(board.machines, row.need)):
        value = value_for(machine, spread.topology_key)
        if value is not None and board.is_free(machine):
            left.setdefault(value, []).append(machine)
            count.setdefault(value, 0)

    while not board.deficit(row).is_zero:
        fewest = min(count.values(), default=0)  # exhausted groups hold the others back
        highest = fewest + max(1, spread.max_skew) - 1
        allowed = [value for value in left if left[value] and count[value] <= highest]
        if not allowed:
            return
        value = min(allowed, key=lambda value: next_order(left[value][0], row, value))
        board.claim(left[value].pop(0), row)
        count[value] += 1


def next_order(machine: Machine, row: Row, value: str) -> tuple[bool, float, str]:
    """Whose turn it is among allowed groups: Idle before Speculative, effective cost, value (`engine#spread-picker`)."""
    return (machine.state is MachineState.SPECULATIVE, cost_of(machine, row.need.profile), value)
