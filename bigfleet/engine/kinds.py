"""Kinds: all machines that are alike in everything demand can ask about.

Why: a question about half a million machines becomes one about a few hundred kinds and a look-up per machine. Labels
nobody asks about do not split kinds; a label of which every machine has its own does, and costs arrays, not objects.
Must never: give a kind another number, or change once it is made: `grown` makes another table. Answers about demand are
kept in bounds only, as profiles come and go while the kinds stay.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import CapacitySizes, Scale, all_of
from bigfleet.engine.key_values import Flags, KeyValues, Numbers
from bigfleet.engine.radix import dense_ranks
from bigfleet.model.buckets import PenaltyBucket, upper_bound
from bigfleet.model.demand import Amounts
from bigfleet.model.inventory.interner import Interner
from bigfleet.model.machine import DEFAULT_PODS, PODS, Shape
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.resources import Resources

_ANSWERS_PER_ROW = 8  # a row asks seven questions at most
_BY_DEFAULT = Amounts.of((DEFAULT_PODS,))
_SPARE_BYTES, _ANSWER_BYTES = 4 << 20, 512  # of an answer about no kinds: its array, its key and their texts
# Beyond what usual keys have: a tenant may ask with a thousand values in each of its rows, and the keys hold them.
_SPARE_TEXTS, _VALUE_BYTES = 4 << 20, 50

_SHARED_KINDS = 4096  # of more, nearly every answer is another one, and to compare them takes long


class Kinds:
    """Tables by kind, and the answers to questions about kinds, kept until kinds come."""

    def __init__(self, shapes: Interner[Shape], named: frozenset[str], wanted: Amounts, terms: int) -> None:
        """`named` are the label keys that demand asks about and that shapes hold."""
        self.named = named
        self._keys = tuple(sorted(named))
        self._shapes = shapes
        self._seen = 0
        self._number: dict[tuple[Any, ...], int] = {}
        self._of_shape: list[int] = []
        self._first: list[Shape] = []  # by kind
        self._size_number: dict[tuple[Resources, bool], int] = {}
        self._size_of: list[int] = []
        self.sized: list[Shape] = []
        """The first shape of each size."""
        self._take_shapes()
        self.offered = self._offered()
        self.scale = Scale(wanted, self.offered, terms)
        self._tabulate()

    def grown(self, wanted: Amounts, terms: int) -> "Kinds | None":
        """A table with the shapes that have come since; None when the scale no longer serves.

        A new one, as a decision may still read this one. Numbers of kinds and sizes mean the same in both.
        """
        if not self.outgrown:
            return self if self.scale.serves(wanted, self.offered, terms) else None
        table = copy(self)
        table._number, table._size_number = dict(self._number), dict(self._size_number)
        table._of_shape, table._first = list(self._of_shape), list(self._first)
        table._size_of, table.sized = list(self._size_of), list(self.sized)
        table._take_shapes()
        table.offered = table._offered()
        if not table.scale.serves(wanted, table.offered, terms):
            return None
        table._tabulate()
        return table

    @property
    def outgrown(self) -> bool:
        """Whether shapes have come that are not in the tables."""
        return len(self._shapes) > self._seen

    def _offered(self) -> Amounts:
        return Amounts.union((Amounts.of(shape.capacity for shape in self.sized), _BY_DEFAULT))

    def _take_shapes(self) -> None:
        # Asked once: a shard decides off its event loop, where a further shape may be numbered at any moment.
        count = len(self._shapes)
        for number in range(self._seen, count):
            shape = self._shapes[number]
            key = (
                shape.instance_type,
                shape.capacity,
                shape.states_pods,
                shape.price_per_hour,
                shape.interruption_probability,
                shape.capacity_type,
                *[shape.label(name) for name in self._keys],
            )
            kind = self._number.setdefault(key, len(self._first))
            if kind == len(self._first):
                self._first.append(shape)
                offer = (shape.capacity, shape.states_pods)
                size = self._size_number.setdefault(offer, len(self._size_number))
                self._size_of.append(size)
                if size == len(self.sized):
                    self.sized.append(shape)
            self._of_shape.append(kind)
        self._seen = count

    def _tabulate(self) -> None:
        first = self._first
        self.of_shape: Numbers = np.array(self._of_shape, dtype=np.intp)
        pods = PODS in self.scale.names  # else nothing is computed for them
        capacities = [shape.with_pods if pods else shape.capacity for shape in self.sized]
        self.sizes = CapacitySizes.of(self.scale, capacities)
        self._set_tables(
            size=np.array(self._size_of, dtype=np.intp),
            price=np.array([shape.price_per_hour for shape in first], dtype=float),
            probability=np.array([shape.interruption_probability for shape in first], dtype=float),
            capacity_type=np.array([shape.capacity_type for shape in first], dtype=np.intp),
            plain=np.arange(len(first)),
        )

    def _set_tables(
        self,
        *,
        size: Numbers,
        price: NDArray[np.float64],
        probability: NDArray[np.float64],
        capacity_type: Numbers,
        plain: Numbers,
    ) -> None:
        self.size, self.price, self.probability, self.capacity_type = size, price, probability, capacity_type
        self.interruptible: Flags = probability > 0
        self._plain = plain  # the kind by shapes alone
        self.price_rank, self.price_ranks = dense_ranks(price)
        self._costs: dict[PenaltyBucket, NDArray[np.float64]] = {}
        self._by_cost: dict[PenaltyBucket, tuple[Numbers, Numbers]] = {}
        self._wide: dict[str, KeyValues] = {}
        self._values: dict[str, KeyValues] = {}
        self._forget_answers()

    def forget_unused(self, rows: int) -> None:
        """Forget the answers about demand once there are many more than so many rows can have asked for, or long ones.

        Long ones are forgotten whoever asks for them: what the next cycles ask adds up from nothing again, so this is seldom.
        """
        kept = len(self._met) + len(self._matching) + len(self._covering) + len(self._eligible)
        kept += len(self._pinned) + len(self._acquirable) + len(self._usable) + len(self._limited)
        most = _ANSWERS_PER_ROW * rows + _SPARE_BYTES // (len(self) + _ANSWER_BYTES)
        if kept > most or self._text_bytes > _SPARE_TEXTS:
            self._forget_answers()

    def _forget_answers(self) -> None:
        # New ones, as a decision that readers look at may be using the old ones.
        self._text_bytes = 0
        self._met: dict[Requirement, Flags] = {}
        self._matching: dict[str, Flags] = {}
        self._covering: dict[Resources, Flags] = {}
        self._eligible: dict[tuple[str, Resources], Flags] = {}
        self._pinned: dict[tuple[str, ...], Flags] = {}
        self._acquirable: dict[tuple[str, Resources, bool], Flags] = {}
        self._usable: dict[tuple[str, Resources, str], Flags] = {}
        self._limited: dict[tuple[Resources, int], CapacitySizes] = {}
        self._answers: dict[bytes, Flags] = {}
        self._none: Flags = self._shared(np.zeros(len(self), dtype=np.bool_))

    def _shared(self, flags: Flags) -> Flags:
        """The answer that was given before if this one is equal: tens of thousands of profiles have a handful of answers."""
        return flags if flags.size > _SHARED_KINDS else self._answers.setdefault(flags.tobytes(), flags)

    def split(
        self, of_row: NDArray[np.int32], wide: Mapping[str, KeyValues], live: Numbers
    ) -> NDArray[np.int32]:
        """Split kinds by keys that shapes do not tell apart, given for `live` rows; return the kind of every row."""
        plain = of_row[live].astype(np.int64)
        combined = plain
        for values in wide.values():
            combined = combined * (len(values.values) + 1) + values.codes + 1
        first, inverse = _distinct(
            combined, alone=any(len(values.values) == live.size for values in wide.values())
        )
        plain_of = plain[first].astype(np.intp)
        self._set_tables(
            size=self.size[plain_of],
            price=self.price[plain_of],
            probability=self.probability[plain_of],
            capacity_type=self.capacity_type[plain_of],
            plain=plain_of,
        )
        self._wide = {key: values.of(first) for key, values in wide.items()}
        split = np.zeros_like(of_row)
        split[live] = inverse
        return split

    def __len__(self) -> int:
        return int(self.size.size)

    def shape(self, kind: int) -> Shape:
        """A shape of this kind; what demand can ask about is the same for all of them."""
        return self._first[int(self._plain[kind])]

    def values(self, key: str) -> KeyValues:
        """The value of a label key for every kind, codes in text order."""
        wide = self._wide.get(key)
        return self._plain_values(key) if wide is None else wide.in_text_order()

    def values_as_met(self, key: str) -> KeyValues:
        """The same with codes in any order: to sort the values of a key with one value per machine takes long."""
        return self._wide.get(key) or self._plain_values(key)

    def types(self) -> KeyValues:
        """The instance-type field of every kind, which may be empty."""
        code_of: dict[str, int] = {}
        codes = [code_of.setdefault(shape.instance_type, len(code_of)) for shape in self._first]
        return KeyValues(np.array(codes, dtype=np.intp)[self._plain], list(code_of))

    def _plain_values(self, key: str) -> KeyValues:
        found = self._values.get(key)
        if found is None:
            plain = [shape.label(key) for shape in self._first]
            known = sorted({value for value in plain if value is not None})
            code_of: dict[str | None, int] = {value: code for code, value in enumerate(known)}
            codes = np.array([code_of.get(value, -1) for value in plain], dtype=np.intp)
            found = self._values[key] = KeyValues(codes[self._plain], known)
        return found

    def matching(self, profile: Profile) -> Flags:
        """The kinds that meet every requirement."""
        found = self._matching.get(profile.requirements_text)
        if found is None:
            found = np.ones(len(self), dtype=np.bool_)
            for requirement in profile.requirements:
                found &= self.meeting(requirement)
            found = self._matching[profile.requirements_text] = self._shared(found)
            self._text_bytes += len(profile.requirements_text)
        return found

    def meeting(self, requirement: Requirement) -> Flags:
        """The kinds on which one requirement holds."""
        wide = self._wide.get(requirement.key)
        if wide is not None:
            return wide.where(requirement)  # such a key is named with other values by everybody
        found = self._met.get(requirement)
        if found is None:
            met = self._plain_values(requirement.key).where(requirement)
            found = self._met[requirement] = self._shared(met)
            self._text_bytes += sum(map(len, requirement.values)) + _VALUE_BYTES * len(requirement.values)
        return found

    def covering(self, wanted: Resources) -> Flags:
        """The kinds that hold an amount alone."""
        found = self._covering.get(wanted)
        if found is None:
            goal = self.scale.matrix([self.scale.vector(wanted)])
            covering = all_of(self.sizes.matrix >= goal)[self.size]
            found = self._covering[wanted] = self._shared(covering)
        return found

    def sizes_for(self, need: Need) -> CapacitySizes:
        """What machines of each size count as towards a need (`engine#max-units-per-machine`)."""
        if not need.max_units:
            return self.sizes
        key = (need.unit, need.max_units)
        found = self._limited.get(key)
        if found is None:
            found = self._limited[key] = self.sizes.at_most(need.unit.scaled(need.max_units))
        return found

    def below(self, name: str, amount: int) -> Flags:
        """The kinds that hold less than an amount of one dimension."""
        flags = np.array([shape.with_pods.amount(name) < amount for shape in self.sized], dtype=np.bool_)
        return flags[self.size]

    def eligible(self, profile: Profile, unit: Resources) -> Flags:
        """The kinds that match a profile and cover a unit."""
        key = (profile.requirements_text, unit)
        found = self._eligible.get(key)
        if found is None:
            if self._none_meets(profile):
                return self._none  # not kept: a hostile tenant may send tens of thousands in each cycle
            found = self._eligible[key] = self._shared(self.matching(profile) & self.covering(unit))
        return found

    def _none_meets(self, profile: Profile) -> bool:
        """Whether a requirement names values only that no kind has."""
        for requirement in profile.requirements:
            if requirement.operator is RequirementOperator.IN and requirement.key not in self._wide:
                code = self._plain_values(requirement.key).code
                if all(code(value) < 0 for value in requirement.values):
                    return True
        return False

    def acquirable(self, profile: Profile, unit: Resources) -> Flags:
        """The kinds a need may acquire or preempt: eligible, obtainable, and of a pinned type if its types are pinned."""
        if not profile.pinned_types and not profile.refuses_interruptible:
            return self.eligible(profile, unit)
        key = (profile.requirements_text, unit, profile.refuses_interruptible)
        found = self._acquirable.get(key)
        if found is None:
            eligible = self.eligible(profile, unit)
            if eligible is self._none:
                return eligible
            flags = eligible & self.obtainable(profile)
            found = self._acquirable[key] = self._shared(flags)
        return found

    def usable(self, profile: Profile, unit: Resources, key: str) -> Flags:
        """The kinds that may serve a gang which shares a value of `key`: eligible, and having one."""
        name = (profile.requirements_text, unit, key)
        found = self._usable.get(name)
        if found is None:
            flags = self.eligible(profile, unit) & self.values(key).present
            found = self._usable[name] = self._shared(flags)
        return found

    def pinned(self, profile: Profile) -> Flags:
        """The kinds whose instance-type field is one of the profile's pinned types; all if it pins none."""
        types = profile.pinned_types
        found = self._pinned.get(types)
        if found is None:
            wanted = np.array(
                [not types or shape.instance_type in types for shape in self._first], dtype=np.bool_
            )
            found = self._pinned[types] = wanted[self._plain]
        return found

    def obtainable(self, profile: Profile) -> Flags:
        """The kinds that a profile may obtain, whatever it requires: of a pinned type, and not at an infinite cost.

        Rules: `engine#pinned-types`, `engine#obtainable`.
        """
        pinned = self.pinned(profile)
        return pinned & ~self.interruptible if profile.refuses_interruptible else pinned

    def costs(self, bucket: PenaltyBucket) -> NDArray[np.float64]:
        """What each kind costs a workload of this bucket (`engine#effective-cost`)."""
        found = self._costs.get(bucket)
        if found is None:
            # The formula of `bigfleet.model.costs`, for all kinds at once: no risk, no share of a boundless penalty.
            risky = self.interruptible
            found = self._costs[bucket] = self.price.copy()
            found[risky] += self.probability[risky] * max(0.0, upper_bound(bucket))
        return found

    def by_cost(self, bucket: PenaltyBucket) -> tuple[Numbers, Numbers]:
        """Kinds by what they cost a workload of this bucket, and for each kind the place of its cost."""
        found = self._by_cost.get(bucket)
        if found is None:
            ranks, _ = dense_ranks(self.costs(bucket))
            found = self._by_cost[bucket] = (np.argsort(ranks, kind="stable"), ranks)
        return found

    def type_ranks(self, types: Sequence[str]) -> Numbers:
        """For each kind the place of its instance-type field among pinned types; of no meaning for other types."""
        rank = {name: place for place, name in enumerate(types)}
        ranks = np.array([rank.get(shape.instance_type, len(types)) for shape in self._first], dtype=np.intp)
        return ranks[self._plain]


def _distinct(values: NDArray[np.int64], *, alone: bool) -> tuple[Numbers, Numbers]:
    """Where each distinct value is first met, and for each value which of them it is."""
    if alone:  # some label differs on every machine
        everyone = np.arange(values.size)
        return everyone, everyone
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first, inverse.ravel()
