"""One word for the fleet, one test per reason.

Rules: `dashboard#first-screen`, `dashboard#state-word`, `dashboard#trouble-in-one-look`, `dashboard#unknown-not-zero`.
"""

from dataclasses import replace

import pytest

from bigfleet.dashboard.core.health import FleetHealth, fleet_health, reasons, verdict
from bigfleet.dashboard.core.observed import (
    CoordinatorPlace,
    FleetPicture,
    ObservedCluster,
    ObservedCoolOff,
    ObservedCoordinator,
    ObservedCoverage,
    ObservedProblem,
    ObservedProvider,
    ObservedReport,
    ObservedShard,
    ShardPlace,
)
from bigfleet.model.resources import Resources

NOW = 1_000_000.0
REACHABLE = ObservedProvider(reachable=True, listing_age_s=3.0)
DEAD = ObservedProvider(reachable=False, unreachable_for_s=12.0, last_error="connection refused")
STOCK_OUT = ObservedCoolOff("m5", "zone-a", "Spot", "no capacity", 3, 40.0, 6)
SEEN = ObservedShard("s0", 7, NOW - 3, 1, last_reconcile=NOW - 3, cycle_interval_s=10.0)
CLUSTER = ObservedCluster(
    "web", connected=True, rollup_accepted=NOW, rows=3, held_rollups=0, reported=True, machines=2
)


def picture(
    seen: ObservedShard | None = SEEN,
    *,
    error: str = "",
    coordinator: CoordinatorPlace | None = None,
    cycle_at: float = NOW - 3,
) -> FleetPicture:
    answered = None if seen is None else NOW - 5
    place = ShardPlace("s0", "127.0.0.1:1", NOW, answered, error, seen, cycle_at=cycle_at)
    return FleetPicture(NOW, (place,), coordinator, shards_wired=True)


def kinds(given: FleetPicture) -> list[str]:
    return [reason.kind for reason in reasons(given)]


def test_a_fleet_of_which_nothing_is_wrong_is_good() -> None:
    found = reasons(picture(replace(SEEN, clusters=(CLUSTER,))))
    assert found == ()
    assert fleet_health(found) is FleetHealth.GOOD
    assert FleetHealth.GOOD.word == "good"


@pytest.mark.rule("dashboard#state-word", "dashboard#unknown-not-zero", "dashboard#optional-sources")
@pytest.mark.parametrize(
    ("given", "kind", "word"),
    [
        pytest.param(picture(replace(SEEN, self_paused=True)), "fenced", "stopped", id="fenced"),
        pytest.param(picture(replace(SEEN, actuation_paused=True)), "paused", "stopped", id="paused"),
        pytest.param(picture(replace(SEEN, dry_run=True)), "dry_run", "stopped", id="dry run"),
        pytest.param(picture(replace(SEEN, ready=False)), "not_ready", "degraded", id="not ready"),
        pytest.param(picture(error="does not answer"), "shard_lost", "degraded", id="silent shard"),
        pytest.param(
            picture(replace(SEEN, last_reconcile=NOW - 31)),
            "reconcile",
            "blind",
            id="reconcile failing at an older shard",
        ),
        pytest.param(
            picture(replace(SEEN, provider=replace(REACHABLE, listing_age_s=31.0))),
            "reconcile",
            "blind",
            id="reconcile failing",
        ),
        pytest.param(
            picture(replace(SEEN, provider=DEAD)), "provider_unreachable", "blind", id="provider unreachable"
        ),
        pytest.param(
            picture(replace(SEEN, provider=replace(REACHABLE, doubted_for_s=9.0, doubted_missing=200))),
            "listing_doubted",
            "blind",
            id="listing doubted",
        ),
        pytest.param(
            picture(replace(SEEN, needs=2, needs_short=1, shortfalls=1)),
            "shortfalls",
            "degraded",
            id="shortfall",
        ),
        pytest.param(
            picture(replace(SEEN, insight=False, needs=2, needs_short=1)),
            "shortfalls",
            "degraded",
            id="short need of a shard of the original",
        ),
        pytest.param(
            picture(replace(SEEN, cool_offs=(STOCK_OUT,))), "offering_cool_off", "degraded", id="stock-out"
        ),
        pytest.param(
            picture(replace(SEEN, problems=(ObservedProblem("flood", "water in the cellar"),))),
            "flood",
            "degraded",
            id="a kind that a newer shard knows",
        ),
        pytest.param(picture(cycle_at=NOW - 31), "stalled", "blind", id="no cycles"),
        pytest.param(
            picture(replace(SEEN, totals={"machines_rejected": 2})),
            "rejected",
            "degraded",
            id="records rejected",
        ),
        pytest.param(
            picture(replace(SEEN, totals={"audit_lost": 1})), "audit", "degraded", id="audit failing"
        ),
        pytest.param(
            picture(replace(SEEN, clusters=(replace(CLUSTER, connected=False),))),
            "session",
            "degraded",
            id="session missing",
        ),
        pytest.param(
            picture(replace(SEEN, clusters=(replace(CLUSTER, held_rollups=1),))),
            "quarantine",
            "degraded",
            id="roll-up quarantined",
        ),
        pytest.param(
            picture(coordinator=CoordinatorPlace("c:1", NOW, None, "no replica leads", None)),
            "no_coordinator",
            "degraded",
            id="no serving coordinator",
        ),
        pytest.param(
            picture(
                coordinator=CoordinatorPlace(
                    "c:1",
                    NOW,
                    NOW,
                    "",
                    ObservedCoordinator(reports=(ObservedReport("s0", 1, 0, NOW - 21),)),
                )
            ),
            "late_report",
            "degraded",
            id="report older than 20 s",
        ),
        pytest.param(FleetPicture(NOW), "no_source", "degraded", id="nothing wired"),
        pytest.param(FleetPicture(NOW, shards_wired=True), "no_shard", "degraded", id="nothing known yet"),
    ],
)
def test_each_reason_is_named(given: FleetPicture, kind: str, word: str) -> None:
    found = reasons(given)
    assert [reason.kind for reason in found] == [kind]
    assert fleet_health(found).word == word


