"""Runs a document for one cycle, or carries decisions out cycle after cycle until nothing is left to do.

Why: one cycle shows what would be started; a what-if mostly asks for the end. A machine that is
preempted drains first, and serves another need a cycle later.
Must never: decide by itself, or run without end. Demand, prices and parked gangs stay as they are; nothing fails.
Rules: `dashboard#what-if`. The provider takes the times it is given, bootstrapping and deleting no time at all; a hold
that ends later than the last cycle is not waited for.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from bigfleet.document.compare import Side
from bigfleet.document.compare_costs import first_actions
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.carry_out import at_once, begun, finished, need_of
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.machine import UNASSIGNED, HostRef, Machine, MachineState
from bigfleet.model.need import Need, assignment_of
from bigfleet.model.situation import Situation

MAX_CYCLES: Final = 20
LONGEST_S: Final = 86_400.0
S = MachineState
_DRAINS: Final = (ActionKind.PREEMPT, ActionKind.RECLAIM)

Decide = Callable[[Situation], Decision]


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far to look."""

    until_quiet: bool = False
    """Until a cycle finds nothing to do and nothing under way, at most twenty cycles; else one cycle alone."""
    create_s: float = 0.0
    """How long the provider takes to create a machine."""
    drain_s: float = 0.0
    """How long a machine takes to drain."""
    cycle_s: float = 10.0
    """From one cycle to the next. A cycle that could only find what the former one found is not counted."""


ONE_CYCLE: Final = Horizon()


@dataclass(frozen=True, slots=True)
class HorizonResult:
    """The state at the horizon."""

    side: Side
    """The world at the last cycle, and what that cycle decided."""
    actions: Mapping[ActionKind, int]
    """What was started in all cycles together."""
    cycles: int
    seconds: float
    """From the first cycle to the last."""
    quiet: bool
    """Whether the last cycle found nothing to do and nothing under way."""


def run_to_horizon(document: SnapshotDocument, horizon: Horizon, decide: Decide) -> HorizonResult:
    """Decide on a document, and continue from there as far as the horizon reaches."""
    start = document.situation.now
    world = _World(document.situation, horizon)
    kinds: Counter[ActionKind] = Counter()
    for cycle in range(1, MAX_CYCLES + 1):
        situation = world.situation()
        decision = decide(situation)
        actions = first_actions(decision.actions)
        kinds.update(action.kind for action in actions.values())
        quiet = not actions and not world.under_way
        if quiet or not horizon.until_quiet or cycle == MAX_CYCLES:
            break
        world.carry_out(actions, decision)
    return HorizonResult(
        Side(replace(document, situation=situation), decision),
        {kind: kinds[kind] for kind in ActionKind},
        cycle,
        situation.now - start,
        quiet,
    )


class _World:
    """The machines as they are now, and the time at which each transition ends."""

    def __init__(self, situation: Situation, horizon: Horizon) -> None:
        self._first, self._horizon, self._now = situation, horizon, situation.now
        self._machines = {machine.id: machine for machine in situation.machines}
        self._ends: dict[str, tuple[float, Need | None]] = {}
        wanted = {need.stamp_key: need for need in situation.needs}
        for machine in situation.machines:
            stamp = machine.assigned
            if machine.state is S.CREATING:
                key = (stamp.cluster, stamp.fingerprint, stamp.group)
                self._ends[machine.id] = (self._now + horizon.create_s, wanted.get(key))
            elif machine.state is S.CONFIGURING:
                key = (machine.cluster, stamp.fingerprint, stamp.group)
                self._ends[machine.id] = (self._now, wanted.get(key))
            elif machine.state in (S.DRAINING, S.DELETING):
                takes_s = horizon.drain_s if machine.state is S.DRAINING else 0.0
                self._ends[machine.id] = (self._now + takes_s, None)

    @property
    def under_way(self) -> bool:
        """Whether anything has begun that has not come to its end."""
        return bool(self._ends)

    def situation(self) -> Situation:
        """What the next cycle decides on."""
        return replace(self._first, now=self._now, machines=tuple(self._machines.values()))

    def carry_out(self, actions: Mapping[str, Action], decision: Decision) -> None:
        """Begin every action, and let time pass until the next cycle that could find something new."""
        for machine_id, action in actions.items():
            takes_s, need = self._takes_s(action), need_of(action, decision)
            machine = self._machines[machine_id]
            if takes_s > 0:
                self._machines[machine_id] = begun(machine, action, need)
                self._ends[machine_id] = (self._now + takes_s, need)
            else:
                self._machines[machine_id] = at_once(machine, action, need, self._now)
        cycle_s = self._horizon.cycle_s
        waits_s = 0.0 if actions else min(end for end, _ in self._ends.values()) - self._now
        self._now += cycle_s * max(1, ceil(waits_s / cycle_s))
        for machine_id in [one for one, (end, _) in self._ends.items() if end <= self._now]:
            end, need = self._ends.pop(machine_id)
            self._machines[machine_id] = _ended(self._machines[machine_id], end, need)

    def _takes_s(self, action: Action) -> float:
        if action.kind is ActionKind.PROVISION:
            return self._horizon.create_s
        return self._horizon.drain_s if action.kind in _DRAINS else 0.0


def _ended(machine: Machine, now: float, need: Need | None) -> Machine:
    """The machine after what was under way; one that was created joins the need it was ordered for."""
    if machine.state is S.CREATING:
        made = replace(machine, state=S.IDLE, host=HostRef("provider", machine.id), assigned=UNASSIGNED)
        if need is None:
            return replace(made, idle_since=now)
        return replace(made, state=S.CONFIGURED, cluster=need.cluster, assigned=assignment_of(need))
    if machine.state is S.CONFIGURING:
        stamp = machine.assigned if need is None else assignment_of(need)
        return replace(machine, state=S.CONFIGURED, assigned=stamp)
    return finished(machine, now)
