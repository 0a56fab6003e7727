"""Carries actions out on plain records, as an executor whose provider never fails.

Why: what a cycle decides depends on what the former one left behind, above all stamps; what-ifs, scripts and laws over
several cycles need that without a shard.
Must never: carry out two actions on one machine; the first wins.
Rules: `engine#stamps`, `engine#after-the-decision`, `engine#preemption-in-flight`, `engine#crediting`.
"""

from dataclasses import replace

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.machine import NO_HOST, UNASSIGNED, Assignment, HostRef, Machine, MachineState, NeedRef
from bigfleet.model.need import Need, assignment_of

S = MachineState


def need_of(action: Action, decision: Decision) -> Need | None:
    """The need an action is for; Phase 3 acts for no need."""
    return None if action.need is None else decision.verdicts[action.need].need


def begun(machine: Machine, action: Action, need: Need | None) -> Machine:
    """The machine while its action is under way."""
    if action.kind is ActionKind.DELETE:
        return replace(machine, state=S.DELETING, idle_since=None)
    if action.kind is ActionKind.RECLAIM:
        return replace(machine, state=S.DRAINING, drain_grace_remaining_s=action.grace_s or 0)
    if need is None:
        raise AssertionError(f"{action.kind} {machine.id} is for no need")
    stamp = Assignment(fingerprint=need.profile.fingerprint, group=need.group)
    if action.kind is ActionKind.PREEMPT:
        reference, grace = NeedRef(*need.stamp_key), action.grace_s or 0
        return replace(machine, state=S.DRAINING, draining_for=reference, drain_grace_remaining_s=grace)
    if action.kind is ActionKind.PROVISION:
        return replace(machine, state=S.CREATING, assigned=replace(stamp, cluster=need.cluster))
    return replace(machine, state=S.CONFIGURING, cluster=need.cluster, assigned=stamp, idle_since=None)


def finished(machine: Machine, now: float, need: Need | None = None) -> Machine:
    """The machine after its transition has ended; a Configuring one then serves the need."""
    if machine.state is S.CREATING:
        return replace(machine, state=S.IDLE, host=HostRef("rack", machine.id), idle_since=now)
    if machine.state is S.DRAINING:
        free = replace(machine, state=S.IDLE, cluster="", assigned=UNASSIGNED, idle_since=now)
        return replace(free, draining_for=None, drain_grace_remaining_s=0.0)
    if machine.state is S.DELETING:
        return replace(machine, state=S.SPECULATIVE, host=NO_HOST, cluster="", assigned=UNASSIGNED)
    if machine.state is S.CONFIGURING and need is not None:
        return replace(machine, state=S.CONFIGURED, assigned=assignment_of(need))
    raise AssertionError(f"{machine.id}: nothing is under way that could finish")


def at_once(machine: Machine, action: Action, need: Need | None, now: float) -> Machine:
    """The machine after its action is completely done; a provisioned one then serves its need."""
    after = finished(begun(machine, action, need), now, need)
    if action.kind is ActionKind.PROVISION and need is not None:
        bootstrap = action._replace(kind=ActionKind.BOOTSTRAP)
        after = finished(begun(after, bootstrap, need), now, need)
    return after
