"""Acquisition in Phase 1: fills what the pre-pass left from Idle, then Speculative machines.

Must never: displace a claim, or take a machine outside of a gang's recorded domain.
Rules: `engine#acquisition-order`, `engine#ordinary-picker`, `engine#gang-picker`, `engine#spread-picker`,
`engine#commit-broker`, `engine#prepass-order`.
Read literally: the deficit of the fallback's choice is what is missing at that step.
"""

from collections.abc import Iterable

from bigfleet.model.machine import Machine
from bigfleet.model.profile import Spread, WhenUnsatisfiable
from bigfleet.model.resources import ZERO, Resources
from tests.reference.board import Board, Row
from tests.reference.prepass import value_of
from tests.reference.spread import fill_evenly
from tests.reference.supply import cost_of, counts_as, idle_pool, speculative_pool


def acquire(board: Board) -> None:
    """Serve needs one after the other by precedence, gangs before ordinary ones, then list order.

    Rules: `engine#acquisition-order`, `engine#prepass-order`.
    """
    for row in sorted(board.rows, key=in_precedence):
        if board.deficit(row).is_zero:
            continue
        spread = strict_spread(row)
        if row.is_gang:  # Same beats spread when both are present
            fill_gang(board, row)
        elif spread is not None:
            fill_evenly(board, row, spread)
        else:
            fill(board, row, idle_pool(board.machines, row.need))
            fill(board, row, speculative_pool(board.machines, row.need))


def in_precedence(row: Row) -> tuple[int, int, int, bool, int]:
    """Sort key: the triple descending, gangs first, list order."""
    priority, interruption, reclamation = row.need.profile.precedence
    return (-priority, -interruption, -reclamation, not row.is_gang, row.place)


def strict_spread(row: Row) -> Spread | None:
    """The one spread that is enforced: the first strict one in canonical order (`engine#spread-picker`)."""
    strict = WhenUnsatisfiable.DO_NOT_SCHEDULE
    return next((item for item in row.need.profile.spreads if item.when_unsatisfiable is strict), None)


def fill(board: Board, row: Row, pool: Iterable[Machine]) -> list[Machine]:
    """Take unclaimed machines in pool order until the need is covered; return what was taken (`engine#ordinary-picker`)."""
    taken: list[Machine] = []
    remaining = board.deficit(row)
    for machine in pool:
        if remaining.is_zero:
            break
        if board.is_free(machine):
            board.claim(machine, row)
            taken.append(machine)
            remaining -= counts_as(machine, row.need)
    return taken


def fill_gang(board: Board, row: Row) -> None:
    """Fill a gang inside one domain: the recorded one, else the fallback's (`engine#gang-picker`)."""
    if row.parked:
        return
    domain = row.domain
    for pool in (idle_pool(board.machines, row.need), speculative_pool(board.machines, row.need)):
        if board.deficit(row).is_zero:
            return
        eligible = [machine for machine in pool if board.is_free(machine)]
        here = fallback(eligible, row, board.deficit(row)) if domain is None else domain
        taken = fill(board, row, (machine for machine in eligible if value_of(machine, row.need) == here))
        if taken:
            # the Speculative step stays where the Idle one found something (`engine#gang-picker`)
            domain = here


def fallback(eligible: Iterable[Machine], row: Row, deficit: Resources) -> str | None:
    """The value a gang without a recorded domain takes from; None when nothing is eligible (`engine#gang-picker`)."""
    by_value: dict[str, list[Machine]] = {}
    for machine in eligible:
        by_value.setdefault(value_of(machine, row.need), []).append(machine)

    def order(value: str) -> tuple[bool, int, float, str]:
        members = by_value[value]
        covers = sum((counts_as(machine, row.need) for machine in members), ZERO).covers(deficit)
        first_cost = cost_of(members[0], row.need.profile)
        return (not covers, 0 if covers else -len(members), first_cost, value)

    return min(by_value, key=order, default=None)
