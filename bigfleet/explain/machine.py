"""Explains why a machine is held, taken, preempted, reclaimed, released or left alone.

Must never: leave a state or an action without a sentence.
Rules: `dashboard#explain-machine`, `engine#phase-1`, `engine#phase-2`, `engine#phase-3`.
"""

from dataclasses import dataclass

from bigfleet.explain.decided_cycle import NO_NEED, DecidedCycle, KeepOrder, MachineGroup
from bigfleet.explain.fit import FitChecker, FitResult, step_of
from bigfleet.explain.preemption import Victim, preemption_of, victim_of
from bigfleet.model.action import Action
from bigfleet.model.machine import DEFAULT_PODS, PODS, Machine, MachineState
from bigfleet.model.quantity import NANO
from bigfleet.model.resources import Resources
from bigfleet.model.situation import Situation

NEEDS_SHOWN = 10
S = MachineState


@dataclass(frozen=True, slots=True)
class NeedFit:
    """How the machine fits one need."""

    numbers: tuple[int, ...]
    cluster: str
    group: str
    priority: int
    satisfied: bool
    result: FitResult
    detail: str


@dataclass(frozen=True, slots=True)
class Release:
    """When an Idle machine is given back."""

    hold_s: float
    """0 when machines of its capacity type never are."""
    idle_s: float | None
    """How long it has been idle; None when unknown, and then it is kept."""

    @property
    def left_s(self) -> float | None:
        """Seconds until it is given back; None for never."""
        if not self.hold_s or self.idle_s is None:
            return None
        return max(0.0, self.hold_s - self.idle_s)


@dataclass(frozen=True, slots=True)
class MachineExplanation:
    """The explanation of a machine in one cycle."""

    machine: Machine
    holder: tuple[int, ...]
    """Numbers of the need that holds it; empty when none does."""
    step: str
    action: Action | None
    preemptor: tuple[int, ...]
    victim: Victim | None
    runner_up: Victim | None
    """The machine that the preemptor would have taken next."""
    keep_order: KeepOrder | None
    release: Release | None
    next_taker: NeedFit | None
    """The need that would take it if it wanted more."""
    views: tuple[NeedFit, ...]
    pods_by_default: int = 0
    """How many pods it counts for, where it states no number and a need asks for them."""
    held_off: str = ""
    """Why the shard leaves it alone for now, in words; empty when it does not."""


def explain_left_out(machine: Machine, held_off: str) -> MachineExplanation:
    """Explain a machine that the decision left out; no need was compared with it."""
    return MachineExplanation(
        machine=machine,
        holder=(),
        step="",
        action=None,
        preemptor=(),
        victim=None,
        runner_up=None,
        keep_order=None,
        release=None,
        next_taker=None,
        views=(),
        held_off=held_off,
    )


def explain_machine(cycle: DecidedCycle, machine_id: str, held_off: str = "") -> MachineExplanation:
    """Explain what becomes of a machine, which must be in the cycle; `held_off` is why it is left alone for now."""
    machine = cycle.machines[machine_id]
    group = cycle.group_of(machine_id)
    action = cycle.action_on(machine_id)
    ranked = _by_precedence(cycle)
    victim, runner_up = _victims(cycle, group, machine_id)
    keep_order = cycle.keep_order(machine) if machine.state is S.CONFIGURED else None
    release = _release(cycle.situation, machine)
    taker = _next_taker(cycle, group, ranked)
    holder = () if group.holder == NO_NEED else cycle.numbers(group.holder)
    return MachineExplanation(
        machine=machine,
        holder=holder,
        step=step_of(machine) if holder else "",
        action=action,
        preemptor=() if group.preemptor == NO_NEED else cycle.numbers(group.preemptor),
        victim=victim,
        runner_up=runner_up,
        keep_order=keep_order,
        release=release,
        next_taker=None if taker is None else _need_fit(cycle, group, taker),
        views=tuple(_need_fit(cycle, group, place) for place in _shown(group, ranked)),
        pods_by_default=_pods_by_default(cycle, machine),
        held_off=held_off,
    )


def _pods_by_default(cycle: DecidedCycle, machine: Machine) -> int:
    if machine.shape.states_pods or not any(need.names_pods for need in cycle.needs):
        return 0
    return DEFAULT_PODS.amount(PODS) // NANO


def _by_precedence(cycle: DecidedCycle) -> list[int]:
    precedences = [need.profile.precedence for need in cycle.needs]
    # Equal ones stay as they were, also the other way round; as demand is listed by priority that is quick.
    return sorted(range(len(precedences)), key=precedences.__getitem__, reverse=True)


def _need_fit(cycle: DecidedCycle, group: MachineGroup, place: int) -> NeedFit:
    verdict, fit = cycle.verdict(place), FitChecker(cycle, place).fit(group)
    return NeedFit(
        numbers=cycle.numbers(place),
        cluster=verdict.need.cluster,
        group=verdict.need.group,
        priority=verdict.need.profile.priority,
        satisfied=verdict.satisfied,
        result=fit.result,
        detail=fit.detail,
    )


def _shown(group: MachineGroup, ranked: list[int]) -> list[int]:
    """The needs of highest precedence, and in any case those that have it or get it."""
    having = {group.holder, group.preemptor, group.drains_for}
    return [*ranked[:NEEDS_SHOWN], *(place for place in ranked[NEEDS_SHOWN:] if place in having)]


def _next_taker(cycle: DecidedCycle, group: MachineGroup, ranked: list[int]) -> int | None:
    """The need of highest precedence that would take the machine if it wanted more.

    What another need holds, or what serves or is on order for another cluster, no other need would take; so few needs are
    asked, and of those with the same requirements and unit only one whether it fits. A gang that gathers elsewhere is not
    asked at all, as there may be thousands of them.
    """
    machine = group.first
    if group.holder != NO_NEED or machine.state in (S.DRAINING, S.DELETING, S.FAILED):
        return None
    places = ranked
    if machine.state not in (S.IDLE, S.SPECULATIVE):
        near = frozenset(cycle.places_of(machine.cluster or machine.assigned.cluster))
        places = [place for place in ranked if place in near]
    fits: dict[tuple[str, Resources, bool], bool] = {}
    for place in places:
        need = cycle.need(place)
        refuses, gathers_by = need.profile.refuses_interruptible, need.profile.same_key
        key = (need.profile.requirements_text, need.unit, refuses)
        if not fits.get(key, True):
            continue
        if gathers_by is not None and cycle.domain(place) not in (None, machine.label(gathers_by)):
            continue
        checker = FitChecker(cycle, place)
        if key not in fits:
            fits[key] = checker.suits(machine)
        if fits[key] and checker.fit(group).result is FitResult.NOT_NEEDED:
            return place
    return None


def _victims(
    cycle: DecidedCycle, group: MachineGroup, machine_id: str
) -> tuple[Victim | None, Victim | None]:
    if group.preemptor == NO_NEED:
        return None, None
    preemption = preemption_of(cycle, group.preemptor)
    if preemption is None:
        return None, None
    priority = cycle.need(group.preemptor).profile.priority
    return victim_of(cycle.machines[machine_id], priority), preemption.runner_up


def _release(situation: Situation, machine: Machine) -> Release | None:
    if machine.state is not S.IDLE:
        return None
    since = machine.idle_since
    return Release(
        hold_s=situation.holds.of(machine.shape.capacity_type),
        idle_s=None if since is None else situation.now - since,
    )
