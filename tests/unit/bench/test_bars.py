"""The bars of `make bench`: each can be met, each can be missed, and nothing unmeasured passes."""

from typing import Any

import pytest

from bigfleet.bench.plans import BENCHMARKS
from scaletest.bench.bars import (
    COLLECTOR_BARS,
    COORDINATOR_BARS,
    COORDINATOR_LOAD_BARS,
    DASHBOARD_BARS,
    ENGINE_BARS,
    GROWTH_BARS,
    INVENTORY_BARS,
    KARPENTER_BARS,
    ON_ORDER_BARS,
    OPEN_DEMAND_BARS,
    REACTION_BARS,
    RECOVERY_BARS,
    REFERENCE_BARS,
    SHARD_BARS,
    SIEGE_BARS,
    Bar,
    collector_values,
    engine_values,
    growth_values,
    judge,
    karpenter_values,
    on_order_values,
    open_demand_values,
    reaction_values,
    recovery_values,
    siege_values,
)
from scaletest.bench.on_order import figures
from scaletest.bench.open_demand import ZONE_LOSS
from scaletest.bench.open_worlds import OPEN_WORLDS

ALL = (
    *INVENTORY_BARS,
    *ENGINE_BARS,
    *GROWTH_BARS,
    *REFERENCE_BARS,
    *COORDINATOR_BARS,
    *COORDINATOR_LOAD_BARS,
    *SHARD_BARS,
    *DASHBOARD_BARS,
    *REACTION_BARS,
    *ON_ORDER_BARS,
    *COLLECTOR_BARS,
    *RECOVERY_BARS,
    *SIEGE_BARS,
    *OPEN_DEMAND_BARS,
    *KARPENTER_BARS,
)


@pytest.mark.parametrize("bar", ALL, ids=lambda bar: bar.name)
def test_a_bar_is_met_at_its_bound_and_missed_beyond_it(bar: Bar) -> None:
    worse = bar.must * (0.99 if bar.at_least else 1.01) or 1.0
    (at_bound,), (beyond,), (unknown,) = (
        judge([bar], values) for values in ({bar.name: bar.must}, {bar.name: worse}, {})
    )
    assert bar.met(at_bound.value)
    assert at_bound.line.startswith("met ")
    assert not bar.met(beyond.value)
    assert beyond.line.startswith("MISSED")
    assert not bar.met(unknown.value)
    assert "not measured" in unknown.line


def test_all_bars_are_there() -> None:
    assert {bar.number for bar in ALL} == set(range(1, 25))
    assert len({bar.name for bar in ALL}) == len(ALL)


def test_an_aim_is_told_and_fails_nothing() -> None:
    bar = Bar(1, "x", "units", must=2, aim=1)
    (judged,) = judge([bar], {"x": 1.5})
    assert judged.line.endswith("aim ≤ 1, open")
    assert judged.document()["aim_reached"] is False
    assert judged.document()["met"] is True


def test_every_bar_finds_its_value_among_the_figures() -> None:
    units = dict.fromkeys(BENCHMARKS, 2.0) | {"full_pass": 4.0}
    values = engine_values(units, 99.0)
    assert set(values) == {bar.name for bar in ENGINE_BARS}
    assert values["full pass at 50k"] == 4.0
    assert values["machine changes spread thinly"] == 0.5
    growth = growth_values(*({"full_pass": size, "zero_change": size} for size in (1.0, 8.0, 16.0)))
    assert growth == {
        "full pass, 5k to 50k": 8.0,
        "full pass, 50k to 500k": 2.0,
        "zero-change cycle, 50k to 500k": 2.0,
    }
    assert set(growth) == {bar.name for bar in GROWTH_BARS}


