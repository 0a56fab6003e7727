"""The last changes of state of each machine, seen from one cycle to the next.

Why: "how did it get here" is asked of single machines, long after the cycle that moved them. Two snapshots differ in few
rows, so the whole fleet is compared at once and only what changed is written down.
Must never: keep a snapshot alive, or grow beyond its bound. States that come and go between two cycles are not seen.
Rules: dashboard 6.2.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.inventory.snapshot import Texts
from bigfleet.model.machine import MachineState
from bigfleet.shard.core.views import CycleView

PER_MACHINE: Final = 20
MACHINES_KEPT: Final = 50_000
"""Machines remembered, those that changed longest ago forgotten first; about 300 bytes each."""
FRESH_TOLD: Final = 10_000
"""More new machines than this at once are a first listing and no news."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A machine changed its state; an empty state means that it was, or is, not there."""

    at_ns: int
    before: str
    after: str
    cause: str
    """`action` when the shard had one queued for the machine, else `reconcile`: the provider told so."""


class TransitionLog:
    """What changed, machine by machine."""

    def __init__(self, machines_kept: int = MACHINES_KEPT) -> None:
        self._kept = machines_kept
        self._changes: OrderedDict[str, tuple[Transition, ...]] = OrderedDict()
        self._seen: tuple[NDArray[Any], Texts] | None = None

    def note(self, view: CycleView, acted_on: Iterable[str]) -> None:
        """Take down what changed since the cycle before; `acted_on` are the machines that actions were queued for since."""
        states, ids = view.snapshot.columns["state"], view.snapshot.ids
        seen, self._seen = self._seen, (states, ids)
        if seen is None or _moved(seen[1], ids):
            return  # nothing to compare with; after the texts of all ids were moved, one step of the story is lost
        acted = frozenset(acted_on)
        for machine_id, before, after in _changed(seen, (states, ids)):
            self._add(machine_id, view.computed_at_ns, before, after, acted)

    def of(self, machine_id: str) -> tuple[Transition, ...]:
        """What is remembered of a machine, the newest first."""
        return self._changes.get(machine_id, ())[::-1]

    def _add(self, machine_id: str, at_ns: int, before: int, after: int, acted: frozenset[str]) -> None:
        cause = "action" if machine_id in acted else "reconcile"
        change = Transition(at_ns, _label(before), _label(after), cause)
        known = self._changes.pop(machine_id, ())
        self._changes[machine_id] = (*known, change)[-PER_MACHINE:]
        if len(self._changes) > self._kept:
            self._changes.popitem(last=False)


_Seen = tuple[NDArray[Any], Texts]


def _moved(before: Texts, after: Texts) -> bool:
    """Whether the ids were packed anew, so that a row's text lies elsewhere though its machine is the same."""
    return before.buffer is not after.buffer and after.buffer.size < before.buffer.size


def _changed(before: _Seen, after: _Seen) -> Iterator[tuple[str, int, int]]:
    """Machines by id with the state before and after, 0 for not there; by row, which is nobody's order but a fixed one."""
    (old_states, old_ids), (states, ids) = before, after
    common = min(old_states.size, states.size)
    # A row that is used again has its id at another place of the buffer.
    same: NDArray[np.bool_] = old_ids.offsets[:common] == ids.offsets[:common]
    for row in np.flatnonzero(same & (old_states[:common] != states[:common])).tolist():
        yield ids.get(row) or old_ids.get(row) or "", int(old_states[row]), int(states[row])
    replaced = np.flatnonzero(~same)
    for row in replaced[old_states[replaced] != 0].tolist():
        yield old_ids.get(row) or "", int(old_states[row]), 0
    fresh = np.concatenate([replaced[states[replaced] != 0], common + np.flatnonzero(states[common:])])
    if fresh.size <= FRESH_TOLD:
        for row in fresh.tolist():
            yield ids.get(row) or "", 0, int(states[row])


def _label(state: int) -> str:
    return MachineState(state).label if state else ""
