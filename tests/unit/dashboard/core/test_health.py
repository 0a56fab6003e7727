"""One word for the fleet, one test per reason.

Rules: `dashboard#first-screen`, `dashboard#state-word`, `dashboard#unknown-not-zero`.
"""

from dataclasses import replace

import pytest

from bigfleet.dashboard.core.health import FleetHealth, fleet_health, reasons
from bigfleet.dashboard.core.observed import (
    CoordinatorPlace,
    FleetPicture,
    ObservedCluster,
    ObservedCoordinator,
    ObservedReport,
    ObservedShard,
    ShardPlace,
)

NOW = 1_000_000.0
SEEN = ObservedShard("s0", 7, NOW - 3, 1, last_reconcile=NOW - 3, cycle_interval_s=10.0)
CLUSTER = ObservedCluster(
    "web", connected=True, rollup_accepted=NOW, rows=3, held_rollups=0, reported=True, machines=2
)


def picture(
    seen: ObservedShard | None = SEEN, *, error: str = "", coordinator: CoordinatorPlace | None = None
) -> FleetPicture:
    place = ShardPlace("s0", "127.0.0.1:1", NOW, None if seen is None else NOW - 5, error, seen)
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
            "acting blind",
            id="reconcile failing",
        ),
        pytest.param(picture(replace(SEEN, computed_at=NOW - 31)), "stalled", "acting blind", id="no cycles"),
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
