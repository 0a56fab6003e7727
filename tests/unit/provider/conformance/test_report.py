"""Verdicts, remarks and the command that repeats a failure."""

import shlex

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.provider.conformance.catalogue import BEHAVIOURS, find
from bigfleet.provider.conformance.report import (
    BehaviourResult,
    BehaviourStatus,
    RunVerdict,
    judge,
    remarks,
    repeat_command,
)
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSettings
from bigfleet.testing.net.network import Network

REQUIRED = [find(behaviour_id) for behaviour_id in ("A01", "B303", "B904")]


def ended(**statuses: BehaviourStatus) -> list[BehaviourResult]:
    return [BehaviourResult(find(behaviour_id), status) for behaviour_id, status in statuses.items()]


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        pytest.param(
            ended(A01=BehaviourStatus.PASSED, B303=BehaviourStatus.PASSED, B904=BehaviourStatus.PASSED),
            RunVerdict.CERTIFIED,
            id="all passed",
        ),
        pytest.param(
            ended(A01=BehaviourStatus.PASSED, B303=BehaviourStatus.PASSED, B904=BehaviourStatus.SKIPPED),
            RunVerdict.CERTIFIED,
            id="a skip counts as inapplicable",
        ),
        pytest.param(
            ended(
                A01=BehaviourStatus.PASSED, B303=BehaviourStatus.NOT_APPLICABLE, B904=BehaviourStatus.PASSED
            ),
            RunVerdict.CERTIFIED,
            id="not applicable to bare metal",
        ),
        pytest.param(
            ended(A01=BehaviourStatus.PASSED, B303=BehaviourStatus.NO_MACHINE, B904=BehaviourStatus.PASSED),
            RunVerdict.INCOMPLETE,
            id="no machine to work on",
        ),
        pytest.param(
            ended(A01=BehaviourStatus.PASSED, B303=BehaviourStatus.NOT_RUN, B904=BehaviourStatus.PASSED),
            RunVerdict.INCOMPLETE,
            id="the kit lacked something",
        ),
        pytest.param(
            ended(A01=BehaviourStatus.PASSED, B303=BehaviourStatus.PASSED),
            RunVerdict.INCOMPLETE,
            id="left out by --only",
        ),
        pytest.param(
            ended(A01=BehaviourStatus.NO_MACHINE, B303=BehaviourStatus.FAILED, B904=BehaviourStatus.PASSED),
            RunVerdict.FAILED,
            id="a failure outweighs a gap",
        ),
    ],
)
def test_verdict(results: list[BehaviourResult], verdict: RunVerdict) -> None:
    found, reasons = judge(results, REQUIRED)
    assert found is verdict
    assert bool(reasons) == (verdict is not RunVerdict.CERTIFIED)


def test_what_is_not_required_does_not_count() -> None:
    results = ended(
        A01=BehaviourStatus.PASSED,
        B303=BehaviourStatus.PASSED,
        B904=BehaviourStatus.PASSED,
        X01=BehaviourStatus.FAILED,
        B708=BehaviourStatus.FAILED,
    )
    assert judge(results, REQUIRED) == (RunVerdict.CERTIFIED, ())


def test_background_work_is_suspected_when_exactly_the_quiet_cursor_behaviours_fail() -> None:
    assert (
        "background"
        in remarks(
            ended(A01=BehaviourStatus.PASSED, B904=BehaviourStatus.FAILED, B908=BehaviourStatus.FAILED)
        )[0]
    )
    assert remarks(ended(A01=BehaviourStatus.FAILED, B908=BehaviourStatus.FAILED)) == ()


def test_what_does_not_apply_to_bare_metal_is_named() -> None:
    (remark,) = remarks(
        ended(
            A02=BehaviourStatus.NOT_APPLICABLE,
            B202=BehaviourStatus.NOT_APPLICABLE,
            A03=BehaviourStatus.PASSED,
        )
    )
    assert remark == "not applicable to bare metal: A02, B202"


def test_the_repeating_command_has_everything_that_was_chosen() -> None:
    settings = RunSettings(
        net=Network().host("nowhere"),
        clock=SystemClock(),
        run_id="r",
        seed=7,
        profiles=(ConformanceProfile.CORE, ConformanceProfile.FAULT),
        machines="test *",
        repeat_flags=("--fault-target", "127.0.0.1:9400"),
    )
    words = shlex.split(repeat_command("B303", "127.0.0.1:9000", settings))
    assert words[:4] == ["bigfleet", "conformance", "--target", "127.0.0.1:9000"]
    assert " ".join(words[4:]) == (
        "--profile core,fault --seed 7 --only B303 --machines test * --fault-target 127.0.0.1:9400 --yes"
    )


def test_every_behaviour_belongs_to_one_lane_of_the_verdict() -> None:
    assert all(behaviour.profiles or behaviour.lane == "extra" for behaviour in BEHAVIOURS)
