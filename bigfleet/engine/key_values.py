"""The values of one label key, by kind, and which kinds meet a requirement on it.

Why: most keys have a few values that thousands of machines share; a host name has one for each machine, and costs arrays
and a table of texts that is made only when a value is looked up.
Must never: give a machine a value that `bigfleet.model.machine.Machine.label` does not give it.
Rules: `engine#label-lookup`, `engine#hostname-domain`.
"""

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.decision import LazySequence
from bigfleet.model.inventory.snapshot import InventorySnapshot, Rows, Texts
from bigfleet.model.profile import HOST_NAME_KEY, Requirement, RequirementOperator

Numbers = NDArray[np.intp]
Flags = NDArray[np.bool_]


class KeyValues:
    """The value of one label key for every kind: a code, or -1 where the key is absent."""

    def __init__(self, codes: Numbers, values: Sequence[str], *, ordered: bool = False) -> None:
        """`ordered` says that the values are in text order."""
        self.codes, self.values, self._ordered = codes, values, ordered
        self._sorted: KeyValues | None = self if ordered else None
        self.present: Flags = codes >= 0

    def of(self, places: Numbers) -> "KeyValues":
        """The values at some places only."""
        return KeyValues(self.codes[places], self.values, ordered=self._ordered)

    @cached_property
    def _code_of(self) -> dict[str, int]:
        """Made on first use: for a key with one value per machine it is as large as the fleet."""
        return dict(zip(self.values, range(len(self.values)), strict=True))

    def code(self, value: str) -> int:
        """The code of a value, -1 when no kind has it."""
        return self._code_of.get(value, -1)

    def in_text_order(self) -> "KeyValues":
        """The same with codes in the order of their values."""
        if self._sorted is None:
            order = sorted(range(len(self.values)), key=self.values.__getitem__)
            places = np.empty(len(order) + 1, dtype=np.intp)
            places[order] = np.arange(len(order))
            places[-1] = -1  # what code -1 looks at
            self._sorted = KeyValues(places[self.codes], [self.values[code] for code in order])
        return self._sorted

    def where(self, requirement: Requirement) -> Flags:
        """The kinds on which a requirement on this key holds."""
        match requirement.operator:
            case RequirementOperator.IN:
                return self._inside(requirement.values)
            case RequirementOperator.NOT_IN:
                return ~self._inside(requirement.values)
            case RequirementOperator.EXISTS:
                return self.present
            case RequirementOperator.DOES_NOT_EXIST:
                return ~self.present
            case RequirementOperator.SAME:
                return self._inside(requirement.values) if requirement.values else self.present
            case _:
                return np.zeros(self.codes.size, dtype=np.bool_)

    def _inside(self, values: Sequence[str]) -> Flags:
        codes = [code for value in values if (code := self.code(value)) >= 0]
        if len(codes) == 1:
            one: Flags = self.codes == codes[0]  # quicker than a look-up, and it is what most name
            return one
        inside = np.zeros(len(self.values) + 1, dtype=np.bool_)  # the last is the place that code -1 looks at
        inside[codes] = True
        flags: Flags = inside[self.codes]
        return flags


def wide_values(snapshot: InventorySnapshot, key: str) -> KeyValues:
    """The value of a key that shapes do not tell apart, for every machine in the order of ids."""
    if key == HOST_NAME_KEY:
        return _host_names(snapshot)
    return _numbered(snapshot.wide[key].many(snapshot.id_order))


def _host_names(snapshot: InventorySnapshot) -> KeyValues:
    """The host names: what a machine's label says, else its id (`engine#hostname-domain`)."""
    rows = snapshot.id_order
    read_ids = partial(_ids, snapshot.ids, rows)
    texts = snapshot.wide.get(HOST_NAME_KEY)
    names: list[str | None] = [None] * rows.size if texts is None else texts.many(rows)
    shapes = snapshot.shapes
    of_shape = [shapes[number].labels.get(HOST_NAME_KEY) for number in range(len(shapes))]
    if any(label is not None for label in of_shape):
        numbers = snapshot.columns["shape"][rows].tolist()
        names = [
            of_shape[number] if name is None else name for number, name in zip(numbers, names, strict=True)
        ]
    elif texts is None:  # ids are in text order here, and are read when a value is asked for
        return KeyValues(np.arange(rows.size), LazySequence(read_ids, rows.size), ordered=True)
    if any(name is None for name in names):
        names = [each if name is None else name for each, name in zip(read_ids(), names, strict=True)]
    return _numbered(names)


def _ids(ids: Texts, rows: Rows) -> list[str]:
    return [text or "" for text in ids.many(rows)]


def _numbered(met: Sequence[str | None]) -> KeyValues:
    """A code per value, -1 for none, and the values in the order in which they were met."""
    values = [value for value in dict.fromkeys(met) if value is not None]
    if len(values) == len(met):  # every machine has another one
        return KeyValues(np.arange(len(met)), values)
    code_of: dict[str | None, int] = dict(zip(values, range(len(values)), strict=True))
    code_of[None] = -1
    codes = np.fromiter(map(code_of.__getitem__, met), dtype=np.intp, count=len(met))
    return KeyValues(codes, values)