def test_the_bars_on_open_demand_find_their_values() -> None:
    def measured(shape: str, **units: float) -> dict[str, object]:
        return {"shape": shape, "results": [{"name": name, "units": cost} for name, cost in units.items()]}

    shapes = [measured(name, full_pass=2.0, one_changed=0.5) for name in OPEN_WORLDS]
    values = open_demand_values([*shapes, measured(ZONE_LOSS, one_changed=2.5)])
    assert {bar.name for bar in OPEN_DEMAND_BARS} <= set(values)
    assert values["Phase1_Realistic_50K, pods"] == 2.0
    assert values["one of 50 clusters changed, pods"] == 0.25
    assert values[ZONE_LOSS] == 2.5
    assert open_demand_values([]) == {}


def test_the_bars_on_reaction_and_recovery_find_their_values() -> None:
    times = {"p50": 0.3, "p99": 0.9}
    measured = {
        "single": {"total_s": times},
        "burst": {"last_create_after_last_pod_s": 5.0},
        "many": {"total_s": times, "operator_cpu_percent": 20.0, "rollup_s": times},
    }
    assert set(reaction_values(measured)) == {bar.name for bar in REACTION_BARS}
    assert reaction_values({"not_measured": "make testbed"}) == {}
    cases = ("shard killed", "provider killed", "cut for 10 s", "cut for 150 s", "answer to List lost")
    total = {"total": {"p50_s": 1.0, "max_s": 2.0}}
    values = recovery_values({"rounds": 10, **dict.fromkeys(cases, total)})
    assert {bar.name for bar in RECOVERY_BARS} <= set(values)
    assert (values["shard killed, median"], values["shard killed, longest"]) == (1.0, 2.0)


def test_the_bars_on_machines_on_order_and_on_the_collector_find_their_values() -> None:
    def transition(at_s: float, machine: str, before: str, state: str) -> dict[str, Any]:
        return {"t": at_s, "event": "transition", "machine": machine, "before": before, "state": state}

    def call(at_s: float, rpc: str, machine: str = "") -> dict[str, Any]:
        return {"t": at_s, "event": "call", "rpc": rpc, "id": machine, "seconds": 0.25}

    log = [
        transition(1.0, "a", "Creating", "Idle"),
        transition(2.0, "b", "Creating", "Idle"),
        *(call(at_s, "List") for at_s in (2.25, 2.75, 3.5)),
        call(2.75, "Configure", "a"),
        call(2.75, "Configure", "b"),
        transition(9.0, "a", "Draining", "Idle"),
    ]
    measured = figures(log)
    assert measured["waited_s"] == {"p50": 0.5, "p99": 1.5, "max": 1.5}
    assert measured["calls"] == {"List": 3, "Configure": 2}
    values = on_order_values(measured)
    assert values == {ON_ORDER_BARS[0].name: 1.5, ON_ORDER_BARS[1].name: 2}
    decisions = {name: {"p99_times": 1.0} for name in ("full pass", "cold bring-up")}
    assert set(collector_values({"decisions": decisions})) == {bar.name for bar in COLLECTOR_BARS}


def test_the_bars_on_the_siege_look_at_the_worst_attack() -> None:
    def attack(times: float) -> dict[str, float]:
        return {
            "ack_p99_s": 1.0 * times,
            "cycle_p50_times": 2.0 * times,
            "cycle_p99_times": 3.0 * times,
            "peak_above_normal_mb": 4.0 * times,
            "left_above_normal_mb": 5.0 * times,
            "log_bytes_per_minute": 6.0 * times,
        }

    values = siege_values({"attacks": {"floods": attack(2), "rows": attack(1)}})
    assert values == {bar.name: 2.0 * place for place, bar in enumerate(SIEGE_BARS, start=1)}


def test_the_bars_on_diverse_pods_find_their_values() -> None:
    worlds = [
        {"pods": count, "units": count / 1000, "at_rest": {"without_node": count / 500, "times_bound": 1.1}}
        for count in (1_000, 5_000, 10_000)
    ]
    values = karpenter_values({"worlds": worlds})
    assert set(values) == {bar.name for bar in KARPENTER_BARS}
    assert values["10,000 diverse pods, list to actions"] == 10.0
    assert values["5,000 diverse pods, without a node"] == 10.0
