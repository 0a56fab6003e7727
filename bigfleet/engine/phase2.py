"""Phase 2: what Phase 1 left open is taken from workloads of strictly lower priority.

Why: priority is the only throttle, so a machine held by less important work is supply of the last resort.
Called by: the cycle, with Phase 1's outcome.
Must never: take a machine twice, one claimed this cycle by a need of equal or higher precedence (E3), or a Draining one.
Rules: decision-engine section 8; capacity already draining for a need counts (E4); victim order (E11).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Vector, first_covering
from bigfleet.engine.index import Flags, MachineIndex, Numbers
from bigfleet.engine.phase1.domains import NO_DOMAIN
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import drain_grace_s
from bigfleet.model.decision import Unresolved
from bigfleet.model.machine import MachineState
from bigfleet.model.resources import ZERO, Resources


@dataclass(frozen=True, slots=True)
class Phase2Result:
    """Who is to leave, and what stays open."""

    actions: tuple[Action, ...]
    unresolved: tuple[Unresolved, ...]


def run_phase2(phase: Phase1) -> Phase2Result:
    """Find victims for every need that is still short, the highest priority first."""
    index = phase.index
    needs = [item.need for item in phase.needs]
    short = [place for place in range(len(needs)) if (phase.missing[place] > 0).any()]
    short.sort(key=lambda place: (-needs[place].profile.priority, place))
    victims = _Victims(phase)
    draining = _Draining(index)
    actions: list[Action] = []
    unresolved: list[Unresolved] = []
    for place in short:
        need, missing = needs[place], phase.missing[place]
        gang = need.profile.same_key is not None
        if phase.parked[place] or (gang and phase.domain[place] == NO_DOMAIN):
            unresolved.append(Unresolved(place, index.scale.resources(missing)))
            continue
        usable = _usable_kinds(phase, place)
        missing = draining.count_for(need.cluster, need.profile.fingerprint, need.group, usable, missing)
        taken = victims.take(place, usable, missing) if (missing > 0).any() else []
        for machine in taken:
            priority = int(index.assigned_priority[machine])
            actions.append(
                Action(
                    ActionKind.PREEMPT,
                    index.machine_id(machine),
                    cluster=index.cluster_name(int(index.cluster[machine])),
                    need=place,
                    grace_s=drain_grace_s(need.profile.priority, priority),
                    preemptor_priority=need.profile.priority,
                )
            )
        freed = index.capacity_of(np.array(taken, dtype=np.intp)).sum(axis=0)
        left = np.maximum(missing - freed, 0)
        if (left > 0).any():
            unresolved.append(
                Unresolved(place, index.scale.resources(left), len(taken), _freed(index, taken))
            )
    return Phase2Result(tuple(actions), tuple(unresolved))


def _freed(index: MachineIndex, machines: Sequence[int]) -> Resources:
    return reduce(add, (index.full_capacity(machine) for machine in machines), ZERO)


def _usable_kinds(phase: Phase1, place: int) -> Flags:
    """Kinds that could serve the need: matching, of a pinned type, covering the unit, and in a gang's domain."""
    index, need = phase.index, phase.needs[place].need
    flags = index.acquirable(need)
    if need.profile.same_key is not None:
        flags = flags & (index.values(need.profile.same_key).codes == phase.domain[place])
    return flags


class _Victims:
    """Configured machines in the order in which they are given up, each at most once."""

    def __init__(self, phase: Phase1) -> None:
        self._phase, index = phase, phase.index
        configured = index.in_state(MachineState.CONFIGURED)
        costs = index.victim_costs(configured)
        self._order: Numbers = configured[
            np.lexsort((configured, index.assigned_priority[configured], costs))
        ]
        self._taken = np.zeros(len(index), dtype=np.bool_)

    def take(self, place: int, usable: Flags, missing: Vector) -> list[int]:
        index, need = self._phase.index, self._phase.needs[place].need
        order = self._order
        candidates = order[
            usable[index.kind[order]]
            & (index.assigned_priority[order] < need.profile.priority)
            & ~self._taken[order]
        ]
        candidates = candidates[~self._protected(candidates, need.profile.precedence)]
        taken = candidates[: first_covering(index.capacity_of(candidates), missing)]
        self._taken[taken] = True
        return [int(machine) for machine in taken]

    def _protected(self, machines: Numbers, mine: tuple[int, int, int]) -> NDArray[np.bool_]:
        """Which machines are claimed this cycle by a need that does not rank below the preemptor (E3)."""
        owners = self._phase.broker.owner[machines].tolist()
        needs = self._phase.needs
        flags = (owner >= 0 and needs[owner].need.profile.precedence >= mine for owner in owners)
        return np.fromiter(flags, dtype=np.bool_, count=machines.size)


class _Draining:
    """Machines that drain because of an earlier preemption, each counted once for a need it was taken for (E4)."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        self._by_need: dict[tuple[str, str, str], list[int]] = {}
        for machine in index.in_state(MachineState.DRAINING).tolist():
            need = index.draining_for(machine)
            if need is not None:
                self._by_need.setdefault((need.cluster, need.fingerprint, need.group), []).append(machine)

    def count_for(self, cluster: str, fingerprint: str, group: str, usable: Flags, missing: Vector) -> Vector:
        """What is still missing once machines on their way are counted, by id."""
        waiting = self._by_need.get((cluster, fingerprint, group), [])
        index = self._index
        fitting = [machine for machine in waiting if usable[index.kind[machine]]]
        count = first_covering(index.capacity_of(np.array(fitting, dtype=np.intp)), missing)
        counted = fitting[:count]
        self._by_need[(cluster, fingerprint, group)] = [
            machine for machine in waiting if machine not in counted
        ]
        left: Vector = np.maximum(
            missing - index.capacity_of(np.array(counted, dtype=np.intp)).sum(axis=0), 0
        )
        return left
