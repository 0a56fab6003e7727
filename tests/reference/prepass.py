"""The pre-pass of Phase 1: credits what is there or on order, and chooses every gang's domain.

Why: the only place where existing supply is attributed; Phase 3 reclaims exactly what it leaves unclaimed.
Rules: `engine#crediting`, `engine#gang-supply`, `engine#domain-order`, `engine#gang-crediting`, `engine#consumption`,
`engine#parked-gangs`, `engine#stamps`, `engine#prepass-order`, `engine#acquisition-order`.
"""

from collections.abc import Iterable, Iterator

from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources
from tests.reference.board import Board, Row
from tests.reference.domains import Domain, choose, summary
from tests.reference.supply import bound_to, can_be_got_for, counts_as, in_state, suits, value_for


def prepass(board: Board) -> None:
    """Visit needs by priority, gangs before ordinary ones, then list order; the buckets play no part.

    Rules: `engine#crediting`, `engine#prepass-order`, `engine#acquisition-order`.
    """
    # virtual marks: seen by gangs of this pass only, then forgotten (`engine#consumption`)
    consumed: set[str] = set()
    order = sorted(board.rows, key=lambda row: (-row.need.profile.priority, not row.is_gang, row.place))
    for row in order:
        if row.is_gang:
            credit_gang(board, row, consumed)
        else:
            credit(board, row, on_hand(board, row.need))


def credit(board: Board, row: Row, members: Iterable[Machine]) -> None:
    """Claim members in their order until the total is covered, each for all that it counts as (`engine#crediting`)."""
    remaining = row.need.total
    for machine in members:
        if remaining.is_zero:
            return
        board.claim(machine, row)
        remaining -= counts_as(machine, row.need)


def on_hand(board: Board, need: Need) -> list[Machine]:
    """Unclaimed machines that count for a need without an action, in the order they are credited in.

    Configured, then Configuring, both in keep order, whatever their stamps; then Creating ones by id, which count
    only for the cluster and profile they were ordered for, and for a gang only if ordered for that very gang.
    Rules: `engine#crediting`, `engine#gang-supply`.
    """
    found = [
        *bound_to(board.machines, need.cluster, MachineState.CONFIGURED),
        *bound_to(board.machines, need.cluster, MachineState.CONFIGURING),
        *(
            machine
            for machine in in_state(board.machines, MachineState.CREATING)
            if is_ordered(machine, need)
        ),
    ]
    return [machine for machine in found if board.is_free(machine) and suits(machine, need)]


def is_ordered(machine: Machine, need: Need) -> bool:
    """Whether a Creating machine was ordered for this need (`engine#crediting`, `engine#gang-supply`, `engine#stamps`)."""
    stamp = machine.assigned
    if not stamp.cluster or stamp.cluster != need.cluster:
        return False
    if need.profile.same_key is not None:
        return is_own(machine, need)
    return stamp.fingerprint == need.profile.fingerprint


def is_own(machine: Machine, need: Need) -> bool:
    """Whether the stamp names exactly this gang: fingerprint and group (`engine#gang-supply`)."""
    return machine.assigned.fingerprint == need.profile.fingerprint and machine.assigned.group == need.group


def credit_gang(board: Board, row: Row, consumed: set[str]) -> None:
    """Choose the gang's domain, credit what it has there, mark what it will get there (`engine#gang-supply`)."""
    need = row.need
    creditable = on_hand(board, need)
    acquirable: list[Machine] = []
    if not row.parked:
        acquirable = [machine for machine in free_members(board, need) if machine.id not in consumed]
    domains = gather(need, creditable, acquirable)
    chosen = choose(domains, need.total)
    if chosen is None:
        return  # no domain: nothing is credited, and the whole total goes to acquisition
    row.domain = chosen.value
    row.structurally_satisfiable = chosen.total.covers(need.total)
    row.candidates = summary(domains, need.total)
    members = [machine for machine in creditable if value_of(machine, need) == chosen.value]
    # Incumbents first; the order of collection is kept inside both parts (`engine#gang-crediting`).
    credit(board, row, sorted(members, key=lambda machine: not is_own(machine, need)))
    if not row.parked:
        there = (machine for machine in acquirable if value_of(machine, need) == chosen.value)
        consumed.update(consumption(need, there, board.deficit(row)))


def free_members(board: Board, need: Need) -> Iterator[Machine]:
    """Idle, then Speculative machines in the order they are marked in, not that of acquisition (`engine#consumption`)."""
    for state in (MachineState.IDLE, MachineState.SPECULATIVE):
        pool = [
            machine
            for machine in in_state(board.machines, state)
            if board.is_free(machine) and can_be_got_for(machine, need)
        ]
        if need.profile.pinned_types:
            pool.sort(
                key=lambda machine: (machine.shape.instance_type, machine.shape.price_per_hour, machine.id)
            )
        yield from pool


def gather(need: Need, creditable: Iterable[Machine], acquirable: Iterable[Machine]) -> list[Domain]:
    """Put every member into the domain of its value (`engine#gang-supply`)."""
    domains: dict[str, Domain] = {}

    def joined(machine: Machine) -> Domain:
        value = value_of(machine, need)
        domain = domains.setdefault(value, Domain(value))
        domain.count += 1
        domain.total += counts_as(machine, need)
        return domain

    for machine in creditable:
        domain = joined(machine)
        domain.creditable += counts_as(machine, need)
        if is_own(machine, need):
            domain.own += counts_as(machine, need)
    for machine in acquirable:
        joined(machine)
    return list(domains.values())


def value_of(machine: Machine, need: Need) -> str:
    """The machine's value for the gang's Same key; whatever matches a gang has one (`engine#matching`)."""
    value = value_for(machine, need.profile.same_key or "")
    if value is None:
        raise AssertionError(f"{machine.id} matches a gang and has no value for {need.profile.same_key}")
    return value


def consumption(need: Need, members: Iterable[Machine], remaining: Resources) -> Iterator[str]:
    """Ids of the members that cover the remainder, the one that crosses zero included (`engine#consumption`)."""
    for machine in members:
        if remaining.is_zero:
            return
        yield machine.id
        remaining -= counts_as(machine, need)
