"""Benchmarks by name, and the worlds they run on."""

import pytest

from bigfleet.bench.cases import CASES
from bigfleet.bench.plans import BENCHMARKS, SPECIAL_PLANS, names_of, plan_named
from bigfleet.model.errors import InvalidFieldError
from bigfleet.workload.profiles import PROFILES

PUBLISHED = (
    "index full_pass zero_change churn_local churn_spread burst_new_needs burst_growth cold_bring_up preemption "
    "unique_class_full_pass unique_price_churn ingest_unchanged ingest_first ingest_delta"
)


def test_the_benchmarks_have_the_published_names_in_their_order() -> None:
    assert list(BENCHMARKS) == PUBLISHED.split()


def test_every_benchmark_can_be_made() -> None:
    assert list(CASES) == [name for name in BENCHMARKS if not name.startswith("ingest_")]


def test_a_profile_is_a_plan_of_everything_under_both_its_names() -> None:
    plan = plan_named("uber-50k")
    assert plan == plan_named("50k")
    assert (plan.name, plan.names) == ("50k", tuple(BENCHMARKS))


def test_special_plans_stand_beside_the_profiles() -> None:
    assert {"burst", "preemption-heavy", "unique-label"} == set(SPECIAL_PLANS)
    assert not set(SPECIAL_PLANS) & set(PROFILES)
    assert plan_named("preemption-heavy").preempting_share == 0.5
    for name, plan in SPECIAL_PLANS.items():
        assert plan_named(name) is plan
        assert set(plan.names) <= set(BENCHMARKS)


def test_a_world_that_nobody_knows_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(InvalidFieldError, match=r"profile: found '6k', allowed is one of 5k, .*tiny.*burst"):
        plan_named("6k")
    with pytest.raises(InvalidFieldError, match="profile"):
        plan_named("")


def test_benchmarks_asked_for_run_once_and_in_their_order() -> None:
    plan = plan_named("burst")
    assert names_of(plan, ()) == ("full_pass", "burst_new_needs", "burst_growth", "cold_bring_up")
    assert names_of(plan, ("zero_change", "index", "index")) == ("index", "zero_change")
    with pytest.raises(
        InvalidFieldError, match=r"only: found 'half_pass', allowed is one of index, full_pass"
    ):
        names_of(plan, ("half_pass",))
