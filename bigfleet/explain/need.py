"""Explains a need: what it took, what was next best, what was refused and why.

Why: it is the question of every user who waits for machines.
Must never: leave a machine out. Chosen and refused machines add up to the fleet.
Rules: `dashboard#explain-classes`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bigfleet.explain.changes import Proposal
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.domain_ranking import DomainNotes, RankedDomain, ranked
from bigfleet.explain.fit import FitChecker, FitResult, MachineFit
from bigfleet.explain.fleet_summary import STEPS, ChosenClass, FleetSummary, RefusedClass, S, cost_for
from bigfleet.explain.left_out import LeftOut, StockedOutOffer, usable_offers
from bigfleet.explain.preemption import Preemption, preemption_of
from bigfleet.explain.summarize import summarize_fleet
from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.decision import Verdict
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

_HOW_ORDER = ("kept", "on order", "bootstrapped", "provisioned", FitResult.PREEMPTED, FitResult.IN_FLIGHT)


@dataclass(frozen=True, slots=True)
class MachineClass:
    """Machines of one type, zone, state and price that a need got in one way."""

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

    result: FitResult
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
class AcquisitionStep:
    """One step towards the need's total."""

    name: str
    fitting: int
    taken: int
    missing: Resources
    """What is missing after it."""


@dataclass(frozen=True, slots=True)
class NeedExplanation:
    """The explanation of a need in one cycle."""

    place: int
    numbers: tuple[int, ...]
    verdict: Verdict
    machines: int
    open_after_preemption: Resources
    steps: tuple[AcquisitionStep, ...]
    chosen: tuple[MachineClass, ...]
    next_best: MachineClass | None
    refusals: tuple[Refusal, ...]
    competitors: tuple[Competitor, ...]
    domains: tuple[RankedDomain, ...]
    preemption: Preemption | None
    coverage: CoverageSplit
    """How far its machines are; as decided, unless a shard says how they are now."""
    stocked_out: tuple[StockedOutOffer, ...] = ()
    """Offerings that it could use if they were not stocked out, cheapest first."""
    proposals: tuple[Proposal, ...] = field(default=())

    @property
    def need(self) -> Need:
        """The need itself, folded if it was."""
        return self.verdict.need


def explain_need(
    cycle: DecidedCycle,
    place: int,
    notes: DomainNotes | None = None,
    proposals: Iterable[Proposal] = (),
    *,
    coverage: CoverageSplit | None = None,
    left_out: tuple[LeftOut, ...] = (),
) -> NeedExplanation:
    """Explain the need at a place of the normalised demand.

    `coverage` is how far its machines are now, `left_out` are the machines that the decision did not consider.
    """
    checker = FitChecker(cycle, place)
    summary = summarize_fleet(cycle, checker)
    return NeedExplanation(
        place=place,
        numbers=cycle.numbers(place),
        verdict=cycle.verdict(place),
        machines=len(cycle.machines) + sum(item.count for item in left_out),
        open_after_preemption=cycle.open_after_preemption(place),
        steps=_steps(checker, summary),
        chosen=_chosen(checker.need, summary),
        next_best=None if summary.next_best is None else _class(summary.next_best, checker.need),
        refusals=(
            *(_stocked_out(item) for item in left_out),
            *(_refusal(cycle, checker, item) for item in summary.refused),
        ),
        competitors=tuple(_competitor(cycle, fit, count) for fit, count in summary.held),
        domains=ranked(cycle.verdict(place), None if notes is None else notes.domains.get(place)),
        preemption=preemption_of(cycle, place),
        coverage=coverage or _decided(checker.need, summary),
        stocked_out=usable_offers(checker, left_out),
        proposals=tuple(proposals),
    )


def _decided(need: Need, summary: FleetSummary) -> CoverageSplit:
    """The split as of the decision: what is on order was accepted, and nothing newly decided has been."""
    taken, offered = summary.taken, summary.offered
    missing = need.total
    for state in (S.CONFIGURED, S.CONFIGURING, S.CREATING):
        missing -= offered[state]
    wanted = taken[S.IDLE] + taken[S.SPECULATIVE]
    return CoverageSplit(taken[S.CONFIGURED], taken[S.CONFIGURING], taken[S.CREATING], wanted, missing)


def _stocked_out(item: LeftOut) -> Refusal:
    remedy = f"the provider said: {item.error}" if item.error else "more stock at the provider"
    return Refusal(FitResult.STOCKED_OUT, item.detail, item.count, item.examples, remedy=remedy)


def _class(chosen: ChosenClass, need: Need) -> MachineClass:
    shape = chosen.shape
    return MachineClass(
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=shape.capacity_type.label,
        state=chosen.state.label,
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        effective_cost=cost_for(shape, need),
        how=chosen.how,
        count=chosen.count,
        examples=chosen.examples,
    )


def _chosen(need: Need, summary: FleetSummary) -> tuple[MachineClass, ...]:
    classes = [_class(chosen, need) for chosen in summary.chosen]
    return tuple(
        sorted(classes, key=lambda item: (_HOW_ORDER.index(item.how), item.effective_cost, item.examples))
    )


def _refusal(cycle: DecidedCycle, checker: FitChecker, item: RefusedClass) -> Refusal:
    fit = item.fit
    if item.others:
        remedy = _REMEDIES[fit.result].format(detail="somebody else", domain="")
        return Refusal(fit.result, f"{item.others} others", item.count, item.examples, remedy=remedy)
    return Refusal(
        result=fit.result,
        detail=fit.detail,
        count=item.count,
        examples=item.examples,
        needs=cycle.numbers(fit.need) if fit.result is FitResult.CLAIMED else (),
        remedy=_REMEDIES[fit.result].format(detail=fit.detail, domain=checker.domain),
    )


_REMEDIES: Mapping[FitResult, str] = {
    FitResult.WRONG_STATE: "counts for nobody until it has left the state {detail}",
    FitResult.OTHER_CLUSTER: "serves {detail}; only preemption or a reclaim frees it",
    FitResult.OTHER_ORDER: "comes up for {detail}",
    FitResult.PINNED_TYPE: "add {detail} to the instance types of the profile",
    FitResult.REQUIREMENT: "drop or widen the requirement {detail}",
    FitResult.BELOW_UNIT: "a smaller unit, or larger machines: each must hold {detail}",
    FitResult.INTERRUPTIBLE: "a lower interruption penalty, or machines that cannot be interrupted",
    FitResult.CLAIMED: "a higher priority, or less demand of that need",
    FitResult.OUTSIDE_DOMAIN: "the gang gathers in {domain}",
    FitResult.PARKED: "waits for the gang's next free try",
    FitResult.SPREAD_KEY: "lacks the label {detail} by which the need spreads",
    FitResult.SPREAD_LIMIT: "a larger max_skew, or machines elsewhere than {detail}",
    FitResult.NOT_NEEDED: "would serve it if it wanted more",
}


def _competitor(cycle: DecidedCycle, fit: MachineFit, machines: int) -> Competitor:
    need = cycle.need(fit.need)
    return Competitor(
        numbers=cycle.numbers(fit.need),
        cluster=need.cluster,
        group=need.group,
        priority=need.profile.priority,
        relation=fit.detail,
        machines=machines,
    )


def _steps(checker: FitChecker, summary: FleetSummary) -> tuple[AcquisitionStep, ...]:
    missing = checker.need.total
    steps: list[AcquisitionStep] = []
    for state in STEPS:
        missing -= summary.offered[state]
        steps.append(AcquisitionStep(state.label, summary.fitting[state], summary.taken[state], missing))
    return tuple(steps)
