"""Every planted fault is noticed by the test that is named beside it, and by nothing when it is not there."""

from dataclasses import replace

import pytest

from tests.planted.cache_faults import CACHES
from tests.planted.faults import RULES, Fault
from tests.planted.planting import notices, planted

FAULTS = (*RULES, *CACHES)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_the_fault_is_noticed_by_the_test_named_beside_it(fault: Fault) -> None:
    with planted(fault):
        assert notices(fault.caught_by)


def test_without_a_fault_those_tests_notice_nothing() -> None:
    with planted(None):
        assert [check for check in sorted({fault.caught_by for fault in FAULTS}) if notices(check)] == []


@pytest.mark.parametrize("fault", [RULES[0], CACHES[0]], ids=["rule", "cache"])
def test_a_fault_that_nothing_notices_would_be_told(fault: Fault) -> None:
    with planted(replace(fault, instead=fault.line)):
        assert not notices(fault.caught_by)


def test_a_fault_whose_line_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"), planted(replace(RULES[0], line="no such line")):
        pass


@pytest.mark.parametrize(
    "rule",
    [
        "engine#victims",
        "engine#preemption-in-flight",
        "engine#pools",
        "engine#foldable",
        "engine#crediting",
        "engine#spread-picker",
        "engine#victim-cost",
        "engine#acquisition-order",
    ],
)
def test_each_rule_that_is_easily_broken_has_a_fault(rule: str) -> None:
    assert any(f"({rule})" in fault.what for fault in RULES)


def test_there_are_enough_faults_and_they_reach_every_phase() -> None:
    assert len(FAULTS) >= 25
    assert len(CACHES) >= 5
    modules = {fault.module.rsplit("/", 1)[-1] for fault in FAULTS}
    assert modules >= {
        "fold",
        "cluster_run",
        "domains",
        "acquire",
        "spread",
        "phase2",
        "phase3",
        "planner",
        "fleet",
    }
