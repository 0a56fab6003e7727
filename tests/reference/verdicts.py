"""Verdicts: for every need how it fared and the first reason that applies.

Must never: influence an action.
Rules: `engine#phase-1-results`, `engine#verdicts`, `engine#preemption-in-flight`.
"""

from collections.abc import Iterable

from bigfleet.model.decision import SUPPLY_CAP, MatchingSupply, Reason, Unresolved, Verdict
from bigfleet.model.machine import Machine, MachineState
from tests.reference.board import Board, Row
from tests.reference.supply import can_be_got_for, in_state


def verdict(board: Board, row: Row, unresolved: Iterable[Unresolved]) -> Verdict:
    """How one need fared (`engine#verdicts`)."""
    claims = board.claims_of(row)
    deficit = board.deficit(row)
    supply = None if deficit.is_zero else matching_supply(board, row)
    # Joined by place and not by key, which folded classes of different size share (`engine#verdicts`).
    had_victims = any(entry.need == row.place and entry.victims for entry in unresolved)
    return Verdict(
        row.need,
        row.folded_from,
        deficit=deficit,
        claimed=ids(claims),
        bootstrapped=ids(in_state(claims, MachineState.IDLE)),
        provisioned=ids(in_state(claims, MachineState.SPECULATIVE)),
        domain=row.domain,
        structurally_satisfiable=row.structurally_satisfiable,
        parked=row.parked,
        reason=reason(row, supply, bool(claims), had_victims),
        matching_supply=supply,
        same_candidates=row.candidates,
    )


def ids(machines: Iterable[Machine]) -> tuple[str, ...]:
    """Ids in ascending order."""
    return tuple(sorted(machine.id for machine in machines))


def reason(row: Row, supply: MatchingSupply | None, has_claims: bool, had_victims: bool) -> Reason:
    """The first reason that applies (`engine#verdicts`); without a supply count the need is satisfied."""
    if supply is None:
        return Reason.SATISFIED
    if row.is_gang and (not row.structurally_satisfiable or row.parked or row.domain is None):
        return Reason.TOPOLOGY_UNSATISFIABLE
    if not (has_claims or supply.idle or supply.speculative or supply.configured):
        return Reason.NO_MATCHING_SUPPLY
    return Reason.PREEMPTION_EXHAUSTED if had_victims else Reason.PRIORITY_STARVED


def matching_supply(board: Board, row: Row) -> MatchingSupply:
    """Machines of any cluster, claimed or not, that match, of pinned types, each count capped (`engine#verdicts`)."""

    def count(state: MachineState) -> int:
        found = [machine for machine in in_state(board.machines, state) if can_be_got_for(machine, row.need)]
        return min(len(found), SUPPLY_CAP)

    return MatchingSupply(
        idle=count(MachineState.IDLE),
        speculative=count(MachineState.SPECULATIVE),
        configured=count(MachineState.CONFIGURED),
    )
