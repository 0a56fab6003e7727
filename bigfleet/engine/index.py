"""The machines of one snapshot as the phases look at them: numbered by id, with every question answered per kind.

Why: machines that are alike in all that matters are one kind; a question about half a million machines becomes one
about a few thousand kinds and a look-up.
Called by: the cycle builds it; all phases read it.
Must never: change, or know a need beyond the label keys and amounts that demand names.
A machine's number is its place in the order of ids, so that ascending numbers are the order "by id".
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Scale, Vector, all_of
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import Assignment, MachineState, NeedRef, Shape
from bigfleet.model.need import Need
from bigfleet.model.profile import Operator, Requirement
from bigfleet.model.resources import Resources

Numbers = NDArray[np.intp]
Flags = NDArray[np.bool_]


class KeyValues:
    """The value of one label key for every kind: a code, or -1 where the key is absent."""

    def __init__(self, codes: Numbers, values: Sequence[str]) -> None:
        self.codes, self.values = codes, values

    def where(self, requirement: Requirement) -> Flags:
        """The kinds on which a requirement on this key holds."""
        wanted = set(requirement.values)
        inside = np.array([value in wanted for value in self.values] + [False], dtype=np.bool_)
        present = np.ones(len(self.values) + 1, dtype=np.bool_)
        present[-1] = False  # the place that code -1 looks at
        match requirement.operator:
            case Operator.IN:
                answers = inside
            case Operator.NOT_IN:
                answers = ~inside
            case Operator.EXISTS:
                answers = present
            case Operator.DOES_NOT_EXIST:
                answers = ~present
            case Operator.SAME:
                answers = inside if wanted else present
            case _:
                answers = np.zeros_like(present)
        return answers[self.codes]


class MachineIndex:
    """Columns by machine number, tables by kind and by assignment."""

    def __init__(self, snapshot: InventorySnapshot, needs: Sequence[Need]) -> None:
        self._snapshot = snapshot
        self.rows = snapshot.id_order
        columns = snapshot.columns
        self.state: NDArray[np.uint8] = columns["state"][self.rows]
        self.cluster: NDArray[np.int32] = columns["cluster"][self.rows]
        self.assignment: NDArray[np.int32] = columns["assignment"][self.rows]
        shape_of: NDArray[np.int32] = columns["shape"][self.rows]
        self.assignments: list[Assignment] = [
            snapshot.assignments[at] for at in range(len(snapshot.assignments))
        ]
        shapes: list[Shape] = [snapshot.shapes[at] for at in range(len(snapshot.shapes))]
        named = {item.key for need in needs for item in need.profile.requirements}
        named |= {item.topology_key for need in needs for item in need.profile.spreads}
        self._wide = {key: snapshot.wide[key] for key in sorted(named) if key in snapshot.wide}
        self.kind, self._shape_of_kind, self._wide_codes = self._kinds(shape_of)
        self.shapes = shapes
        offered = [shape.capacity for shape in shapes]
        self.scale = Scale(_wanted(needs), offered, machines=len(self.rows), rows=len(needs))
        self.capacity: Vector = self.scale.matrix(offered)[self._shape_of_kind]
        self._eligible: dict[tuple[str, Resources], Flags] = {}
        self._matching: dict[str, Flags] = {}
        self._covering: dict[Resources, Flags] = {}
        self._keys: dict[str, KeyValues] = {}
        self._in_state: dict[tuple[MachineState, ...], Numbers] = {}
        self._pinned: dict[tuple[str, ...], Flags] = {}

    def __len__(self) -> int:
        return int(self.rows.size)

    def _kinds(
        self, shape_of: NDArray[np.int32]
    ) -> tuple[Numbers, Numbers, dict[str, tuple[Numbers, list[str]]]]:
        """Kinds are shapes, split further by those wide labels that demand names."""
        if not self._wide:
            return shape_of.astype(np.intp), np.arange(len(self._snapshot.shapes)), {}
        parts = [shape_of.astype(np.intp)]
        coded = {}
        for key, texts in self._wide.items():
            found = [texts.get(int(row)) for row in self.rows]
            values = sorted({value for value in found if value is not None})
            place = {value: at for at, value in enumerate(values)}
            codes = np.array([-1 if value is None else place[value] for value in found], dtype=np.intp)
            coded[key] = (codes, values)
            parts.append(codes)
        kinds, first, kind_of = np.unique(
            np.stack(parts, axis=1), axis=0, return_index=True, return_inverse=True
        )
        del kinds
        wide = {key: (codes[first], values) for key, (codes, values) in coded.items()}
        return kind_of.ravel().astype(np.intp), shape_of[first].astype(np.intp), wide

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return int(self._shape_of_kind.size)

    def of_kinds(self, values: Sequence[Any], dtype: type) -> NDArray[Any]:
        """A table by shape as one by kind."""
        return np.array(values, dtype=dtype)[self._shape_of_kind]

    @cached_property
    def price(self) -> NDArray[np.float64]:
        """Price per hour by kind."""
        return self.of_kinds([shape.price_per_hour for shape in self.shapes], float)

    @cached_property
    def probability(self) -> NDArray[np.float64]:
        """Interruption probability by kind."""
        return self.of_kinds([shape.interruption_probability for shape in self.shapes], float)

    @cached_property
    def instance_type(self) -> NDArray[Any]:
        """The instance-type field by kind, which pinned profiles look at (Q-6)."""
        return self.of_kinds([shape.instance_type for shape in self.shapes], object)

    @cached_property
    def reclamation_penalty(self) -> NDArray[np.float64]:
        """Assigned reclamation penalty by machine."""
        return np.array([item.reclamation_penalty for item in self.assignments], dtype=float)[self.assignment]

    @cached_property
    def assigned_priority(self) -> NDArray[np.int64]:
        """Assigned priority by machine."""
        return np.array([item.priority for item in self.assignments], dtype=np.int64)[self.assignment]

    @property
    def idle_since(self) -> NDArray[np.float64]:
        """When each machine became idle, NaN where it is not or nobody knows."""
        since: NDArray[np.float64] = self._snapshot.columns["idle_since"][self.rows]
        return since

    def draining_for(self, machine: int) -> NeedRef | None:
        """The need for which a Draining machine was preempted."""
        return self._snapshot.draining_for(int(self.rows[machine]))

    def victim_costs(self, machines: Numbers) -> NDArray[np.float64]:
        """What taking each machine away would cost (decision E11), summed from left to right."""
        penalties = np.array(
            [item.interruption_penalty + item.reclamation_penalty for item in self.assignments]
        )
        graces = [self._snapshot.drain_grace_s(int(row)) for row in self.rows[machines]]
        hours = np.array(graces, dtype=float) / 3600
        return penalties[self.assignment[machines]] + hours * self.price[self.kind[machines]]

    def full_capacity(self, machine: int) -> Resources:
        """All a machine offers, dimensions included that no demand names."""
        return self.shapes[int(self._shape_of_kind[self.kind[machine]])].capacity

    def cluster_name(self, number: int) -> str:
        """The name behind a cluster's number."""
        return self._snapshot.clusters[number]

    def cluster_number(self, name: str) -> int:
        """The number of a cluster, -1 when no machine ever was its."""
        number = self._snapshot.clusters.number(name)
        return -1 if number is None else number

    def machine_id(self, machine: int) -> str:
        """The id behind a number."""
        return self._snapshot.machine_id(int(self.rows[machine]))

    def ids(self, machines: Sequence[int]) -> tuple[str, ...]:
        """The ids behind numbers, ascending."""
        return self._snapshot.machine_ids(self.rows[sorted(machines)]) if machines else ()

    def in_state(self, *states: MachineState) -> Numbers:
        """Machines in one of these states, by id."""
        found = self._in_state.get(states)
        if found is None:
            wanted = np.zeros(len(MachineState), dtype=np.bool_)
            wanted[list(states)] = True
            found = self._in_state[states] = np.flatnonzero(wanted[self.state])
        return found

    def capacity_of(self, machines: Numbers) -> Vector:
        """A row of amounts per machine."""
        rows: Vector = self.capacity[self.kind[machines]]
        return rows

    def values(self, key: str) -> KeyValues:
        """The value of a label key for every kind."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self._read_values(key)
        return found

    def _read_values(self, key: str) -> KeyValues:
        plain = [shape.label(key) for shape in self.shapes]
        if key in self._wide_codes:
            codes, values = self._wide_codes[key]
            return KeyValues(codes, values)
        known = sorted({value for value in plain if value is not None})
        place = {value: at for at, value in enumerate(known)}
        by_shape = np.array([-1 if value is None else place[value] for value in plain], dtype=np.intp)
        return KeyValues(by_shape[self._shape_of_kind], known)

    def eligible(self, need: Need) -> Flags:
        """The kinds that match a need's profile and cover its unit."""
        key = (need.profile.requirements_text, need.unit)
        found = self._eligible.get(key)
        if found is None:
            found = self._eligible[key] = self.matching(need) & self.covering(need.unit)
        return found

    def matching(self, need: Need) -> Flags:
        """The kinds that meet every requirement."""
        found = self._matching.get(need.profile.requirements_text)
        if found is None:
            found = np.ones(self.kinds, dtype=np.bool_)
            for requirement in need.profile.requirements:
                found &= self.values(requirement.key).where(requirement)
            self._matching[need.profile.requirements_text] = found
        return found

    def covering(self, wanted: Resources) -> Flags:
        """The kinds that hold an amount alone."""
        found = self._covering.get(wanted)
        if found is None:
            found = self._covering[wanted] = all_of(self.capacity >= self.scale.vector(wanted))
        return found

    def acquirable(self, need: Need) -> Flags:
        """The kinds a need may acquire or preempt: eligible, and of a pinned type if its types are pinned."""
        return self.eligible(need) & self.pinned(need)

    def pinned(self, need: Need) -> Flags:
        """The kinds whose instance-type field is one of the profile's pinned types; all if it pins none."""
        types = need.profile.pinned_types
        found = self._pinned.get(types)
        if found is None:
            wanted = [not types or shape.instance_type in types for shape in self.shapes]
            found = self._pinned[types] = self.of_kinds(wanted, bool)
        return found


def _wanted(needs: Sequence[Need]) -> Iterable[Resources]:
    for need in needs:
        yield need.total
        yield need.unit
