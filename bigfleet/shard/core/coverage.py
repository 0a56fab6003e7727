"""How far the machines of each need are: running, joining, on order or wanted; and what is missing.

Why: the engine credits a machine to a need as soon as it is decided or in flight. People ask something else: what serves
the need now, what comes because the provider accepted it, and what does not come. Machines move on between two cycles,
so the machines on which the shard acts are read again at the moment of the question.
Must never: look at machines one by one, except those in flight; or change what the engine decided.
Rules: `shard#coverage-split`, `engine#crediting`, `engine#max-units-per-machine`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.verdicts import Verdicts, needs_of, short_places
from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources
from bigfleet.shard.core.views import CycleView

NOT_ACCEPTED: Final = "not-accepted"
"""The reason where nothing is held off and the provider has still not accepted a call for two cycles."""
PATIENCE_CYCLES: Final = 2
"""For how many cycle intervals a need may want machines before it counts as short."""

_RUNNING, _JOINING, _ON_ORDER, _WANTED, _LEAVING = range(5)
_PARTS: Final = 5
_Places = NDArray[np.intp]

_PART_OF: Final = np.full(len(MachineState), _WANTED, dtype=np.int8)
_PART_OF[MachineState.CONFIGURED] = _RUNNING
_PART_OF[MachineState.CONFIGURING] = _JOINING
_PART_OF[MachineState.CREATING] = _ON_ORDER
_PART_OF[MachineState.DRAINING] = _LEAVING


@dataclass(frozen=True, slots=True)
class LiveMachines:
    """What the shard knows at the moment of reading, beyond the last cycle."""

    states: Mapping[str, MachineState | None]
    """The present state of machines on which the shard acts; None for one that is gone."""
    is_accepted: Callable[[str], bool]
    """As `ShardViews.is_accepted`."""


class HeldMachines:
    """Which need holds which machine in one cycle; made once per cycle, and it does not keep the cycle."""

    def __init__(self, view: CycleView) -> None:
        verdicts, snapshot = view.decision.verdicts, view.snapshot
        states = snapshot.columns["state"]
        self.needs: int = len(verdicts)
        self.holder: NDArray[np.int32] = _holders(view)
        """By row the place of the need that holds the machine, or -1."""
        held = self.holder >= 0
        in_flight = held & (states != MachineState.CONFIGURED)
        for rows in verdicts.victims.values() if isinstance(verdicts, Verdicts) else ():
            in_flight[rows] = held[rows]
        self.rows: _Places = np.flatnonzero(in_flight)
        """The held machines that do not simply run."""
        self.places: NDArray[np.int32] = self.holder[self.rows]
        self.states: NDArray[np.uint8] = states[self.rows]
        self.ids: list[str] = [text or "" for text in snapshot.ids.many(self.rows)]
        self.running: _Places = np.bincount(self.holder[held & ~in_flight], minlength=self.needs)
        """By place the machines that run, and on which nothing acts."""

    def acted_on(self, view: CycleView, is_pending: Callable[[str], bool]) -> list[str]:
        """The machines in flight whose state may have changed since the cycle."""
        dispatched = frozenset(action.machine_id for action in view.facts.dispatched)
        return [each for each in self.ids if each in dispatched or is_pending(each)]

    @cached_property
    def open_places(self) -> frozenset[int]:
        """The needs with machines in flight; the split of all others is the same until the next cycle."""
        return frozenset(np.unique(self.places).tolist())


def held_off_reason(held_off: str) -> str:
    """A reason why machines do not come, in the form of a verdict's reason: `PROVIDER_UNREACHABLE`."""
    return held_off.upper().replace("-", "_")


def _holders(view: CycleView) -> NDArray[np.int32]:
    verdicts, snapshot = view.decision.verdicts, view.snapshot
    size = snapshot.columns["state"].size
    if isinstance(verdicts, Verdicts):
        return verdicts.holders(size)
    holders = np.full(size, -1, dtype=np.int32)
    for place, verdict in enumerate(verdicts):
        for machine_id in verdict.claimed:
            row = snapshot.row_of(machine_id)
            if row is not None:
                holders[row] = place
    return holders


