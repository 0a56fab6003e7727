"""Timelines of machines, read off two cycles at a time (`dashboard#explain-machine`)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import HostRef, Machine
from bigfleet.model.machine import MachineState as S
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.transition_log import FRESH_LOGGED, PER_MACHINE, TransitionLog
from bigfleet.shard.core.views import StateChange
from tests.support.builders import machine
from tests.support.shard_views import cycle_of


class World:
    """An inventory that is looked at cycle by cycle."""

    def __init__(self, machines_kept: int = 100) -> None:
        self.inventory, self.log, self.cycle = Inventory(), TransitionLog(machines_kept), 0
        self.look()

    def look(self, *acted_on: str, made: Sequence[StateChange] = ()) -> None:
        self.cycle += 1
        view = cycle_of(Situation(0.0), self.cycle, snapshot=self.inventory.snapshot())
        self.log.add(view, acted_on, made)

    def insert(self, machine: Machine) -> None:
        self.inventory.insert(machine, 0.0)

    def told(self, machine_id: str) -> list[tuple[str, str, str]]:
        return [(item.before, item.after, item.cause) for item in self.log.of(machine_id)]


def test_a_life_is_told_newest_first_with_who_brought_it_about() -> None:
    world = World()
    known = machine("m-1", S.SPECULATIVE)
    world.insert(known)
    world.look()
    for state, acted in ((S.CREATING, ("m-1",)), (S.IDLE, ())):
        host = HostRef("p", "h") if state is S.IDLE else known.host
        known = replace(known, state=state, host=host)
        world.inventory.apply(known, 0.0)
        world.look(*acted)
    world.inventory.remove("m-1")
    world.look()
    assert world.told("m-1") == [
        ("Idle", "", "reconcile"),
        ("Creating", "Idle", "reconcile"),
        ("Speculative", "Creating", "action"),
        ("", "Speculative", "reconcile"),
    ]
    assert [item.at_ns for item in world.log.of("m-1")] == sorted(
        (item.at_ns for item in world.log.of("m-1")), reverse=True
    )


@pytest.mark.rule("dashboard#explain-machine")
def test_a_drain_that_begins_and_ends_between_two_cycles_is_not_left_out() -> None:
    world = World()
    serving = machine("m-1", S.CONFIGURED, cluster="web")
    world.insert(serving)
    world.look()
    world.inventory.apply(replace(serving, state=S.DRAINING), 0.0)
    world.inventory.adopt(machine("m-1", S.IDLE), 0.0)
    drained = StateChange("m-1", S.DRAINING, S.IDLE, 8.0)
    world.look("m-1", made=[StateChange("m-1", S.CONFIGURED, S.DRAINING, 7.0), drained])
    assert world.told("m-1")[:2] == [("Draining", "Idle", "action"), ("Configured", "Draining", "action")]
    assert [change.at_ns for change in world.log.of("m-1")[:2]] == [8_000_000_000, 7_000_000_000]


def test_what_the_provider_changed_between_two_actions_is_filled_in() -> None:
    world = World()
    world.insert(machine("m-1", S.IDLE))
    world.look()
    world.look(
        "m-1",
        made=[StateChange("m-1", S.IDLE, S.CONFIGURING, 7.0), StateChange("m-1", S.CONFIGURING, S.IDLE, 8.0)],
    )
    assert world.told("m-1")[:2] == [("Configuring", "Idle", "action"), ("Idle", "Configuring", "action")]
    world.inventory.adopt(machine("m-1", S.FAILED), 0.0)
    world.look("m-1", made=[StateChange("m-1", S.CONFIGURED, S.DRAINING, 9.0)])
    assert world.told("m-1")[:3] == [
        ("Draining", "Failed", "action"),
        ("Configured", "Draining", "action"),
        ("Idle", "Configured", "action"),
    ]


def test_a_machine_that_takes_the_row_of_another_is_told_apart_from_it() -> None:
    world = World()
    world.insert(machine("old", S.IDLE))
    world.look()
    world.inventory.remove("old")
    world.insert(machine("new", S.IDLE))
    world.look()
    assert world.told("old") == [("Idle", "", "reconcile"), ("", "Idle", "reconcile")]
    assert world.told("new") == [("", "Idle", "reconcile")]


def test_nothing_is_told_of_a_machine_that_did_not_change() -> None:
    world = World()
    world.insert(machine("m-1"))
    for _ in range(4):
        world.look()
    assert world.told("m-1") == [("", "Idle", "reconcile")]
    assert world.told("nobody") == []


def test_after_ids_were_packed_anew_one_step_is_lost_and_none_is_wrong() -> None:
    world = World()
    for number in range(40):
        world.insert(machine(f"m-{number:02d}"))
    world.look()
    for number in range(30):
        world.inventory.remove(f"m-{number:02d}")
    world.inventory.compact()
    world.look()
    assert all(world.told(f"m-{number:02d}") == [("", "Idle", "reconcile")] for number in range(40))
    world.inventory.remove("m-35")
    world.look()
    assert world.told("m-35")[0] == ("Idle", "", "reconcile")


def test_a_first_listing_is_no_news() -> None:
    world = World(machines_kept=10 * FRESH_LOGGED)
    for number in range(FRESH_LOGGED + 1):
        world.insert(machine(f"m-{number}"))
    world.look()
    assert world.told("m-0") == []


def test_a_machine_keeps_twenty_steps_and_the_log_a_bounded_number_of_machines() -> None:
    world = World(machines_kept=2)
    known = machine("m-1", S.IDLE)
    world.insert(known)
    for number in range(30):
        state = S.IDLE if number % 2 else S.DELETING
        world.inventory.adopt(replace(known, state=state), 0.0)
        world.look()
    assert len(world.log.of("m-1")) == PER_MACHINE == 20
    for name in ("m-2", "m-3"):
        world.insert(machine(name))
        world.look()
    assert world.told("m-1") == []
    assert world.told("m-3") == [("", "Idle", "reconcile")]
