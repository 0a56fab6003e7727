"""The last state changes of each machine: those that actions made, and those found by comparing consecutive cycles.

Why: readers ask how a single machine got into its state long after the cycle that changed it. Two snapshots differ in
few rows, so the whole fleet is compared at once and only changes are kept. An action can change a machine twice between
two cycles, so the executor notes each of its changes.
Must never: keep a snapshot alive, or grow beyond its bound. What the provider changes between two cycles is not seen.
Rules: `dashboard#explain-machine`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.inventory.snapshot import Texts
from bigfleet.model.machine import MachineState
from bigfleet.shard.core.views import CycleView, StateChange

PER_MACHINE: Final = 20
MACHINES_KEPT: Final = 50_000
"""Machines kept, at about 300 bytes each; the one that changed longest ago is dropped first."""
FRESH_LOGGED: Final = 10_000
"""More new machines than this at once are a first listing, and are not logged."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A state change of a machine; an empty state means that the machine did not exist."""

    at_ns: int
    before: str
    after: str
    cause: str
    """`action` when the shard had queued one for the machine, else `reconcile`: the provider reported it."""


class TransitionLog:
    """State changes by machine."""

    def __init__(self, machines_kept: int = MACHINES_KEPT) -> None:
        self._kept = machines_kept
        self._changes: OrderedDict[str, tuple[Transition, ...]] = OrderedDict()
        self._seen: tuple[NDArray[Any], Texts] | None = None

    def add(self, view: CycleView, acted_on: Iterable[str], made: Sequence[StateChange] = ()) -> None:
        """Add the changes since the last cycle.

        `acted_on` are the machines with actions queued since then, `made` the changes that actions made until its snapshot.
        """
        states, ids = view.every_machine.columns["state"], view.every_machine.ids
        seen, self._seen = self._seen, (states, ids)
        if seen is None or _moved(seen[1], ids):
            return  # nothing to compare with; after a compaction of the ids the changes of one cycle are lost
        acted = frozenset(acted_on)
        steps: dict[str, list[StateChange]] = {}
        for change in made:
            steps.setdefault(change.machine_id, []).append(change)
        for machine_id, before, after in _changed(seen, (states, ids)):
            known = before
            for step in steps.pop(machine_id, ()):
                self._add(machine_id, step.at_ns, known, step.before, acted)
                self._add_made(step)
                known = step.after
            self._add(machine_id, view.computed_at_ns, known, after, acted)
        for there_and_back in steps.values():
            for step in there_and_back:
                self._add_made(step)

    def of(self, machine_id: str) -> tuple[Transition, ...]:
        """The known changes of a machine, newest first."""
        return self._changes.get(machine_id, ())[::-1]

    def _add(self, machine_id: str, at_ns: int, before: int, after: int, acted: frozenset[str]) -> None:
        if before != after:
            cause = "action" if machine_id in acted else "reconcile"
            self._keep(machine_id, Transition(at_ns, _label(before), _label(after), cause))

    def _add_made(self, step: StateChange) -> None:
        self._keep(step.machine_id, Transition(step.at_ns, step.before.label, step.after.label, "action"))

    def _keep(self, machine_id: str, change: Transition) -> None:
        known = self._changes.pop(machine_id, ())
        self._changes[machine_id] = (*known, change)[-PER_MACHINE:]
        if len(self._changes) > self._kept:
            self._changes.popitem(last=False)


_Seen = tuple[NDArray[Any], Texts]


def _moved(before: Texts, after: Texts) -> bool:
    """Whether the ids were compacted, so that a row's text moved although its machine is the same."""
    return before.buffer is not after.buffer and after.buffer.size < before.buffer.size


def _changed(before: _Seen, after: _Seen) -> Iterator[tuple[str, int, int]]:
    """Changed machines by id with the state before and after, 0 for none; in row order, which is deterministic."""
    (old_states, old_ids), (states, ids) = before, after
    common = min(old_states.size, states.size)
    # A reused row has its id at another place of the buffer.
    same: NDArray[np.bool_] = old_ids.offsets[:common] == ids.offsets[:common]
    for row in np.flatnonzero(same & (old_states[:common] != states[:common])).tolist():
        yield ids.get(row) or old_ids.get(row) or "", int(old_states[row]), int(states[row])
    replaced = np.flatnonzero(~same)
    for row in replaced[old_states[replaced] != 0].tolist():
        yield old_ids.get(row) or "", int(old_states[row]), 0
    fresh = np.concatenate([replaced[states[replaced] != 0], common + np.flatnonzero(states[common:])])
    if fresh.size <= FRESH_LOGGED:
        for row in fresh.tolist():
            yield ids.get(row) or "", 0, int(states[row])


def _label(state: int) -> str:
    return MachineState(state).label if state else ""
