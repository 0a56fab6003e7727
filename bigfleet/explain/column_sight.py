"""What one need sees of the fleet of a running shard, counted in columns.

Why: a shard with half a million machines tells why one need fares as it does in a few hundredths of a second of computing, in
which cycles and sessions share the interpreter with it. A class of thousands, as the clusters of a fleet or the needs that
hold what this one could use, is an array; only what is shown becomes an object.
Must never: see anything else than `bigfleet.explain.sight` sees in records of the same cycle; a property test holds that. The
order of the tests is that of `bigfleet.explain.standing.Judge`.
Rules: dashboard 6.1.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from bigfleet.engine.kinds import KeyValues
from bigfleet.explain import sight
from bigfleet.explain.column_choice import Choice
from bigfleet.explain.columns import Codes, Flags, Places, flags_of, numbered
from bigfleet.explain.cycle_case import CycleCase
from bigfleet.explain.sight import STANDINGS, STEPS, WAITING, Refused, Sight
from bigfleet.explain.standing import FREE, GONE, Answer, Judge, Standing, below_unit, not_met
from bigfleet.model.machine import BOUND_STATES, MachineState

S = MachineState
_GONE, _BOUND, _FREE = flags_of(GONE), flags_of(tuple(BOUND_STATES)), flags_of(FREE)
_STATES = len(MachineState)
_NO_FLAW = -1


def seen_in_columns(case: CycleCase, judge: Judge) -> Sight:
    """Look at every machine once."""
    return _Look(case, judge).sight()


class _Family(NamedTuple):
    """Machines of one standing, and what that hangs on, by number."""

    standing: Standing
    places: Places
    codes: Codes
    texts: Sequence[str]


class _Look:
    """One need's look at the columns."""

    def __init__(self, case: CycleCase, judge: Judge) -> None:
        self._case, self._judge = case, judge
        self._columns = case.columns
        self._kinds = case.columns.kinds
        self._mine = np.flatnonzero(self._columns.holder == judge.place)
        self._chosen = np.zeros(len(self._columns), dtype=np.bool_)
        self._chosen[self._mine] = True
        self._leaving = self._take(self._columns.leaving_for(judge.place))
        self._draining = self._take(case.draining_places(judge.place))

    def _take(self, places: Places) -> Places:
        """Those that are not chosen yet, which they are now."""
        more = places[~self._chosen[places]]
        self._chosen[more] = True
        return more

    def sight(self) -> Sight:
        columns = self._columns
        bound, near = self._bound()
        state, kind = columns.state[near], columns.kind[near]
        held_back, free, answers = self._flaws()
        flaw = held_back[kind] if held_back is free else np.where(_FREE[state], free[kind], held_back[kind])
        suits = flaw == _NO_FLAW
        inside = self._inside()
        fitting = np.bincount(state[suits if inside is None else suits & inside[kind]], minlength=_STATES)
        left = ~self._chosen[near]
        unfit = left & ~suits
        families = [*bound, *_by_standing(near[unfit], flaw[unfit], answers)]
        rest = near[left & suits]
        holder = columns.holder[rest]
        claimed, whose = rest[holder >= 0], holder[holder >= 0]
        unheld = list(self._unheld(rest[holder < 0], inside))
        refused = [told for family in (*families, *unheld) for told in self._told(family)]
        refused += self._claimed(claimed, whose)
        refused.sort(key=lambda item: STANDINGS.index(item.answer.standing))
        waiting = [family.places for family in unheld if family.standing in WAITING]
        choice, judge = Choice(columns), self._judge
        taken, offered = choice.taken(self._mine)
        others = (self._leaving, Standing.PREEMPTED.value), (self._draining, Standing.IN_FLIGHT.value)
        return Sight(
            fitting={step: int(fitting[step]) for step in STEPS},
            taken=taken,
            offered=offered,
            chosen=choice.classes((self._mine, ""), *others),
            next_best=choice.next_best(waiting[0], judge.need) if waiting else None,
            refused=refused,
            held=self._held(whose),
        )

    # The tests, in their order

    def _bound(self) -> tuple[list[_Family], Places]:
        """Machines that are not to be had as they are gone, at work or on order elsewhere; and the places of all others."""
        columns = self._columns
        number = columns.snapshot.clusters.number(self._judge.need.cluster)
        gone = _GONE[columns.state]
        elsewhere = _BOUND[columns.state] & (columns.cluster != (-1 if number is None else number))
        ordered, codes, texts = self._ordered()
        near = ~(gone | elsewhere)
        near[ordered] = False
        left = ~self._chosen
        gone_places, elsewhere_places = np.flatnonzero(gone & left), np.flatnonzero(elsewhere & left)
        names = columns.cluster_names()
        families = [
            _Family(Standing.WRONG_STATE, gone_places, columns.state[gone_places], [s.label for s in S]),
            _Family(Standing.OTHER_CLUSTER, elsewhere_places, columns.cluster[elsewhere_places], names),
            _Family(Standing.OTHER_ORDER, ordered[left[ordered]], codes[left[ordered]], texts),
        ]
        return families, np.flatnonzero(near)

    def _ordered(self) -> tuple[Places, Codes, Sequence[str]]:
        """What is on order for others, with whom."""
        creating = self._columns.in_state(S.CREATING)
        stamps, which = np.unique(self._columns.stamp(creating), return_inverse=True)
        found = [self._judge.on_order(self._columns.stamps[number]) for number in stamps.tolist()]
        others = np.array([answer is not None for answer in found], dtype=np.bool_)
        codes, texts = numbered(["" if answer is None else answer.detail for answer in found])
        away = others[which] if which.size else np.zeros(0, dtype=np.bool_)
        return creating[away], codes[which[away]], texts

    def _flaws(self) -> tuple[Codes, Codes, list[Answer]]:
        """By kind the first test that machines of it fail, bound ones and free ones; and what the numbers mean."""
        need, kinds = self._judge.need, self._kinds
        flaw = np.full(len(kinds), _NO_FLAW, dtype=np.intp)
        answers: dict[Answer, int] = {}
        tests: list[tuple[Answer, Flags]] = [
            (not_met(requirement), ~kinds.meeting(requirement)) for requirement in need.profile.requirements
        ]
        tests += [(below_unit(name, wanted), kinds.below(name, wanted)) for name, wanted in need.unit.items()]
        for answer, failed in tests:
            flaw[failed & (flaw == _NO_FLAW)] = answers.setdefault(answer, len(answers))
        if not need.profile.pinned_types:
            return flaw, flaw, list(answers)
        types = kinds.types()
        numbers, texts = numbered([text or "none" for text in types.values])
        other_type = numbers[types.codes] + len(answers)
        pinned = [Answer(Standing.PINNED_TYPE, text) for text in texts]
        return flaw, np.where(kinds.pinned(need.profile), flaw, other_type), [*answers, *pinned]

    def _inside(self) -> Flags | None:
        """The kinds in the domain in which a gang gathers; None where that is no question."""
        key, domain = self._judge.need.profile.same_key, self._judge.domain
        if key is None or domain is None:
            return None
        return self._case.kinds_in(key, domain)

    def _unheld(self, places: Places, inside: Flags | None) -> Iterator[_Family]:
        """Machines that would do and that nobody has."""
        verdict = self._case.verdict(self._judge.place)
        key, spread = self._judge.need.profile.same_key, self._judge.spread
        if inside is not None and key is not None:
            there = inside[self._columns.kind[places]]
            yield self._by_value(Standing.OUTSIDE_DOMAIN, places[~there], self._kinds.values(key))
            places = places[there]
        if verdict.satisfied or ((spread is None or key is not None) and not verdict.parked):
            yield _Family(Standing.NOT_NEEDED, places, np.zeros(places.size, dtype=np.intp), [""])
        elif verdict.parked or spread is None:
            yield _Family(Standing.PARKED, places, np.zeros(places.size, dtype=np.intp), [""])
        else:
            values = self._kinds.values_as_met(spread.topology_key)
            has = values.present[self._columns.kind[places]]
            lacking = places[~has]
            yield self._by_value(Standing.SPREAD_LIMIT, places[has], values)
            codes = np.zeros(lacking.size, dtype=np.intp)
            yield _Family(Standing.SPREAD_KEY, lacking, codes, [spread.topology_key])

    def _by_value(self, standing: Standing, places: Places, values: KeyValues) -> _Family:
        return _Family(standing, places, values.codes[self._columns.kind[places]], values.values)

    # What is told of them

    def _told(self, family: _Family) -> list[Refused]:
        def first(codes: list[int], count: int) -> list[int]:
            return nsmallest(count, codes, key=family.texts.__getitem__)

        def answer(code: int) -> Answer:
            return Answer(family.standing, family.texts[code])

        return self._refused(family.standing, family.places, family.codes, first, answer)

    def _claimed(self, places: Places, whose: Codes) -> list[Refused]:
        judge, case = self._judge, self._case

        def first(codes: list[int], count: int) -> list[int]:
            relations: dict[str, list[int]] = {}
            for code in codes:
                relations.setdefault(judge.relation(code), []).append(code)
            found: list[int] = []
            for _, alike in sorted(relations.items()):
                found += case.first_by_number(alike, count - len(found))
            return found

        return self._refused(Standing.CLAIMED, places, whose, first, judge.claimed)

    def _refused(
        self,
        standing: Standing,
        places: Places,
        codes: Codes,
        first: Callable[[list[int], int], list[int]],
        answer: Callable[[int], Answer],
    ) -> list[Refused]:
        """The most common classes of one standing, and all others as one."""
        if not places.size:
            return []
        counts = np.bincount(codes)
        there = np.flatnonzero(counts)
        most = there.size if there.size <= sight.REFUSALS_SHOWN else sight.REFUSALS_SHOWN - 1
        shown = _most_common(counts, there, most, first)
        slots = np.full(counts.size, most, dtype=np.intp)
        slots[shown] = np.arange(most)
        others = there.size - most
        examples = self._columns.first_ids(places, slots[codes], most + bool(others), sight.EXAMPLES)
        told = [
            Refused(answer(code), int(counts[code]), ids)
            for code, ids in zip(shown, examples, strict=not others)
        ]
        if others:
            count = places.size - sum(item.count for item in told)
            told.append(Refused(Answer(standing), count, examples[-1], others))
        return told

    def _held(self, whose: Codes) -> list[tuple[Answer, int]]:
        if not whose.size:
            return []
        counts = np.bincount(whose)
        there = np.flatnonzero(counts)
        most = min(there.size, sight.COMPETITORS)
        shown = _most_common(counts, there, most, self._case.first_by_number)
        return [(self._judge.claimed(holder), int(counts[holder])) for holder in shown]


def _by_standing(places: Places, codes: Codes, answers: Sequence[Answer]) -> Iterator[_Family]:
    """Machines with flaws, apart by what kind of flaw it is."""
    texts = [answer.detail for answer in answers]
    for standing in dict.fromkeys(answer.standing for answer in answers):
        of_it = np.array([answer.standing is standing for answer in answers], dtype=np.bool_)[codes]
        yield _Family(standing, places[of_it], codes[of_it], texts)


def _most_common(
    counts: Codes, there: Places, most: int, first: Callable[[list[int], int], list[int]]
) -> list[int]:
    """The `most` classes with most machines among those that are there; `first` puts equally large ones in order."""
    found = counts[there]
    least = 0 if most == there.size else int(np.partition(found, -most)[-most])
    larger = first(there[found > least].tolist(), most)
    larger.sort(key=lambda code: -int(counts[code]))  # stable: equally large ones stay in order
    return [*larger, *first(there[found == least].tolist(), most - len(larger))]
