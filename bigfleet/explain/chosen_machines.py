"""Counts what a need has and would take next, in columns.

Rules: `dashboard#explain-steps`, `engine#pools`.
"""

import numpy as np

from bigfleet.explain import fleet_summary
from bigfleet.explain.columns import Codes, MachineColumns, Places
from bigfleet.explain.fit import step_in
from bigfleet.explain.fleet_summary import STEPS, ChosenClass, Looks, looks_of
from bigfleet.model.machine import MachineState, Shape
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources

S = MachineState


class ChosenMachines:
    """Counts machines that a need has, or could have."""

    def __init__(self, columns: MachineColumns) -> None:
        self._columns = columns

    def taken(
        self, places: Places, need: Need
    ) -> tuple[dict[MachineState, int], dict[MachineState, Resources]]:
        """The number of these machines in each state, and what they count as towards a need."""
        taken, offered = dict.fromkeys(STEPS, 0), dict.fromkeys(STEPS, ZERO)
        columns, shapes = self._columns, self._columns.kinds.sized
        sizes = columns.kinds.size[columns.kind[places]]
        counts = np.bincount(columns.state[places] * len(shapes) + sizes)
        for code in np.flatnonzero(counts).tolist():
            state, count = S(code // len(shapes)), int(counts[code])
            taken[state] += count
            offered[state] += need.counted(shapes[code % len(shapes)]).scaled(count)
        return taken, offered

    def classes(self, *chosen: tuple[Places, str]) -> list[ChosenClass]:
        """Classes of machines with the way the need got them; an empty way means the step of their state."""
        return [seen for places, how in chosen for seen in self._classes(places, how)]

    def _classes(self, places: Places, how: str) -> list[ChosenClass]:
        numbers: dict[tuple[str, Looks], int] = {}
        firsts: list[tuple[str, MachineState, Shape]] = []
        codes, looks = self._looks(places)
        class_of = np.zeros(len(looks), dtype=np.intp)
        for code, (state, shape) in enumerate(looks):
            words = how or step_in(state)
            number = numbers.setdefault((words, looks_of(state, shape)), len(firsts))
            if number == len(firsts):
                firsts.append((words, state, shape))
            class_of[code] = number
        return self._seen(places, class_of[codes], firsts)

    def _seen(
        self, places: Places, classes: Codes, firsts: list[tuple[str, MachineState, Shape]]
    ) -> list[ChosenClass]:
        if not firsts:
            return []
        counts = np.bincount(classes, minlength=len(firsts)).tolist()
        examples = self._columns.first_ids(places, classes, len(firsts), fleet_summary.EXAMPLES)
        return [
            ChosenClass(*first, count, ids)
            for first, count, ids in zip(firsts, counts, examples, strict=True)
        ]

    def _looks(self, places: Places) -> tuple[Codes, list[tuple[MachineState, Shape]]]:
        """A number per machine, and the state and shape that each number means."""
        shapes = self._columns.snapshot.shapes
        codes = self._columns.state[places] * np.intp(len(shapes)) + self._columns.shape(places)
        there = np.flatnonzero(np.bincount(codes))
        dense = np.zeros(int(there[-1]) + 1 if there.size else 0, dtype=np.intp)
        dense[there] = np.arange(there.size)
        looks = [(S(code // len(shapes)), shapes[code % len(shapes)]) for code in there.tolist()]
        return dense[codes], looks

    def next_best(self, places: Places, need: Need) -> ChosenClass | None:
        """The machine that would be taken next if the need wanted more; Idle ones come first."""
        state = self._columns.state[places]
        idle, speculative = places[state == S.IDLE], places[state == S.SPECULATIVE]
        _, ranks = self._columns.kinds.by_cost(need.profile.interruption_bucket)
        if idle.size:
            best, alike = self._first_idle(idle, ranks), idle
        elif speculative.size:
            best, alike = int(np.argmin(ranks[self._columns.kind[speculative]])), speculative
        else:
            return None
        codes, looks = self._looks(alike)
        state_of, shape = looks[int(codes[best])]
        wanted = looks_of(state_of, shape)
        same = np.array([looks_of(*look) == wanted for look in looks], dtype=np.bool_)[codes]
        first = (f"would be {step_in(state_of)}", state_of, shape)
        return self._seen(alike[same], np.zeros(int(same.sum()), dtype=np.intp), [first])[0]

    def _first_idle(self, idle: Places, ranks: Codes) -> int:
        """The index of the one that is taken first: by effective cost, by reclamation penalty, by id."""
        columns = self._columns
        costs = ranks[columns.kind[idle]]
        cheap = np.flatnonzero(costs == costs.min())
        penalties = columns.stamps.reclamation[columns.stamp(idle[cheap])]
        return int(cheap[np.argmin(penalties)])
