"""Why a need fares as it does: what it took, what was next best, what was refused and why.

Why: the one question everybody has who waits for machines.
Called by: `bigfleet explain`, the shard's insight service, the dashboard.
Must never: leave a machine out. What is chosen and what is refused add up to the fleet.
Rules: dashboard 6.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from bigfleet.explain.case import Case, Group
from bigfleet.explain.changes import Proposal
from bigfleet.explain.notes import Notes, RankedDomain, ranked
from bigfleet.explain.preemption import Preemption, preemption_of
from bigfleet.explain.standing import CHOSEN, Answer, Judge, Standing, step_of
from bigfleet.model.buckets import upper_bound
from bigfleet.model.costs import effective_cost
from bigfleet.model.decision import Verdict
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources

EXAMPLES = 5
"""How many machines of a class are named."""
COMPETITORS = 10
REFUSALS_SHOWN = 50
"""How many refusals of one standing are told one by one."""

S = MachineState
_STEPS = (S.CONFIGURED, S.CONFIGURING, S.CREATING, S.IDLE, S.SPECULATIVE)
_HOW_ORDER = ("kept", "on order", "bootstrapped", "provisioned", Standing.PREEMPTED, Standing.IN_FLIGHT)
_STANDINGS = tuple(Standing)


@dataclass(frozen=True, slots=True)
class MachineClass:
    """Machines that are the same to everybody who pays for them."""

    instance_type: str
    zone: str
    capacity_type: str
    state: str
    price_per_hour: float
    interruption_probability: float
    effective_cost: float
    """Price plus what the risk of losing the machine is worth to this need; infinite where it must not be lost."""
    how: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Machines that the need did not get, for one reason."""

    standing: Standing
    detail: str
    count: int
    examples: tuple[str, ...]
    needs: tuple[int, ...] = ()  # numbers of the need that claims them
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Competitor:
    """A need that holds machines which this one could use."""

    numbers: tuple[int, ...]
    cluster: str
    group: str
    priority: int
    relation: str
    machines: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way to the need's total."""

    name: str
    fitting: int
    taken: int
    missing: Resources
    """What is missing after it."""


@dataclass(frozen=True, slots=True)
class NeedExplanation:
    """Everything there is to say about a need in one cycle."""

    place: int
    numbers: tuple[int, ...]
    verdict: Verdict
    machines: int
    open_after_preemption: Resources
    steps: tuple[Step, ...]
    chosen: tuple[MachineClass, ...]
    next_best: MachineClass | None
    refusals: tuple[Refusal, ...]
    competitors: tuple[Competitor, ...]
    domains: tuple[RankedDomain, ...]
    preemption: Preemption | None
    proposals: tuple[Proposal, ...] = field(default=())

    @property
    def need(self) -> Need:
        """The need itself, folded if it was."""
        return self.verdict.need


def explain_need(
    case: Case, place: int, notes: Notes | None = None, proposals: Iterable[Proposal] = ()
) -> NeedExplanation:
    """Explain how the need at a place of the normalised demand fares."""
    judge = Judge(case, place)
    answers = [(judge.answer(group), group) for group in case.seen_by(place)]
    return NeedExplanation(
        place=place,
        numbers=case.numbers(place),
        verdict=case.verdict(place),
        machines=len(case.machines),
        open_after_preemption=case.open_after_preemption(place),
        steps=_steps(judge, answers),
        chosen=_chosen(judge.need, answers),
        next_best=_next_best(judge.need, answers),
        refusals=_refusals(case, judge, answers),
        competitors=_competitors(case, answers),
        domains=ranked(case.verdict(place), None if notes is None else notes.domains.get(place)),
        preemption=preemption_of(case, place),
        proposals=tuple(proposals),
    )


def cost_for(machine: Machine, need: Need) -> float:
    """What a machine really costs a need by the hour."""
    shape = machine.shape
    penalty = upper_bound(need.profile.interruption_bucket)
    return effective_cost(shape.price_per_hour, shape.interruption_probability, penalty)


def _kind(machine: Machine) -> tuple[object, ...]:
    """What is the same on machines of one class."""
    shape = machine.shape
    return (
        *(machine.state, shape.instance_type, shape.zone, shape.capacity_type),
        *(shape.price_per_hour, shape.interruption_probability),
    )


def _examples(groups: Sequence[Group]) -> tuple[str, ...]:
    """The first machines by id of some groups."""
    return tuple(sorted(machine_id for group in groups for machine_id in group.ids[:EXAMPLES])[:EXAMPLES])


def _class(machine: Machine, need: Need, how: str, groups: Sequence[Group]) -> MachineClass:
    shape = machine.shape
    return MachineClass(
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=shape.capacity_type.label,
        state=machine.state.label,
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        effective_cost=cost_for(machine, need),
        how=how,
        count=sum(group.size for group in groups),
        examples=_examples(groups),
    )


def _chosen(need: Need, answers: Iterable[tuple[Answer, Group]]) -> tuple[MachineClass, ...]:
    found: dict[tuple[object, ...], tuple[Machine, str, list[Group]]] = {}
    for answer, group in answers:
        if answer.standing in CHOSEN:
            how = answer.detail if answer.standing is Standing.TAKEN else answer.standing.value
            found.setdefault((how, *_kind(group.first)), (group.first, how, []))[2].append(group)
    classes = [_class(machine, need, how, groups) for machine, how, groups in found.values()]
    return tuple(
        sorted(classes, key=lambda item: (_HOW_ORDER.index(item.how), item.effective_cost, item.examples))
    )


