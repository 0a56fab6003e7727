"""What `make bench` prints: every world that was measured, with all its figures."""

from scaletest.bench.tables import tables

RESULT = {
    "name": "full_pass",
    "cpu_ms": {"median": 72.019, "p99": 73.9},
    "wall_ms": {"median": 80.5, "p99": 90.25},
    "units": 0.752,
    "repetitions": 5,
}


def world(**more: object) -> dict[str, object]:
    return {"unit_ms": 93.7, "memory": {"bytes_per_machine": 112.9}, "results": [RESULT], **more}


def test_a_world_is_told_with_its_calibration_its_memory_and_every_figure() -> None:
    lines = list(tables(world(profile="50k"), "engine"))
    assert lines[1] == "50k: one unit is 93.7 ms here; 112.9 bytes per machine"
    assert lines[3].split() == ["full_pass", "0.752", "72.02", "73.9", "80.5", "90.25", "5"]


def test_worlds_are_found_in_lists_and_under_names() -> None:
    lines = "\n".join(tables({"reports": [world(profile="5k"), world(profile="50k")]}, "growth"))
    assert lines.index("5k: one unit") < lines.index("50k: one unit")
    assert "inventory plain: one unit" in "\n".join(tables({"plain": world()}, "inventory"))


def test_a_part_without_worlds_prints_nothing() -> None:
    assert list(tables({"times_faster": 1319.3, "engine": {"name": "full_pass"}}, "reference")) == []


def test_hops_and_rounds_are_told_in_seconds() -> None:
    times = {"p50": 0.25, "p99": 0.5, "max": 0.75}
    lines = list(tables({"single": {"pods": 3, "total_s": times, "hops_s": {"operator": times}}}, "reaction"))
    assert [line.split() for line in lines[2:]] == [
        ["total", "0.25", "0.5", "0.75"],
        ["operator", "0.25", "0.5", "0.75"],
    ]
    rounds = {"p50_s": 1.5, "max_s": 2.5, "rounds_s": [1.5, 2.5]}
    (line,) = tables({"shard killed": {"total": rounds}}, "recovery")
    assert line.split() == ["recovery", "shard", "killed", "total", "1.5", "2.5"]


def test_a_siege_is_told_attack_by_attack() -> None:
    figures = {
        "ack_p99_s": 0.5,
        "cycle_p50_times": 1.25,
        "cycle_p99_times": 1.5,
        "peak_above_normal_mb": 90,
        "left_above_normal_mb": 9,
        "log_bytes_per_minute": 700,
    }
    measured = {"honest_clusters": 50, "attack_s": 120.0, "attacks": {"flood: hellos": figures}}
    assert list(tables(measured, "siege"))[-1].split() == [
        *("flood:", "hellos", "0.5", "1.25×", "1.5×", "90", "9", "700")
    ]
