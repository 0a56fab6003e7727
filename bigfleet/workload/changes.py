"""Changes to a world: what a cycle finds different from the one before.

Why: a shard's cycles differ in how much changed and where; benchmarks need the same changes on every build.
Must never: write. Changes are values; the caller applies them and can undo them.
Rules: `engine#bench-unit`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import HostRef, Machine, MachineState, Shape
from bigfleet.model.need import Need
from bigfleet.workload.archetype import RACK_KEY
from bigfleet.workload.draws import Draws, between
from bigfleet.workload.fleet import PROVIDER, host_ref

T = TypeVar("T")

MOST_PODS_FEWER = 3


def chosen(items: Sequence[T], count: int, draws: Draws) -> list[T]:
    """Some of the items, each at most once, in their order; all if there are no more."""
    order = sorted(range(len(items)), key=[draws.random() for _ in items].__getitem__)
    return [items[place] for place in sorted(order[:count])]


def with_new_needs(needs: Sequence[Need], draws: Draws) -> tuple[Need, ...]:
    """A cluster's next roll-up on a quiet day: a few pods fewer in every row, one gang gone and one like it come.

    Fewer, so that the machines it has still serve it, except for the last gang, which has to be placed again.
    """
    gangs = [place for place, need in enumerate(needs) if need.group]
    replaced = gangs[int(draws.random() * len(gangs))] if gangs else None
    return tuple(
        replace(need, group=f"{need.group}again;", arrival_ns=need.arrival_ns + 1)
        if place == replaced
        else replace(_with_fewer_pods(need, draws), arrival_ns=need.arrival_ns + 1)
        for place, need in enumerate(needs)
    )


def _with_fewer_pods(need: Need, draws: Draws) -> Need:
    fewer = need.unit.scaled(between(1, MOST_PODS_FEWER, draws))
    rest = need.total - fewer
    return need if need.group or not rest.covers(need.unit) else replace(need, total=rest)


def grown(needs: Iterable[Need], percent: int) -> tuple[Need, ...]:
    """A cluster's roll-up after its demand has grown evenly."""
    return tuple(
        replace(
            need,
            total=type(need.total)(
                (name, amount * (100 + percent) // 100) for name, amount in need.total.items()
            ),
            arrival_ns=need.arrival_ns + 1,
        )
        for need in needs
    )


def machine_changes(
    snapshot: InventorySnapshot, clusters: Iterable[str], count: int, draws: Draws
) -> list[Machine]:
    """What a provider reports of these clusters on a quiet day: as many machines come as go, each for one that went."""
    lost = lost_machines(snapshot, clusters, -(-count // 2), draws)
    return [*lost, *joined_machines(snapshot, lost[: count // 2])]


def lost_machines(
    snapshot: InventorySnapshot, clusters: Iterable[str], count: int, draws: Draws
) -> list[Machine]:
    """Some bound machines of these clusters, as a provider reports them once they serve no cluster any more.

    They fail and drain by turns: one is gone, the other still there but no longer counted.
    """
    numbers = [number for name in clusters if (number := snapshot.clusters.number(name)) is not None]
    rows = snapshot.in_state(MachineState.CONFIGURED)
    rows = rows[np.isin(snapshot.columns["cluster"][rows], numbers)]
    lost = []
    for place, row in enumerate(chosen(rows.tolist(), count, draws)):
        machine = snapshot.machine(row)
        if place % 2:
            lost.append(replace(machine, state=MachineState.DRAINING, drain_grace_remaining_s=30.0))
        else:
            lost.append(replace(machine, state=MachineState.FAILED, last_error="the host stopped answering"))
    return lost


def joined_machines(snapshot: InventorySnapshot, lost: Iterable[Machine]) -> list[Machine]:
    """One machine for each that was lost, now serving what that one served: of its type and size, in its place.

    They were Speculative and have been created and configured meanwhile; one for which there is none like it is not replaced.
    """
    shapes = [snapshot.shapes[number] for number in range(len(snapshot.shapes))]
    numbers: dict[_Kind, list[int]] = {}
    for number, shape in enumerate(shapes):
        numbers.setdefault(_kind(shape), []).append(number)
    rows = snapshot.in_state(MachineState.SPECULATIVE)
    shape_of = snapshot.columns["shape"][rows]
    free: dict[_Kind, list[int]] = {}
    joined = []
    for machine in lost:
        kind = _kind(machine.shape)
        if kind not in free:
            free[kind] = rows[np.isin(shape_of, numbers[kind])].tolist()[::-1]
        if free[kind]:
            taken = snapshot.machine(free[kind].pop())
            joined.append(
                replace(
                    taken,
                    state=MachineState.CONFIGURED,
                    host=HostRef(PROVIDER, host_ref(taken.id)),
                    cluster=machine.cluster,
                    assigned=machine.assigned,
                )
            )
    return joined


_Kind = tuple[str, FrozenMap[str], str, str | None]


def _kind(shape: Shape) -> _Kind:
    return (shape.instance_type, shape.allocatable, shape.zone, shape.labels.get(RACK_KEY))
