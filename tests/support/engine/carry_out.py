"""Carries a whole decision out at once, for laws over several cycles."""

from dataclasses import replace

from bigfleet.document.compare_costs import first_actions
from bigfleet.explain.carry_out import at_once, need_of
from bigfleet.model.decision import Decision
from bigfleet.model.situation import Situation


def carried_out(situation: Situation, decision: Decision) -> Situation:
    """The situation after every action is done, at the same time and with the same demand."""
    actions = first_actions(decision.actions)
    machines = tuple(
        at_once(machine, actions[machine.id], need_of(actions[machine.id], decision), situation.now)
        if machine.id in actions
        else machine
        for machine in situation.machines
    )
    return replace(situation, machines=machines)
