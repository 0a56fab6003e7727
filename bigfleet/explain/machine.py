"""Why a machine is held, taken, preempted, reclaimed, released or left alone.

Called by: `bigfleet explain`, the shard's insight service, the dashboard.
Must never: end without an answer; every state and every action has a sentence.
Rules: dashboard 6.2; decision-engine sections 7 to 9.
"""

from dataclasses import dataclass

from bigfleet.explain.case import NOBODY, Case, Group
from bigfleet.explain.preemption import Victim, preemption_of
from bigfleet.explain.standing import CHOSEN, Answer, Judge, Standing, step_of
from bigfleet.model.action import Action
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.situation import Situation

NEEDS_SHOWN = 10
S = MachineState


@dataclass(frozen=True, slots=True)
class View:
    """What one need makes of the machine."""

    numbers: tuple[int, ...]
    cluster: str
    group: str
    priority: int
    satisfied: bool
    standing: Standing
    detail: str


@dataclass(frozen=True, slots=True)
class KeepOrder:
    """Where a machine stands among the Configured machines of its cluster, the first to be kept first."""

    position: int
    machines: int
    claimed: int
    """How many of them some need holds."""
    reported: bool
    """Whether the cluster has reported its demand, so that anything may be reclaimed from it."""


@dataclass(frozen=True, slots=True)
class Release:
    """When an Idle machine is given back."""

    hold_s: float
    """0 when machines of its capacity type never are."""
    idle_s: float | None
    """How long it has been idle; None when nobody knows, and then it is kept."""

    @property
    def left_s(self) -> float | None:
        """Seconds until it is given back; None for never."""
        if not self.hold_s or self.idle_s is None:
            return None
        return max(0.0, self.hold_s - self.idle_s)


@dataclass(frozen=True, slots=True)
class MachineExplanation:
    """Everything there is to say about a machine in one cycle."""

    machine: Machine
    holder: tuple[int, ...]
    """Numbers of the need that holds it; empty when none does."""
    step: str
    action: Action | None
    preemptor: tuple[int, ...]
    victim: Victim | None
    runner_up: Victim | None
    """Whom the preemptor would have asked next."""
    keep_order: KeepOrder | None
    release: Release | None
    next_taker: View | None
    """Who would take it if it wanted more."""
    views: tuple[View, ...]


def explain_machine(case: Case, machine_id: str) -> MachineExplanation:
    """Explain what becomes of a machine, which must be in the case."""
    machine = case.machines[machine_id]
    group = next(group for group in case.groups if machine_id in group.ids)
    action = case.actions.get(machine_id)
    answers = [(place, Judge(case, place).answer(group)) for place in _by_precedence(case)]
    victim, runner_up = _victims(case, group, machine_id)
    keep_order = _keep_order(case, machine)
    release = _release(case.situation, machine)
    views = [_view(case, place, answer) for place, answer in answers]
    taker = next((view for view in views if view.standing is Standing.NOT_NEEDED), None)
    holder = () if group.holder == NOBODY else case.numbers(group.holder)
    return MachineExplanation(
        machine=machine,
        holder=holder,
        step=step_of(machine) if holder else "",
        action=action,
        preemptor=() if group.preemptor == NOBODY else case.numbers(group.preemptor),
        victim=victim,
        runner_up=runner_up,
        keep_order=keep_order,
        release=release,
        next_taker=taker,
        views=tuple(_shown(views)),
    )


def _by_precedence(case: Case) -> list[int]:
    places = range(len(case.decision.verdicts))
    return sorted(places, key=lambda place: (*(-part for part in case.need(place).profile.precedence), place))


def _view(case: Case, place: int, answer: Answer) -> View:
    verdict = case.verdict(place)
    return View(
        numbers=case.numbers(place),
        cluster=verdict.need.cluster,
        group=verdict.need.group,
        priority=verdict.need.profile.priority,
        satisfied=verdict.satisfied,
        standing=answer.standing,
        detail=answer.detail,
    )


def _shown(views: list[View]) -> list[View]:
    """The needs of highest precedence, and in any case the one that has it."""
    head = views[:NEEDS_SHOWN]
    having = [view for view in views[NEEDS_SHOWN:] if view.standing in CHOSEN]
    return head + having


def _victims(case: Case, group: Group, machine_id: str) -> tuple[Victim | None, Victim | None]:
    if group.preemptor == NOBODY:
        return None, None
    preemption = preemption_of(case, group.preemptor)
    if preemption is None:
        return None, None
    found = next((victim for victim in preemption.taken if victim.machine.id == machine_id), None)
    return found, preemption.runner_up


def _keep_order(case: Case, machine: Machine) -> KeepOrder | None:
    if machine.state is not S.CONFIGURED:
        return None
    mates = [
        other
        for other in case.situation.machines
        if other.state is S.CONFIGURED and other.cluster == machine.cluster
    ]
    mates.sort(key=lambda other: (other.shape.price_per_hour, -other.assigned.reclamation_penalty, other.id))
    reported = case.situation.reported_clusters
    return KeepOrder(
        position=1 + next(place for place, other in enumerate(mates) if other.id == machine.id),
        machines=len(mates),
        claimed=sum(other.id in case.holder for other in mates),
        reported=reported is None or machine.cluster in reported,
    )


def _release(situation: Situation, machine: Machine) -> Release | None:
    if machine.state is not S.IDLE:
        return None
    since = machine.idle_since
    return Release(
        hold_s=situation.holds.of(machine.shape.capacity_type),
        idle_s=None if since is None else situation.now - since,
    )
