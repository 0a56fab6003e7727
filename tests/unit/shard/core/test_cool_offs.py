"""Offerings that are out of stock, and machines whose actions failed (`shard#offering-cool-off`, `shard#machine-back-off`)."""

import pytest

from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.shard.core.machine_backoffs import MOST, MachineBackoffs
from bigfleet.shard.core.offering_cool_offs import OfferingCoolOffs
from tests.support.builders import machine, shape

S = MachineState
CHEAP = shape(instance_type="cheap", zone="za", capacity_type=CapacityType.SPOT)
DEAR = shape(instance_type="dear", zone="za", capacity_type=CapacityType.SPOT)


class Fleet:
    """Three slots of a cheap offering and two of a dear one."""

    def __init__(self) -> None:
        self.inventory, self.cool_offs = Inventory(), OfferingCoolOffs()
        for machine_id in ("c-0", "c-1", "c-2"):
            self.inventory.insert(machine(machine_id, S.SPECULATIVE, shape=CHEAP), 0.0)
        for machine_id in ("d-0", "d-1"):
            self.inventory.insert(machine(machine_id, S.SPECULATIVE, shape=DEAR), 0.0)

    def turn(self, machine_id: str, state: MachineState) -> None:
        known = self.inventory.get(machine_id)
        self.inventory.adopt(machine(machine_id, state, shape=known.shape), 0.0)

    def left_out(self, now: float) -> list[str]:
        snapshot = self.inventory.snapshot()
        return [snapshot.machine_id(int(row)) for row in self.cool_offs.rows_left_out(snapshot, now)]

    def fail(self, machine_id: str, now: float) -> None:
        self.cool_offs.failed(self.inventory.get(machine_id).shape, machine_id, "stockout: none left", now)


@pytest.mark.rule("shard#offering-cool-off")
def test_a_stock_out_leaves_out_the_slots_of_its_offering_alone() -> None:
    fleet = Fleet()
    assert fleet.left_out(0) == []
    fleet.turn("c-0", S.CREATING)
    fleet.fail("c-0", 0)
    assert fleet.left_out(1) == ["c-1", "c-2"]
    assert fleet.cool_offs.holds(CHEAP, "c-1")
    assert not fleet.cool_offs.holds(DEAR, "d-0")
    (view,) = fleet.cool_offs.views()
    assert (view.instance_type, view.zone, view.capacity_type) == ("cheap", "za", CapacityType.SPOT)
    assert (view.error, view.failures, view.until_s, view.machines) == ("stockout: none left", 1, 30, 2)


@pytest.mark.rule("shard#offering-cool-off")
def test_one_slot_is_tried_after_each_wait_and_the_waits_double_to_ten_minutes() -> None:
    fleet, now, tried = Fleet(), 0.0, []
    fleet.fail("c-2", now)
    for _ in range(7):
        while fleet.left_out(now) != ["c-1", "c-2"]:
            assert fleet.left_out(now) == ["c-0", "c-1", "c-2"]
            now += 10
        tried.append(now)
        assert not fleet.cool_offs.holds(CHEAP, "c-0")
        assert fleet.cool_offs.holds(CHEAP, "c-1")
        fleet.turn("c-0", S.CREATING)
        assert fleet.left_out(now) == ["c-1", "c-2"]  # no second attempt while the first is undecided
        fleet.fail("c-0", now)
        fleet.turn("c-0", S.SPECULATIVE)
    assert [later - earlier for earlier, later in zip([0.0, *tried], tried, strict=False)] == [
        30, 60, 120, 240, 480, 600, 600,
    ]  # fmt: skip
    assert fleet.cool_offs.views()[0].failures == 8


