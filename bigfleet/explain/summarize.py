"""Counts the fleet for one need, column by column.

Why: a shard with half a million machines explains a need in a few hundredths of a second, since cycles and sessions share the
interpreter. A class of thousands, such as the clusters of a fleet, is an array; only what is shown becomes an object.
Must never: change the order of the tests, which is that of `bigfleet.explain.fit.FitChecker`. A property test compares the
result with a plain count of records.
Rules: `dashboard#explain-classes`.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from bigfleet.engine.key_values import KeyValues
from bigfleet.explain import fleet_summary
from bigfleet.explain.chosen_machines import ChosenMachines
from bigfleet.explain.columns import Codes, Flags, Places, flags_of, numbered
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.fit import FREE, GONE, FitChecker, FitResult, MachineFit, below_unit, not_met
from bigfleet.explain.fleet_summary import FIT_RESULTS, STEPS, WAITING, FleetSummary, RefusedClass
from bigfleet.model.machine import BOUND_STATES, MachineState

S = MachineState
_GONE, _BOUND, _FREE = flags_of(GONE), flags_of(tuple(BOUND_STATES)), flags_of(FREE)
_STATES = len(MachineState)
_NO_FLAW = -1


def summarize_fleet(cycle: DecidedCycle, checker: FitChecker) -> FleetSummary:
    """Classify and count every machine once."""
    return _Summary(cycle, checker).make()


class _RefusedFamily(NamedTuple):
    """Machines with one result, and the detail of each by number."""

    result: FitResult
    places: Places
    codes: Codes
    texts: Sequence[str]


class _Summary:
    """The count for one need, while it is made."""

    def __init__(self, cycle: DecidedCycle, checker: FitChecker) -> None:
        self._cycle, self._checker = cycle, checker
        self._columns = cycle.columns
        self._kinds = cycle.columns.kinds
        self._mine = np.flatnonzero(self._columns.holder == checker.place)
        self._chosen = np.zeros(len(self._columns), dtype=np.bool_)
        self._chosen[self._mine] = True
        self._leaving = self._take(self._columns.leaving_for(checker.place))
        self._draining = self._take(cycle.draining_places(checker.place))

    def _take(self, places: Places) -> Places:
        """Mark machines as chosen and return those that were not."""
        more = places[~self._chosen[places]]
        self._chosen[more] = True
        return more

    def make(self) -> FleetSummary:
        columns = self._columns
        bound, near = self._bound()
        state, kind = columns.state[near], columns.kind[near]
        held_back, free, fits = self._flaws()
        flaw = held_back[kind] if held_back is free else np.where(_FREE[state], free[kind], held_back[kind])
        suits = flaw == _NO_FLAW
        inside = self._inside()
        fitting = np.bincount(state[suits if inside is None else suits & inside[kind]], minlength=_STATES)
        left = ~self._chosen[near]
        unfit = left & ~suits
        families = [*bound, *_by_result(near[unfit], flaw[unfit], fits)]
        rest = near[left & suits]
        holder = columns.holder[rest]
        claimed, whose = rest[holder >= 0], holder[holder >= 0]
        unheld = list(self._unheld(rest[holder < 0], inside))
        refused = [shown for family in (*families, *unheld) for shown in self._shown(family)]
        refused += self._claimed(claimed, whose)
        refused.sort(key=lambda item: FIT_RESULTS.index(item.fit.result))
        waiting = [family.places for family in unheld if family.result in WAITING]
        choice, checker = ChosenMachines(columns), self._checker
        taken, offered = choice.taken(self._mine, checker.need)
        others = (self._leaving, FitResult.PREEMPTED.value), (self._draining, FitResult.IN_FLIGHT.value)
        return FleetSummary(
            fitting={step: int(fitting[step]) for step in STEPS},
            taken=taken,
            offered=offered,
            chosen=choice.classes((self._mine, ""), *others),
            next_best=choice.next_best(waiting[0], checker.need) if waiting else None,
            refused=refused,
            held=self._held(whose),
        )

    # The tests, in their order

    def _bound(self) -> tuple[list[_RefusedFamily], Places]:
        """Machines that are gone, bound or on order elsewhere; and the places of all others."""
        columns = self._columns
        number = columns.snapshot.clusters.number(self._checker.need.cluster)
        gone = _GONE[columns.state]
        elsewhere = _BOUND[columns.state] & (columns.cluster != (-1 if number is None else number))
        ordered, codes, texts = self._ordered()
        near = ~(gone | elsewhere)
        near[ordered] = False
        left = ~self._chosen
        gone_places, elsewhere_places = np.flatnonzero(gone & left), np.flatnonzero(elsewhere & left)
        names = columns.cluster_names()
        families = [
            _RefusedFamily(
                FitResult.WRONG_STATE, gone_places, columns.state[gone_places], [s.label for s in S]
            ),
            _RefusedFamily(
                FitResult.OTHER_CLUSTER, elsewhere_places, columns.cluster[elsewhere_places], names
            ),
            _RefusedFamily(FitResult.OTHER_ORDER, ordered[left[ordered]], codes[left[ordered]], texts),
        ]
        return families, np.flatnonzero(near)

    def _ordered(self) -> tuple[Places, Codes, Sequence[str]]:
        """The machines on order for other needs, and what they are ordered for."""
        creating = self._columns.in_state(S.CREATING)
        stamps, which = np.unique(self._columns.stamp(creating), return_inverse=True)
        found = [self._checker.on_order(self._columns.stamps[number]) for number in stamps.tolist()]
        others = np.array([fit is not None for fit in found], dtype=np.bool_)
        codes, texts = numbered(["" if fit is None else fit.detail for fit in found])
        away = others[which] if which.size else np.zeros(0, dtype=np.bool_)
        return creating[away], codes[which[away]], texts

    def _flaws(self) -> tuple[Codes, Codes, list[MachineFit]]:
        """The first test that machines of each kind fail, for bound and for free ones; and the fits by these numbers."""
        need, kinds = self._checker.need, self._kinds
        flaw = np.full(len(kinds), _NO_FLAW, dtype=np.intp)
        fits: dict[MachineFit, int] = {}
        tests: list[tuple[MachineFit, Flags]] = [
            (not_met(requirement), ~kinds.meeting(requirement)) for requirement in need.profile.requirements
        ]
        tests += [(below_unit(name, wanted), kinds.below(name, wanted)) for name, wanted in need.unit.items()]
        for fit, failed in tests:
            flaw[failed & (flaw == _NO_FLAW)] = fits.setdefault(fit, len(fits))
        free = flaw
        if need.profile.refuses_interruptible:
            refused = fits.setdefault(MachineFit(FitResult.INTERRUPTIBLE), len(fits))
            free = np.where(kinds.interruptible & (flaw == _NO_FLAW), refused, flaw)
        if not need.profile.pinned_types:
            return flaw, free, list(fits)
        types = kinds.types()
        numbers, texts = numbered([text or "none" for text in types.values])
        other_type = numbers[types.codes] + len(fits)
        pinned = [MachineFit(FitResult.PINNED_TYPE, text) for text in texts]
        return flaw, np.where(kinds.pinned(need.profile), free, other_type), [*fits, *pinned]

    def _inside(self) -> Flags | None:
        """The kinds in the domain of a gang; None when there is no domain to keep to."""
        key, domain = self._checker.need.profile.same_key, self._checker.domain
        if key is None or domain is None:
            return None
        return self._cycle.kinds_in(key, domain)

    def _unheld(self, places: Places, inside: Flags | None) -> Iterator[_RefusedFamily]:
        """Machines that fit and that no need holds."""
        verdict = self._cycle.verdict(self._checker.place)
        key, spread = self._checker.need.profile.same_key, self._checker.spread
        if inside is not None and key is not None:
            there = inside[self._columns.kind[places]]
            yield self._by_value(FitResult.OUTSIDE_DOMAIN, places[~there], self._kinds.values(key))
            places = places[there]
        if verdict.satisfied or ((spread is None or key is not None) and not verdict.parked):
            yield _RefusedFamily(FitResult.NOT_NEEDED, places, np.zeros(places.size, dtype=np.intp), [""])
        elif verdict.parked or spread is None:
            yield _RefusedFamily(FitResult.PARKED, places, np.zeros(places.size, dtype=np.intp), [""])
        else:
            values = self._kinds.values_as_met(spread.topology_key)
            has = values.present[self._columns.kind[places]]
            lacking = places[~has]
            yield self._by_value(FitResult.SPREAD_LIMIT, places[has], values)
            codes = np.zeros(lacking.size, dtype=np.intp)
            yield _RefusedFamily(FitResult.SPREAD_KEY, lacking, codes, [spread.topology_key])

    def _by_value(self, result: FitResult, places: Places, values: KeyValues) -> _RefusedFamily:
        return _RefusedFamily(result, places, values.codes[self._columns.kind[places]], values.values)

    # What is shown of them

    def _shown(self, family: _RefusedFamily) -> list[RefusedClass]:
        def first(codes: list[int], count: int) -> list[int]:
            return nsmallest(count, codes, key=family.texts.__getitem__)

        def fit(code: int) -> MachineFit:
            return MachineFit(family.result, family.texts[code])

        return self._refused(family.result, family.places, family.codes, first, fit)

    def _claimed(self, places: Places, whose: Codes) -> list[RefusedClass]:
        checker, cycle = self._checker, self._cycle

        def first(codes: list[int], count: int) -> list[int]:
            relations: dict[str, list[int]] = {}
            for code in codes:
                relations.setdefault(checker.relation(code), []).append(code)
            found: list[int] = []
            for _, alike in sorted(relations.items()):
                found += cycle.first_by_number(alike, count - len(found))
            return found

        return self._refused(FitResult.CLAIMED, places, whose, first, checker.claimed)

    def _refused(
        self,
        result: FitResult,
        places: Places,
        codes: Codes,
        first: Callable[[list[int], int], list[int]],
        fit: Callable[[int], MachineFit],
    ) -> list[RefusedClass]:
        """The most common classes of one result, and all others as one."""
        if not places.size:
            return []
        counts = np.bincount(codes)
        there = np.flatnonzero(counts)
        most = there.size if there.size <= fleet_summary.REFUSALS_SHOWN else fleet_summary.REFUSALS_SHOWN - 1
        shown = _most_common(counts, there, most, first)
        slots = np.full(counts.size, most, dtype=np.intp)
        slots[shown] = np.arange(most)
        others = there.size - most
        examples = self._columns.first_ids(places, slots[codes], most + bool(others), fleet_summary.EXAMPLES)
        shown_classes = [
            RefusedClass(fit(code), int(counts[code]), ids)
            for code, ids in zip(shown, examples, strict=not others)
        ]
        if others:
            count = places.size - sum(item.count for item in shown_classes)
            shown_classes.append(RefusedClass(MachineFit(result), count, examples[-1], others))
        return shown_classes

    def _held(self, whose: Codes) -> list[tuple[MachineFit, int]]:
        if not whose.size:
            return []
        counts = np.bincount(whose)
        there = np.flatnonzero(counts)
        most = min(there.size, fleet_summary.COMPETITORS)
        shown = _most_common(counts, there, most, self._cycle.first_by_number)
        return [(self._checker.claimed(holder), int(counts[holder])) for holder in shown]


def _by_result(places: Places, codes: Codes, fits: Sequence[MachineFit]) -> Iterator[_RefusedFamily]:
    """Unfit machines, by the test they fail."""
    texts = [fit.detail for fit in fits]
    for result in dict.fromkeys(fit.result for fit in fits):
        of_it = np.array([fit.result is result for fit in fits], dtype=np.bool_)[codes]
        yield _RefusedFamily(result, places[of_it], codes[of_it], texts)


def _most_common(
    counts: Codes, there: Places, most: int, first: Callable[[list[int], int], list[int]]
) -> list[int]:
    """The `most` largest classes that are there; `first` orders equally large ones."""
    found = counts[there]
    least = 0 if most == there.size else int(np.partition(found, -most)[-most])
    larger = first(there[found > least].tolist(), most)
    larger.sort(key=lambda code: -int(counts[code]))  # stable: equally large ones stay in order
    return [*larger, *first(there[found == least].tolist(), most - len(larger))]
