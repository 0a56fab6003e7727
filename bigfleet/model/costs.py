"""The formulas that turn prices, risks, penalties and priorities into orders; none is configurable.

Why: what a machine really costs a workload, whom to preempt first and how long it may take are one formula each,
printed in the docs from here.
Rules: `engine#matching-and-formulas`; the victim cost is `engine#victim-cost`.
"""

from bigfleet.model.machine import Machine

RECLAIM_GRACE_S = 600

DRAIN_GRACE_BY_GAP: tuple[tuple[int, int], ...] = ((900_000, 10), (500_000, 30), (100_000, 120))
"""(priority gap that must be exceeded, seconds a node gets to empty itself), widest gap first."""
_DRAIN_GRACE_OTHERWISE_S = 600


def effective_cost(price_per_hour: float, interruption_probability: float, penalty: float) -> float:
    """Dollars per hour once the risk of losing the machine is priced in."""
    if interruption_probability == 0:
        # and not price + 0 × ∞ for a pinned workload, which is no number (`engine#effective-cost`)
        return price_per_hour
    return price_per_hour + interruption_probability * max(0.0, penalty)


def drain_grace_s(preemptor_priority: int, victim_priority: int) -> int:
    """Seconds a preempted node gets, shorter the wider the gap."""
    gap = preemptor_priority - victim_priority
    return next((grace for above, grace in DRAIN_GRACE_BY_GAP if gap > above), _DRAIN_GRACE_OTHERWISE_S)


def victim_cost(machine: Machine) -> float:
    """What taking this machine away costs; the lowest among machines of strictly lower priority goes first."""
    assigned = machine.assigned
    grace_hours = machine.drain_grace_remaining_s / 3600
    return (
        assigned.interruption_penalty
        + assigned.reclamation_penalty
        + grace_hours * machine.shape.price_per_hour
    )
