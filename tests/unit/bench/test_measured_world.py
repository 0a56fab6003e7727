"""The measured: changes come and go, and a planner that remembers wrongly is found out."""

from dataclasses import replace

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.bench.measured_world import (
    NO_CHANGE,
    MeasuredWorld,
    WorldChange,
    WrongAnswerError,
    changed_cycle,
    repeated_pass,
)
from bigfleet.bench.meter import BenchMeter
from bigfleet.model.decision import Decision
from bigfleet.model.machine import MachineState
from bigfleet.workload.changes import grown, machine_changes
from bigfleet.workload.profiles import profile_named
from bigfleet.workload.worlds import settled_world


@pytest.fixture(scope="module")
def measured() -> MeasuredWorld:
    return MeasuredWorld(settled_world(profile_named("tiny"), SeededRng(1)))


def some_change(measured: MeasuredWorld) -> WorldChange:
    world = measured.world
    name = world.needs.clusters[0]
    changed = machine_changes(world.inventory.snapshot(), [name], 4, SeededRng(1).stream("lost"))
    return WorldChange({name: grown(world.needs.of_cluster(name), 30)}, changed)


def test_a_change_can_be_taken_back_without_a_trace(measured: MeasuredWorld) -> None:
    world = measured.world
    machines, needs = list(world.inventory.snapshot().machines()), world.needs.snapshot()
    measured.change(some_change(measured))
    assert world.inventory.count_by_state()[MachineState.FAILED] == 1
    assert world.needs.snapshot() != needs
    measured.restore()
    assert list(world.inventory.snapshot().machines()) == machines
    assert world.needs.snapshot() == needs
    measured.restore()
    assert world.needs.snapshot() == needs


def test_deciding_about_nothing_decides_nothing(measured: MeasuredWorld) -> None:
    assert measured.index() == Decision((), (), ())


def test_every_repetition_starts_from_rest_and_notes_its_first_answer_only(measured: MeasuredWorld) -> None:
    noted: list[Decision] = []
    meter = BenchMeter(3, unit=lambda: None)
    meter.measure(changed_cycle("churn", measured, lambda: some_change(measured), noted.append))
    measured.restore()
    assert len(noted) == 1
    assert noted[0].actions
    assert not measured.cycle().actions


def test_a_cycle_that_remembers_wrongly_is_refused(
    measured: MeasuredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = measured.full_pass
    monkeypatch.setattr(measured, "full_pass", lambda: replace(right(), verdicts=()))
    noted: list[Decision] = []
    case = changed_cycle("zero_change", measured, lambda: NO_CHANGE, noted.append)
    with pytest.raises(WrongAnswerError, match="zero_change: the decision differs"):
        BenchMeter(1, unit=lambda: None).measure(case)


def test_a_full_pass_that_answers_differently_each_time_is_refused(measured: MeasuredWorld) -> None:
    answers = iter([Decision((), (), ()), measured.full_pass()])
    noted: list[Decision] = []
    case = repeated_pass("full_pass", lambda: next(answers), noted.append)
    with pytest.raises(WrongAnswerError, match="full_pass"):
        BenchMeter(2, unit=lambda: None).measure(case)