def _next_best(need: Need, answers: Iterable[tuple[Answer, Group]]) -> MachineClass | None:
    """The machine that would be taken next if the need wanted more and could have it."""
    waiting = (Standing.NOT_NEEDED, Standing.PARKED, Standing.SPREAD_LIMIT)
    free = [
        group
        for answer, group in answers
        if answer.standing in waiting and group.first.state in (S.IDLE, S.SPECULATIVE)
    ]
    if not free:
        return None

    def order(group: Group) -> tuple[bool, float, float, str]:
        machine = group.first
        if machine.state is S.IDLE:
            return (False, machine.shape.price_per_hour, machine.assigned.reclamation_penalty, group.ids[0])
        return (True, cost_for(machine, need), 0.0, group.ids[0])

    best = min(free, key=order)
    how, wanted = f"would be {step_of(best.first)}", _kind(best.first)
    return _class(best.first, need, how, [group for group in free if _kind(group.first) == wanted])


def _refusals(case: Case, judge: Judge, answers: Iterable[tuple[Answer, Group]]) -> tuple[Refusal, ...]:
    found: dict[Answer, list[Group]] = {}
    for answer, group in answers:
        if answer.standing not in CHOSEN:
            found.setdefault(answer, []).append(group)
    refusals = [
        Refusal(
            standing=answer.standing,
            detail=answer.detail,
            count=sum(group.size for group in groups),
            examples=_examples(groups),
            needs=case.numbers(answer.need) if answer.standing is Standing.CLAIMED else (),
            remedy=_REMEDIES[answer.standing].format(detail=answer.detail, domain=judge.domain),
        )
        for answer, groups in found.items()
    ]
    refusals.sort(key=lambda item: (_STANDINGS.index(item.standing), -item.count, item.detail, item.needs))
    return tuple(
        shown
        for _, same in groupby(refusals, key=lambda item: item.standing)
        for shown in _most_common(list(same))
    )


def _most_common(refusals: list[Refusal]) -> list[Refusal]:
    """Refusals of one standing, the smallest put together where there are thousands, as of clusters in a large fleet."""
    if len(refusals) <= REFUSALS_SHOWN:
        return refusals
    shown, rest = refusals[: REFUSALS_SHOWN - 1], refusals[REFUSALS_SHOWN - 1 :]
    others = Refusal(
        standing=rest[0].standing,
        detail=f"{len(rest)} others",
        count=sum(item.count for item in rest),
        examples=tuple(sorted(machine_id for item in rest for machine_id in item.examples)[:EXAMPLES]),
        remedy=_REMEDIES[rest[0].standing].format(detail="somebody else", domain=""),
    )
    return [*shown, others]


_REMEDIES: Mapping[Standing, str] = {
    Standing.WRONG_STATE: "counts for nobody until it has left the state {detail}",
    Standing.OTHER_CLUSTER: "serves {detail}; only preemption or a reclaim frees it",
    Standing.OTHER_ORDER: "comes up for {detail}",
    Standing.PINNED_TYPE: "add {detail} to the instance types of the profile",
    Standing.REQUIREMENT: "drop or widen the requirement {detail}",
    Standing.BELOW_UNIT: "a smaller unit, or larger machines: each must hold {detail}",
    Standing.CLAIMED: "a higher priority, or less demand of that need",
    Standing.OUTSIDE_DOMAIN: "the gang gathers in {domain}",
    Standing.PARKED: "waits for the gang's next free try",
    Standing.SPREAD_KEY: "lacks the label {detail} by which the need spreads",
    Standing.SPREAD_LIMIT: "a larger max_skew, or machines elsewhere than {detail}",
    Standing.NOT_NEEDED: "would serve it if it wanted more",
}


def _competitors(case: Case, answers: Iterable[tuple[Answer, Group]]) -> tuple[Competitor, ...]:
    held: dict[tuple[int, str], int] = {}
    for answer, group in answers:
        if answer.standing is Standing.CLAIMED:
            held[(answer.need, answer.detail)] = held.get((answer.need, answer.detail), 0) + group.size
    found = [
        Competitor(
            numbers=case.numbers(place),
            cluster=case.need(place).cluster,
            group=case.need(place).group,
            priority=case.need(place).profile.priority,
            relation=relation,
            machines=count,
        )
        for (place, relation), count in held.items()
    ]
    return tuple(sorted(found, key=lambda item: (-item.machines, item.numbers))[:COMPETITORS])


def _steps(judge: Judge, answers: Iterable[tuple[Answer, Group]]) -> tuple[Step, ...]:
    fitting, taken = dict.fromkeys(_STEPS, 0), dict.fromkeys(_STEPS, 0)
    offered = dict.fromkeys(_STEPS, ZERO)
    for _, group in answers:
        state = group.first.state
        if state in fitting and judge.could_take(group.first):
            fitting[state] += group.size
        if group.holder == judge.place:
            taken[state] += group.size
            offered[state] += group.capacity
    missing = judge.need.total
    steps: list[Step] = []
    for state in _STEPS:
        missing -= offered[state]
        steps.append(Step(state.label, fitting[state], taken[state], missing))
    return tuple(steps)
