"""A planner that has seen many cycles decides exactly as one that has seen none (ADR-0030)."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.document.decisions import decision_document
from bigfleet.engine.planner import Planner
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import Inventory, InventorySnapshot, SnapshotMask
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.situation import Situation
from tests.support.situations import CROWDED, Kind, situation_of

PARTS = range(4)  # side by side
seeds = st.integers(0, 2**32)
"""A choice drawn one by one could be made smaller, and would take ten times as long."""


class World:
    """An inventory and demand that are edited step by step, and everything else a decision depends on."""

    def __init__(self, situation: Situation) -> None:
        self.inventory, self.needs = Inventory(), NeedsTable()
        self.known: dict[str, Machine] = {}
        self.rest = situation
        self.mask, self.left_out = SnapshotMask(), frozenset[str]()
        for machine in situation.machines:
            self.insert(machine)
        self.demand(situation.needs)

    def insert(self, machine: Machine) -> None:
        if machine.id not in self.known:
            self.inventory.insert(machine, self.rest.now)
            self.known[machine.id] = machine

    def adopt(self, machine_id: str, machine: Machine) -> None:
        self.known[machine_id] = replace(machine, id=machine_id)
        self.inventory.adopt(self.known[machine_id], self.rest.now)

    def remove(self, machine_id: str) -> None:
        del self.known[machine_id]
        self.inventory.remove(machine_id)

    def demand(self, needs: Sequence[Need]) -> None:
        for cluster in {*self.needs.clusters, *(need.cluster for need in needs)}:
            self.needs.replace(cluster, [need for need in needs if need.cluster == cluster])

    def snapshot(self) -> InventorySnapshot:
        """What the engine gets to see: some machines may be left out for a while."""
        full = self.inventory.snapshot()
        rows = [row for machine_id in self.left_out if (row := full.row_of(machine_id)) is not None]
        return self.mask.without(full, np.array(sorted(rows), dtype=np.intp))

    @property
    def situation(self) -> Situation:
        snapshot = self.snapshot()
        return replace(self.rest, machines=tuple(snapshot.machines()), needs=self.needs.snapshot())

    def decide(self, planner: Planner) -> Decision:
        return planner.decide(
            self.snapshot(),
            self.needs.demand(),
            parked=self.rest.parked,
            reported_clusters=self.rest.reported_clusters,
            holds=self.rest.holds,
            now=self.rest.now,
        )


def edit(world: World, other: Situation, rng: Random) -> None:
    """One change of the kind that a shard lives through between two cycles."""
    known, machines = sorted(world.known), list(other.machines)
    match rng.randrange(12):
        case 0 | 1 | 2 if known and machines:
            for machine in rng.sample(machines, min(len(machines), 3)):
                world.adopt(rng.choice(known), machine)
        case 3 if machines:
            world.insert(rng.choice(machines))
        case 4 if known:
            world.remove(rng.choice(known))
        case 5 | 6:
            world.demand(other.needs)
        case 7:
            clusters = world.needs.clusters
            if clusters:
                chosen = rng.choice(clusters)
                rows = list(world.needs.of_cluster(chosen))
                world.needs.replace(chosen, rng.sample(rows, rng.randint(0, len(rows))))
        case 10 | 11 if known:
            world.left_out = frozenset(rng.sample(known, rng.randint(0, min(3, len(known)))))
        case 8:
            world.rest = replace(other, now=world.rest.now)
        case _:
            world.rest = replace(world.rest, now=world.rest.now + rng.choice([0, 1, 60, 600]))
            if rng.random() < 0.2:
                world.inventory.compact()


def check(seed: int, kind: Kind | None = None) -> None:
    rng = Random(seed)
    world, planner = World(situation_of(rng.choice, kind)), Planner()
    steps = rng.randint(2, 6)
    looked_at = rng.randrange(steps)
    kept: list[tuple[Situation, Decision, object]] = []
    for step in range(steps):
        fresh, decision = world.decide(Planner()), world.decide(planner)
        if step == looked_at:
            kept.append((world.situation, decision, decision_document(world.situation, fresh)))
        else:
            assert decision == fresh
        edit(world, situation_of(rng.choice, kind), rng)
    # What a decision computes lazily describes its own cycle, however late it is read for the first time.
    for situation, decision, document in kept:
        assert decision_document(situation, decision) == document


@pytest.mark.parametrize("part", PARTS)
@given(seed=seeds)
@settings(max_examples=500)
def test_any_sequence_of_edits_gives_the_full_answer(part: int, seed: int) -> None:
    check(seed * len(PARTS) + part)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**62))
@settings(max_examples=12_500)
def test_any_sequence_of_edits_gives_the_full_answer_at_length(part: int, seed: int) -> None:
    check(seed * len(PARTS) + part)


@given(seeds)
@settings(max_examples=200)
def test_any_sequence_of_edits_gives_the_full_answer_with_labels_split_off_as_wide(seed: int) -> None:
    with patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 1):
        check(seed)


@pytest.mark.rule("engine#open-demand")
@pytest.mark.parametrize("part", PARTS)
@given(seed=seeds)
@settings(max_examples=50)
def test_any_sequence_of_edits_with_many_open_needs_gives_the_full_answer(part: int, seed: int) -> None:
    check(seed * len(PARTS) + part, CROWDED[seed % len(CROWDED)])


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**62))
@settings(max_examples=12_500)
def test_any_sequence_of_edits_with_many_open_needs_gives_the_full_answer_at_length(
    part: int, seed: int
) -> None:
    check(seed * len(PARTS) + part, CROWDED[seed % len(CROWDED)])


def test_a_cycle_without_any_change_returns_the_very_same_decision() -> None:
    world, planner = World(Situation(10.0)), Planner()
    assert world.decide(planner) is world.decide(planner)