@pytest.mark.rule("dashboard#state-word", "dashboard#unknown-not-zero")
def test_two_reasons_are_both_named_the_worse_first() -> None:
    seen = replace(SEEN, actuation_paused=True, totals={"machines_rejected": 1})
    assert kinds(picture(seen)) == ["paused", "rejected"]


def test_a_cluster_without_demand_and_machines_may_be_away() -> None:
    away = replace(CLUSTER, connected=False, rows=0, machines=0)
    assert kinds(picture(replace(SEEN, clusters=(away,)))) == []


@pytest.mark.rule("dashboard#trouble-in-one-look")
def test_the_first_line_names_the_dead_provider_and_what_needs_miss() -> None:
    seen = replace(
        SEEN,
        provider_address="127.0.0.1:9000",
        provider=DEAD,
        needs=5,
        needs_covered=3,
        shortfalls=2,
        coverage=ObservedCoverage(running=4, wanted=11, missing=Resources.parse({"cpu": "44"})),
        problems=(ObservedProblem("provider_unreachable", "…", 12.0), ObservedProblem("shortfalls", "…")),
    )
    given = picture(seen)
    assert verdict(reasons(given), given) == (
        "Provider 127.0.0.1:9000 of s0 unreachable for 12 s: connection refused; 2 needs of s0 miss 11 machines (cpu=44)"
    )


@pytest.mark.rule("dashboard#trouble-in-one-look")
@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (replace(SEEN, needs=5, needs_covered=5), "All 5 needs are covered."),
        (replace(SEEN, needs=1, needs_covered=1), "The one need is covered."),
        (replace(SEEN, needs=5, needs_covered=4), "4 of 5 needs covered; 1 being served."),
        (replace(SEEN, needs=5), "All 5 needs are covered."),
        (SEEN, "Nothing is wrong; no cluster asks for anything."),
        (replace(SEEN, cycle=0), "Nothing is wrong; a shard has not decided yet."),
    ],
)
def test_the_first_line_of_a_healthy_fleet_counts_covered_needs(seen: ObservedShard, line: str) -> None:
    given = picture(seen)
    assert verdict(reasons(given), given) == line


@pytest.mark.rule("dashboard#trouble-in-one-look")
def test_the_first_line_counts_what_it_has_no_room_for() -> None:
    clusters = tuple(replace(CLUSTER, cluster=f"c{n}", connected=False) for n in range(5))
    given = picture(replace(SEEN, clusters=clusters))
    assert verdict(reasons(given), given).endswith("; and 2 more")


@pytest.mark.rule("dashboard#trouble-in-one-look")
def test_a_problem_that_is_known_by_another_name_is_named_once() -> None:
    said = (ObservedProblem("self_paused", "…"), ObservedProblem("rollup_quarantine", "…"))
    seen = replace(SEEN, self_paused=True, problems=said, clusters=(replace(CLUSTER, held_rollups=1),))
    assert kinds(picture(seen)) == ["fenced", "quarantine"]
    alone = replace(SEEN, problems=said[1:])
    assert kinds(picture(alone)) == ["rollup_quarantine"]


@pytest.mark.rule("dashboard#ages")
def test_a_shard_whose_clock_was_an_hour_fast_is_judged_by_its_durations() -> None:
    future = replace(SEEN, last_reconcile=NOW + 3548, computed_at=NOW + 3548)
    assert kinds(picture(replace(future, provider=replace(REACHABLE, listing_age_s=90.0)))) == ["reconcile"]
    assert kinds(picture(replace(future, provider=DEAD))) == ["provider_unreachable"]
    assert kinds(picture(future, cycle_at=NOW - 60)) == ["stalled"]
