"""What a sample of the history holds, how samples become longer steps, and the lines of a range."""

import json
from dataclasses import replace

import pytest

from bigfleet.dashboard.core.history_sample import (
    FAMILIES,
    ClusterFigures,
    HistorySample,
    cluster_text,
    fleet_text,
    sample_from,
    sample_of,
)
from bigfleet.dashboard.core.history_steps import (
    COARSE,
    FINE,
    MAX_POINTS,
    MIDDLE,
    RANGES,
    STEPS,
    fits,
    lines_of,
    rolled_up,
    times_of,
)
from bigfleet.dashboard.core.observed import (
    CoordinatorPlace,
    FleetPicture,
    MachineCount,
    ObservedCluster,
    ObservedCoordinator,
    ObservedCoverage,
    ObservedReport,
    ObservedShard,
    RegisteredShard,
    ShardPlace,
)
from tests.support.builders import amounts

COVERED = ObservedCoverage(3, 1, 0, 2, amounts(cpu=8))
SEEN = ObservedShard(
    "s",
    7,
    0.0,
    1,
    machines=(
        MachineCount("Configured", "Spot", 4, 1.2, 0.0, 0),
        MachineCount("Idle", "OnDemand", 1, 0.5, 0.0, 0),
        MachineCount("Speculative", "Spot", 9, 9.0, 0.0, 0),
    ),
    clusters=(ObservedCluster("web", True, 0.0, 1, 0, True, 4, 1.2, COVERED),),
    needs=3,
    needs_short=1,
    coverage=COVERED,
)


def place(shard: str, seen: ObservedShard | None = SEEN, error: str = "") -> ShardPlace:
    return ShardPlace(shard, "a:1", 0.0, 0.0, error, seen)


def sample(at: int, states: dict[str, float], missing: float = 0.0) -> HistorySample:
    return HistorySample(at, {"states": states, "missing": {"cpu": missing} if missing else {}})


@pytest.mark.rule("dashboard#history")
def test_a_sample_holds_machines_needs_money_and_clusters() -> None:
    found = sample_of(FleetPicture(0.0, (place("s"),)), 0, {"cycles": {"p99": 0.2}, "bogus": {"x": 1.0}})
    assert found is not None
    assert found.fleet == {
        "states": {"Configured": 4, "Idle": 1, "Speculative": 9},
        "capacity": {"Spot": 4, "OnDemand": 1},
        "cost": {"Spot": 1.2, "OnDemand": 0.5},
        "price": {"Spot": 0.3, "OnDemand": 0.5},
        "coverage": {"running": 3, "joining": 1, "on order": 0, "wanted": 2},
        "missing": {"cpu": 8.0},
        "needs": {"short": 1, "all": 3},
        "cycles": {"p99": 0.2},
        "cluster-cost": {"web": 1.2},
    }
    assert found.clusters == {"web": ClusterFigures(4, 1.2, (3, 1, 0, 2), {"cpu": 8.0})}


@pytest.mark.rule("dashboard#history")
def test_what_a_silent_shard_said_last_is_no_measurement() -> None:
    away = replace(SEEN, clusters=(replace(SEEN.clusters[0], cluster="batch"),))
    picture = FleetPicture(0.0, (place("s"), place("t", away, "does not answer")))
    found = sample_of(picture, 0, {"cycles": {"p99": 0.2}})
    assert found is not None
    assert set(found.fleet) == {"cycles"}
    assert set(found.clusters) == {"web"}
    # A cluster of two shards, of which one is silent, is unknown too.
    assert sample_of(FleetPicture(0.0, (place("s"), place("t", SEEN, "away"))), 0, {}) == HistorySample(0, {})
    assert sample_of(FleetPicture(0.0, (place("s", SEEN, "away"),)), 0, {}) is None


def test_types_and_zones_come_from_reports_when_all_are_there() -> None:
    report = ObservedReport("s", 1, 0, 0.0, 5, 1, {"m5": 3, "g8": 2}, {"z1": 5})
    row = RegisteredShard("s", "a:1", 0.0, 0.0)
    seen = ObservedCoordinator((row,), (), (report, replace(report, shard_id="t")))
    coordinator = CoordinatorPlace("c", 0.0, 0.0, "", seen)
    found = sample_of(FleetPicture(0.0, (place("s"),), coordinator), 0, {})
    assert found is not None
    assert (found.fleet["types"], found.fleet["zones"]) == ({"m5": 6, "g8": 4}, {"z1": 10})
    late = replace(
        coordinator,
        seen=replace(seen, registered=(row, replace(row, shard_id="u"), replace(row, shard_id="t"))),
    )
    rebuilt = sample_of(FleetPicture(0.0, (place("s"),), late), 0, {})
    assert rebuilt is not None
    assert "types" not in rebuilt.fleet


@pytest.mark.rule("dashboard#history-bounds")
def test_text_is_read_back_and_stays_short_whatever_names_are_like() -> None:
    plain = HistorySample(
        60,
        {"states": {"Idle": 2.5, "Failed": 0}},
        {"web": ClusterFigures(4, None, None), "a": ClusterFigures(1, 2.0, (1, 0, 0, 2), {"cpu": 3})},
    )
    back = sample_from(60, 6, fleet_text(plain), cluster_text(plain))
    assert back.fleet == {"states": {"Idle": 2.5}}
    assert back.clusters == {
        "web": ClusterFigures(4, None, None, {}),
        "a": ClusterFigures(1, 2, (1, 0, 0, 2), {"cpu": 3}),
    }
    hostile = "\u202e\U0001f300" * 5_000
    wild = HistorySample(
        0,
        {family: {f"{n}{hostile}": n / 7 + 1 for n in range(500)} for family in FAMILIES},
        {
            f"{n}{hostile}": ClusterFigures(
                n, 1 / 3, (1, 2, 3, 4), {f"{m}{hostile}": 1e18 / 3 for m in range(99)}
            )
            for n in range(900)
        },
    )
    assert len(fleet_text(wild).encode()) <= 6_000
    assert len(cluster_text(wild).encode()) <= 14_000
    kept = json.loads(fleet_text(wild))
    # Nothing of the total is lost, whatever goes into "other".
    assert sum(kept["zones"].values()) == pytest.approx(sum(wild.fleet["zones"].values()), rel=1e-3)
    with pytest.raises(ValueError, match="no sample at 7"):
        sample_from(7, 1, "[]", "[1]")