class Coverage:
    """The split of every need of a cycle at one moment."""

    def __init__(
        self,
        view: CycleView,
        held: HeldMachines,
        live: LiveMachines,
        *,
        now_s: float,
        cycle_interval_s: float,
    ) -> None:
        """`now_s` is on the clock of `CycleView.now`."""
        self._view, self._held, self._now_s = view, held, now_s
        self._patience_s = PATIENCE_CYCLES * cycle_interval_s
        self._part: NDArray[np.int8] = _parts(held, live)
        counts = np.bincount(held.places * _PARTS + self._part, minlength=held.needs * _PARTS)
        self._counts: _Places = counts.reshape(held.needs, _PARTS)
        self._counts[:, _RUNNING] += held.running

    def of(self, place: int) -> CoverageSplit:
        """The split of the need at a place of the verdicts."""
        running, joining, on_order, wanted, _ = self._counts[place].tolist()
        missing = self._missing.get(place, ZERO)
        waits = wanted > 0 and not missing.is_zero
        return CoverageSplit(
            running,
            joining,
            on_order,
            wanted,
            missing,
            self._reason(place) if waits else "",
            self._waiting_s(place) if waits else 0.0,
        )

    @property
    def open_places(self) -> frozenset[int]:
        """The needs with machines in flight; the split of all others is the same until the next cycle."""
        return self._held.open_places

    @property
    def total(self) -> CoverageSplit:
        """The split of all needs together."""
        return _sum(self._counts, self._missing.values())

    def by_cluster(self) -> dict[str, CoverageSplit]:
        """The split of the needs of each cluster with demand."""
        places: dict[str, list[int]] = {}
        for place, need in enumerate(needs_of(self._view.decision.verdicts)):
            places.setdefault(need.cluster, []).append(place)
        missing = self._missing
        return {
            name: _sum(self._counts[own], [missing[place] for place in own if place in missing])
            for name, own in sorted(places.items())
        }

    @cached_property
    def uncovered(self) -> tuple[int, ...]:
        """The needs that running, joining and on order do not cover, in list order."""
        return tuple(sorted(self._missing))

    @cached_property
    def held_short(self) -> Mapping[int, str]:
        """The needs that are short although the engine found machines for them: why these do not come, by place."""
        view = self._view
        engine_short = frozenset(short_places(view.decision.verdicts))
        candidates = sorted({*view.held_off, *view.waiting_since_s} - engine_short)
        splits = ((place, self.of(place)) for place in candidates)
        return {place: split.held_off for place, split in splits if split.held_off}

    def _reason(self, place: int) -> str:
        held_off = self._view.held_off.get(place)
        if held_off is not None:
            return held_off.value
        waits = place in self._view.waiting_since_s and self._waiting_s(place) >= self._patience_s
        return NOT_ACCEPTED if waits else ""

    def _waiting_s(self, place: int) -> float:
        since_s = self._view.waiting_since_s.get(place)
        return 0.0 if since_s is None else max(0.0, self._now_s - since_s)

    @cached_property
    def _missing(self) -> dict[int, Resources]:
        """What is missing of every need that is not covered."""
        verdicts = self._view.decision.verdicts
        not_coming = np.flatnonzero(self._counts[:, _WANTED:].sum(axis=1))
        doubtful = sorted({*short_places(verdicts), *not_coming.tolist()})
        if not doubtful:
            return {}
        needs = needs_of(verdicts)
        found: dict[int, Resources] = {}
        capacities = self._capacities(np.array(doubtful, dtype=np.intp), needs)
        for place in doubtful:
            missing = needs[place].total - capacities.get(place, ZERO)
            if not missing.is_zero:
                found[place] = missing
        return found

    def _capacities(self, places: _Places, needs: Sequence[Need]) -> dict[int, Resources]:
        """What all that runs, joins or is on order for some needs counts as; added up per shape."""
        held, snapshot = self._held, self._view.snapshot
        wanted = np.zeros(held.needs + 1, dtype=np.bool_)  # the last one is for machines that no need holds
        wanted[places] = True
        counts_for = wanted[held.holder]
        counts_for[held.rows[self._part >= _WANTED]] = False
        rows = np.flatnonzero(counts_for)
        shapes = max(1, len(snapshot.shapes))
        keys = held.holder[rows].astype(np.int64) * shapes + snapshot.columns["shape"][rows]
        found: dict[int, Resources] = {}
        for key, count in zip(*(part.tolist() for part in np.unique(keys, return_counts=True)), strict=True):
            place, shape = divmod(key, shapes)
            capacity = needs[place].counted(snapshot.shapes[shape]).scaled(count)
            found[place] = found[place] + capacity if place in found else capacity
        return found


def _parts(held: HeldMachines, live: LiveMachines) -> NDArray[np.int8]:
    """The part that each machine in flight belongs to."""
    states = held.states
    if live.states:
        states = states.copy()
        for at, machine_id in enumerate(held.ids):
            if machine_id in live.states:
                state = live.states[machine_id]
                states[at] = MachineState.FAILED if state is None else state
    part: NDArray[np.int8] = _PART_OF[states]
    for at in np.flatnonzero(part == _ON_ORDER).tolist():
        if not live.is_accepted(held.ids[at]):
            part[at] = _WANTED
    return part


def _sum(counts: _Places, missing: Iterable[Resources]) -> CoverageSplit:
    running, joining, on_order, wanted, _ = counts.sum(axis=0).tolist()
    amounts: dict[str, int] = {}
    for item in missing:
        for name, amount in item.items():
            amounts[name] = amounts.get(name, 0) + amount
    return CoverageSplit(running, joining, on_order, wanted, Resources(amounts))