@pytest.mark.rule("shard#offering-cool-off")
@pytest.mark.parametrize("made", [S.IDLE, S.CONFIGURING, S.CONFIGURED])
def test_one_machine_that_is_made_ends_the_cool_off(made: MachineState) -> None:
    fleet = Fleet()
    fleet.fail("c-0", 0)
    assert fleet.left_out(30) == ["c-1", "c-2"]
    fleet.turn("c-0", S.CREATING)
    assert fleet.left_out(40) == ["c-1", "c-2"]
    assert len(fleet.cool_offs.views()) == 1
    fleet.turn("c-0", made)
    assert fleet.left_out(50) == []
    assert not fleet.cool_offs


@pytest.mark.rule("shard#offering-cool-off")
def test_calls_that_were_under_way_at_the_first_failure_do_not_lengthen_the_wait() -> None:
    fleet = Fleet()
    for machine_id in ("c-0", "c-1", "c-2"):
        fleet.fail(machine_id, 1)
    (view,) = fleet.cool_offs.views()
    assert (view.failures, view.until_s) == (1, 31)


@pytest.mark.rule("shard#offering-cool-off")
def test_an_offered_slot_that_nothing_needs_ends_the_cool_off_after_as_long_again() -> None:
    fleet = Fleet()
    fleet.fail("c-0", 0)
    assert fleet.left_out(30) == ["c-1", "c-2"]
    assert fleet.cool_offs.views() == ()  # it is offered, so nothing is out of stock any more
    assert fleet.left_out(59) == ["c-1", "c-2"]
    assert fleet.left_out(60) == []


@pytest.mark.rule("shard#offering-cool-off")
def test_another_slot_is_offered_when_the_trial_fails_for_another_reason_or_is_gone() -> None:
    fleet = Fleet()
    fleet.fail("c-0", 0)
    fleet.left_out(30)
    fleet.turn("c-0", S.FAILED)
    assert fleet.left_out(31) == ["c-2"]
    fleet.inventory.remove("c-1")
    assert fleet.left_out(32) == []
    assert len(fleet.cool_offs) == 1


@pytest.mark.rule("shard#machine-back-off")
def test_a_failing_machine_waits_five_seconds_doubling_to_five_minutes() -> None:
    backoffs, now, waits = MachineBackoffs(), 0.0, []
    for _ in range(8):
        backoffs.failed("m", "configure: no", now)
        until = backoffs.views(now)["m"].until_s
        waits.append(until - now)
        assert backoffs.holds("m", until - 0.1)
        assert not backoffs.holds("m", until)
        now = until
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    backoffs.worked("m")
    assert (len(backoffs), backoffs.holds("m", now)) == (0, False)


@pytest.mark.rule("shard#machine-back-off")
def test_only_machines_that_could_be_obtained_are_left_out_and_old_entries_are_forgotten() -> None:
    inventory, backoffs = Inventory(), MachineBackoffs()
    for machine_id, state in (("a", S.IDLE), ("b", S.SPECULATIVE), ("c", S.CONFIGURED), ("d", S.IDLE)):
        inventory.insert(machine(machine_id, state), 0.0)
    for machine_id in ("a", "b", "c", "gone"):
        backoffs.failed(machine_id, "drain: no", 0.0)
    snapshot = inventory.snapshot()
    left_out = backoffs.rows_left_out(snapshot, 1.0)
    assert [snapshot.machine_id(int(row)) for row in left_out] == ["a", "b"]
    assert backoffs.rows_left_out(snapshot, 5.0).size == 0
    assert (len(backoffs), dict(backoffs.views(5.0))) == (4, {})
    backoffs.rows_left_out(snapshot, 306.0)
    assert len(backoffs) == 0


@pytest.mark.rule("shard#machine-back-off")
def test_the_number_of_back_offs_is_bounded() -> None:
    backoffs = MachineBackoffs()
    for number in range(MOST + 5):
        backoffs.failed(f"m-{number:05}", "x", float(number))
    assert len(backoffs) == MOST
    assert not backoffs.holds("m-00004", 0.0)
    assert backoffs.holds("m-00005", 0.0)
