"""A world at rest: what is left once the engine has nothing more to do about it.

Why: a world starts with the seeds of its profile, which serve most of its demand; steady cycles can only be measured
and simulated from where demand is met and no action is due. Getting there by the engine's own decisions keeps the
world honest: after a change of the engine it is the state which that engine would reach.
Must never: be mistaken for a shard. Every action succeeds at once, no rail holds any back, and nothing is released.
Rules: `testing#settled-world`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bigfleet.engine.cycle import decide
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.errors import BigFleetError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import UNASSIGNED, HostRef, Machine, MachineState
from bigfleet.model.need import Need, assignment_of
from bigfleet.model.situation import IdleHolds
from bigfleet.workload.fleet import PROVIDER, host_ref

_NEVER = IdleHolds(on_demand_s=0, spot_s=0)
_LOSES = (ActionKind.RECLAIM, ActionKind.PREEMPT)


class RestlessWorldError(BigFleetError):
    """The engine still wants something done after as many cycles as it was given."""

    def __init__(self, cycles: int, actions: int) -> None:
        super().__init__(f"after {cycles} cycles there are still {actions} actions to do")
        self.cycles, self.actions = cycles, actions


def settle(inventory: Inventory, needs: Sequence[Need], now: float, most_cycles: int = 10) -> int:
    """Carry out what the engine decides, cycle by cycle, until it decides nothing; return the number of cycles."""
    actions: tuple[Action, ...] = ()
    for cycle in range(most_cycles):
        decision = decide(
            inventory.snapshot(), needs, parked=frozenset(), reported_clusters=None, holds=_NEVER, now=now
        )
        actions = tuple(decision.actions)
        if not actions:
            return cycle
        listed = [verdict.need for verdict in decision.verdicts]
        inventory.adopt_many([(machine, 0) for machine in _done(inventory, actions, listed)], now)
    raise RestlessWorldError(most_cycles, len(actions))


def _done(inventory: Inventory, actions: Iterable[Action], needs: Sequence[Need]) -> Iterable[Machine]:
    for action in actions:
        machine = inventory.get(action.machine_id)
        if action.kind in _LOSES:
            yield replace(machine, state=MachineState.IDLE, cluster="", assigned=UNASSIGNED)
        elif action.need is not None:
            yield _serving(machine, needs[action.need])


def _serving(machine: Machine, need: Need) -> Machine:
    return replace(
        machine,
        state=MachineState.CONFIGURED,
        host=machine.host or HostRef(PROVIDER, host_ref(machine.id)),
        cluster=need.cluster,
        assigned=assignment_of(need),
        idle_since=None,
    )
