"""Why a need fares as it does: what it took, what was next best, what was refused and why.

Why: the one question everybody has who waits for machines.
Must never: leave a machine out. What is chosen and what is refused add up to the fleet.
Rules: dashboard 6.1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bigfleet.explain.case import Case
from bigfleet.explain.changes import Proposal
from bigfleet.explain.column_sight import seen_in_columns
from bigfleet.explain.cycle_case import CycleCase
from bigfleet.explain.notes import Notes, RankedDomain, ranked
from bigfleet.explain.preemption import Preemption, preemption_of
from bigfleet.explain.sight import STEPS, Refused, Seen, Sight, cost_for, seen_in_groups
from bigfleet.explain.standing import Answer, Judge, Standing
from bigfleet.model.decision import Verdict
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

_HOW_ORDER = ("kept", "on order", "bootstrapped", "provisioned", Standing.PREEMPTED, Standing.IN_FLIGHT)


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
    sight = seen_in_columns(case, judge) if isinstance(case, CycleCase) else seen_in_groups(case, judge)
    return NeedExplanation(
        place=place,
        numbers=case.numbers(place),
        verdict=case.verdict(place),
        machines=len(case.machines),
        open_after_preemption=case.open_after_preemption(place),
        steps=_steps(judge, sight),
        chosen=_chosen(judge.need, sight),
        next_best=None if sight.next_best is None else _class(sight.next_best, judge.need),
        refusals=tuple(_refusal(case, judge, item) for item in sight.refused),
        competitors=tuple(_competitor(case, answer, count) for answer, count in sight.held),
        domains=ranked(case.verdict(place), None if notes is None else notes.domains.get(place)),
        preemption=preemption_of(case, place),
        proposals=tuple(proposals),
    )


def _class(seen: Seen, need: Need) -> MachineClass:
    shape = seen.shape
    return MachineClass(
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=shape.capacity_type.label,
        state=seen.state.label,
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        effective_cost=cost_for(shape, need),
        how=seen.how,
        count=seen.count,
        examples=seen.examples,
    )


def _chosen(need: Need, sight: Sight) -> tuple[MachineClass, ...]:
    classes = [_class(seen, need) for seen in sight.chosen]
    return tuple(
        sorted(classes, key=lambda item: (_HOW_ORDER.index(item.how), item.effective_cost, item.examples))
    )


def _refusal(case: Case, judge: Judge, item: Refused) -> Refusal:
    answer = item.answer
    if item.others:
        remedy = _REMEDIES[answer.standing].format(detail="somebody else", domain="")
        return Refusal(answer.standing, f"{item.others} others", item.count, item.examples, remedy=remedy)
    return Refusal(
        standing=answer.standing,
        detail=answer.detail,
        count=item.count,
        examples=item.examples,
        needs=case.numbers(answer.need) if answer.standing is Standing.CLAIMED else (),
        remedy=_REMEDIES[answer.standing].format(detail=answer.detail, domain=judge.domain),
    )


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


def _competitor(case: Case, answer: Answer, machines: int) -> Competitor:
    need = case.need(answer.need)
    return Competitor(
        numbers=case.numbers(answer.need),
        cluster=need.cluster,
        group=need.group,
        priority=need.profile.priority,
        relation=answer.detail,
        machines=machines,
    )


def _steps(judge: Judge, sight: Sight) -> tuple[Step, ...]:
    missing = judge.need.total
    steps: list[Step] = []
    for state in STEPS:
        missing -= sight.offered[state]
        steps.append(Step(state.label, sight.fitting[state], sight.taken[state], missing))
    return tuple(steps)
