"""What is wrong, as one list of sentences (`shard#problems-in-one-look`)."""

from dataclasses import replace
from typing import Any

import pytest

from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from bigfleet.shard.core.coverage import Coverage, HeldMachines, LiveMachines
from bigfleet.shard.core.problems import NAMED, Problem, ProblemKind, problems_of
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import (
    CycleFacts,
    CycleView,
    HoldOff,
    OfferingCoolOff,
    ProviderHealth,
    ShardStatus,
)
from tests.support.builders import amounts, machine, shape
from tests.support.shard_views import StaticShard, cycle_of

pytestmark = pytest.mark.rule("shard#problems-in-one-look")

NOW = 1000.0
GPU_SLOT = machine("s-1", S.SPECULATIVE, shape=shape(resources={"nvidia.com/gpu": "8"}))
GPUS = Need("web", Profile(priority=1000), amounts(**{"nvidia.com/gpu": 8}))
UNREACHABLE = ProviderHealth(
    reachable=False, unreachable_for_s=12.2, failures=4, last_error="connection refused", next_probe_in_s=3.7
)


def problems(
    view: CycleView | None = None, status: ShardStatus | None = None, **given: Any
) -> tuple[Problem, ...]:  # Any: fields of the sources
    sources = StatusSources(**({"cycle_interval_s": 10.0} | given))
    coverage = None
    if view is not None:
        live = LiveMachines({}, lambda _machine_id: True)
        coverage = Coverage(
            view, HeldMachines(view), live, now_s=sources.now(view.now), cycle_interval_s=10.0
        )
    return problems_of(status or StaticShard().status(), view, coverage, sources)


def texts(*args: Any, **given: Any) -> list[str]:
    return [item.text for item in problems(*args, **given)]


def test_a_healthy_shard_has_no_problem_before_and_after_its_first_cycle() -> None:
    fleet = (machine("m-1", S.CONFIGURED, cluster="web"),)
    assert problems() == ()
    assert problems(cycle_of(Situation(NOW, fleet, (Need("web", Profile(), amounts(cpu=4)),)))) == ()


def test_a_dead_provider_is_named_with_error_waiting_actions_and_next_attempt_and_so_is_who_is_short() -> (
    None
):
    view = cycle_of(
        Situation(NOW, (GPU_SLOT,), (GPUS,)),
        held_off={0: HoldOff.PROVIDER_UNREACHABLE},
        facts=CycleFacts(backed_off=1),
    )
    status = StaticShard(provider=UNREACHABLE, provider_address="127.0.0.1:9000").status()
    assert texts(view, status) == [
        "provider 127.0.0.1:9000 unreachable for 12 s: connection refused; 1 action waits; next attempt in 4 s",
        "web is short 8 GPUs: provider unreachable",
    ]


def test_without_a_held_off_action_none_waits_for_the_provider() -> None:
    status = StaticShard(provider=UNREACHABLE, provider_address="p:1").status()
    assert texts(None, status) == [
        "provider p:1 unreachable for 12 s: connection refused; next attempt in 4 s"
    ]


def test_a_shard_that_paused_itself_says_why_and_one_paused_by_a_person_has_no_problem() -> None:
    paused = StaticShard(paused=True).status()
    assert problems(None, paused, self_pause=lambda: "fenced") == (
        Problem(ProblemKind.SELF_PAUSED, "fenced"),
    )
    assert problems(None, paused, actuation_paused=True) == ()


def test_a_doubted_listing_is_a_problem() -> None:
    status = StaticShard(provider=ProviderHealth(doubted_for_s=45.0, doubted_missing=215)).status()
    assert problems(None, status) == (
        Problem(
            ProblemKind.LISTING_DOUBTED,
            "the provider's listings have lacked 215 machines for 45 s; the shard does not believe them yet and "
            "removes none",
            45.0,
        ),
    )


def test_held_roll_ups_are_named_by_cluster() -> None:
    view = cycle_of(Situation(NOW, (), (), reported_clusters=frozenset({"web", "train"})))
    assert texts(view, held_rollups=lambda cluster: 2 if cluster == "web" else 0) == [
        "2 roll-ups of web in a row held back: almost no rows left; its earlier demand counts"
    ]


def test_an_offering_in_cool_off_is_a_problem_even_if_every_need_is_served() -> None:
    cool_off = OfferingCoolOff("m5.large", "za", CapacityType.SPOT, "stockout: none", 2, until_s=NOW + 40)
    view = cycle_of(Situation(NOW, (), ()), cool_offs=(cool_off,))
    assert texts(view) == ["m5.large in za (Spot) is stocked out; next attempt in 40 s"]
    assert texts(view, now_s=lambda: NOW + 41) == [
        "m5.large in za (Spot) is stocked out; the next attempt is due"
    ]


def test_a_need_for_which_no_machine_exists_is_short_with_the_reason_of_the_engine() -> None:
    assert texts(cycle_of(Situation(NOW, (), (GPUS,)))) == ["web is short 8 GPUs: no matching supply"]


def test_a_need_that_waits_for_a_machine_that_drains_is_no_problem() -> None:
    low = machine("m-1", S.CONFIGURED, cluster="low")
    high = Need("high", Profile(priority=9000), amounts(cpu=4))
    view = cycle_of(Situation(NOW, (low,), (high,)))
    assert not view.decision.verdicts[0].satisfied
    assert view.decision.unresolved == ()
    assert problems(view) == ()


def test_a_lost_audit_log_is_the_last_problem() -> None:
    view = cycle_of(Situation(NOW, (), (GPUS,)))
    assert [item.kind for item in problems(view, audit_lost=lambda: "the audit log cannot be written")] == [
        ProblemKind.SHORTFALLS,
        ProblemKind.AUDIT_LOST,
    ]


def test_of_many_problems_of_one_kind_a_few_are_named_and_the_rest_is_counted() -> None:
    needs = tuple(Need(f"c{n:02}", Profile(priority=9), amounts(cpu=4)) for n in range(NAMED + 7))
    found = problems(cycle_of(Situation(NOW, (), needs)))
    assert len(found) == NAMED + 1
    assert (found[-1].text, sum(item.count for item in found)) == ("7 more needs are short", NAMED + 7)


def test_an_error_of_many_lines_stays_one_short_line() -> None:
    state = replace(UNREACHABLE, last_error="a\n" * 500)
    (text,) = texts(None, StaticShard(provider=state).status())
    assert "\n" not in text
    assert len(text) < 320