@pytest.mark.rule("dashboard#history-ranges")
def test_a_longer_step_is_the_mean_and_a_short_trouble_stays_visible() -> None:
    rows = [
        sample(0, {"Idle": 2}),
        sample(10, {"Idle": 4}, missing=8),
        sample(50, {"Failed": 3}),
        sample(60, {"Idle": 9}),
    ]
    first, second = rolled_up(MIDDLE, rows)
    assert (first.at, first.samples, second.at) == (0, 3, 60)
    assert first.fleet["states"] == {"Failed": 1.0, "Idle": 2.0}
    assert first.fleet["missing"] == {"cpu": 8}
    assert second.fleet["missing"] == {}
    # By their number of samples: a minute of one sample counts less than one of three.
    assert rolled_up(COARSE, [first, second])[0].fleet["states"] == {"Failed": 0.75, "Idle": 3.75}


def test_a_cluster_that_came_later_counts_from_then_on() -> None:
    rows = [
        HistorySample(0, {}, {"web": ClusterFigures(2, 1.0, (1, 0, 0, 0), {"cpu": 4})}),
        HistorySample(10, {}, {"web": ClusterFigures(4, 3.0, None), "train": ClusterFigures(8, None, None)}),
    ]
    joined = rolled_up(MIDDLE, rows)[0].clusters
    assert joined["web"] == ClusterFigures(3.0, 2.0, (1.0, 0.0, 0.0, 0.0), {"cpu": 4})
    assert joined["train"] == ClusterFigures(8.0, None, None, {})


@pytest.mark.rule("dashboard#history-ranges")
@pytest.mark.parametrize("name", RANGES)
def test_every_range_ends_now_and_has_a_bounded_number_of_points(name: str) -> None:
    length, usual = RANGES[name]
    step, times = times_of(name, 1_000_003_725.5)
    assert step is usual
    assert times[-1] <= 1_000_003_725.5 < times[-1] + step.seconds
    assert len(times) == length // step.seconds <= MAX_POINTS
    assert length <= step.kept_s
    assert {row.name for row in STEPS if fits(name, row)} >= {usual.name}


def test_a_finer_step_is_given_where_it_is_kept_and_not_too_long() -> None:
    assert len(times_of("6h", 1e9, FINE)[1]) == 2_160
    assert times_of("24h", 1e9, FINE)[0] is MIDDLE
    assert times_of("1h", 1e9, COARSE)[0] is FINE


@pytest.mark.rule("dashboard#history-ranges")
def test_a_late_look_is_bridged_and_a_longer_silence_is_a_gap() -> None:
    _, times = times_of("1h", 3_600 * 10)
    here = [sample(at, {"Idle": 1}) for at in times[:3] + times[5:7] + times[10:11]]
    lines = lines_of("states", here, FINE, times).lines
    assert list(lines["Idle"][:12]) == [1, 1, 1, 1, 1, 1, 1, None, None, None, 1, None]
    assert lines_of("states", [], FINE, times).lines == {}


def test_zeros_are_a_line_and_unknown_is_none() -> None:
    _, times = times_of("24h", 3_600 * 100)
    lines = lines_of("missing", [sample(times[0], {}), sample(times[1], {}, missing=3)], MIDDLE, times).lines
    assert list(lines["cpu"][:3]) == [0.0, 3, None]
    assert list(lines_of("missing", [sample(times[0], {})], MIDDLE, times).lines["missing"][:2]) == [
        0.0,
        None,
    ]


def test_lines_beyond_the_limit_are_added_up() -> None:
    _, times = times_of("24h", 3_600 * 100)
    dollars = {f"c{n:02}": float(n) for n in range(30)}
    clusters = {name: ClusterFigures(1, value) for name, value in dollars.items()}
    row = HistorySample(times[0], {"cluster-cost": dollars}, clusters)
    lines = lines_of("cluster-cost", [row], MIDDLE, times, most=5).lines
    assert list(lines) == ["c29", "c28", "c27", "c26", "other"]
    assert lines["other"][0] == sum(range(26))
    assert lines_of("cluster-cost", [row], MIDDLE, times, cluster="c03").lines["all machines"][0] == 3
    assert lines_of("coverage", [row], MIDDLE, times, cluster="c03").lines == {}


@pytest.mark.rule("dashboard#history")
def test_one_cluster_is_read_without_the_others_whatever_they_are_called() -> None:
    rows = {
        name: ClusterFigures(place + 1, 1.0, (1, 0, 0, 0), {"cpu": 8, 'a"b': 2})
        for place, name in enumerate(("cpu", 'x"cpu', "b", 'a"b', "dé", 'y",{"b'))
    }
    text = cluster_text(HistorySample(0, {}, rows))
    for name, row in rows.items():
        assert sample_from(0, 1, None, text, only=name) == HistorySample(0, {}, {name: row})
    for name in ("c", "", "machines", 'x"', "cpu:"):
        assert sample_from(0, 1, None, text, only=name).clusters == {}
    with pytest.raises(ValueError, match="Expecting"):
        sample_from(0, 1, None, '{"cpu":[1,2', only="cpu")
