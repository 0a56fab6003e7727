"""Fleets in bulk are the fleets that were made one machine at a time."""

from dataclasses import replace

import numpy as np
import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import UNASSIGNED, Machine, MachineState, check
from bigfleet.model.profile import HOST_NAME_KEY
from bigfleet.workload.bulk import copied, load_fleet, priced_apart, unbound
from bigfleet.workload.fleet import fleet_parts, generate_fleet
from bigfleet.workload.profiles import profile_named

TINY = profile_named("tiny")


def machines_of(inventory: Inventory) -> list[Machine]:
    return list(inventory.snapshot().machines())


@pytest.fixture(scope="module")
def singly() -> list[Machine]:
    return sorted(generate_fleet(TINY, SeededRng(1)), key=lambda machine: machine.id)


def test_a_fleet_loaded_in_bulk_is_the_one_made_singly(singly: list[Machine]) -> None:
    assert machines_of(load_fleet(fleet_parts(TINY, SeededRng(1)))) == singly


def test_every_machine_gets_a_host_name_that_no_other_has(singly: list[Machine]) -> None:
    loaded = machines_of(load_fleet(fleet_parts(TINY, SeededRng(1)), host_names=True))
    names = [machine.shape.labels[HOST_NAME_KEY] for machine in loaded]
    assert len(set(names)) == len(singly)
    bare = [
        replace(item, shape=item.shape.with_labels(item.shape.labels.without(HOST_NAME_KEY)))
        for item in loaded
    ]
    assert bare == singly


def test_every_machine_gets_a_price_that_no_other_has_and_stays_in_its_tier(singly: list[Machine]) -> None:
    parts = priced_apart(fleet_parts(TINY, SeededRng(1)), SeededRng(1).stream("prices"))
    loaded = machines_of(load_fleet(parts))
    prices = [machine.shape.price_per_hour for machine in loaded]
    assert len(set(prices)) == len(singly)
    raised = [price - machine.shape.price_per_hour for price, machine in zip(prices, singly, strict=True)]
    assert min(raised) >= 0
    assert max(raised) < 0.01
    assert prices != sorted(prices)


def test_before_the_first_need_bound_machines_are_idle_and_unstamped(singly: list[Machine]) -> None:
    loaded = machines_of(load_fleet(unbound(fleet_parts(TINY, SeededRng(1)))))
    assert [machine.id for machine in loaded] == [machine.id for machine in singly]
    assert {machine.state for machine in loaded} == {MachineState.IDLE, MachineState.SPECULATIVE}
    assert {machine.assigned for machine in loaded} == {UNASSIGNED}
    for machine in loaded:
        check(machine)


def test_a_copy_holds_the_machines_asked_for_as_they_are(singly: list[Machine]) -> None:
    snapshot = load_fleet(fleet_parts(TINY, SeededRng(1))).snapshot()
    bound = snapshot.in_state(MachineState.CONFIGURED)
    copy = copied(snapshot, bound)
    assert machines_of(copy) == [machine for machine in singly if machine.cluster]
    assert len(copied(snapshot, np.empty(0, dtype=np.intp))) == 0
