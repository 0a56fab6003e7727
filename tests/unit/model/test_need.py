"""What a machine counts as towards a need, and which rows are one row."""

from dataclasses import replace

import pytest

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import Shape
from bigfleet.model.need import Need, aggregate
from bigfleet.model.profile import Profile
from tests.support.builders import amounts

LARGE = Shape(resources=FrozenMap({"cpu": "64", "memory": "256Gi"}))
PLAIN = Need("a", Profile(), amounts(cpu=60), amounts(cpu=2))
PODS = replace(PLAIN, total=amounts(cpu=60, pods=60))


@pytest.mark.rule("engine#max-units-per-machine")
def test_a_machine_counts_for_so_many_units_in_what_the_unit_names() -> None:
    assert PLAIN.counted(LARGE) == LARGE.capacity
    assert replace(PLAIN, max_units=3).counted(LARGE) == amounts(cpu=6, memory="256Gi")
    assert replace(PLAIN, max_units=2**31 - 1).counted(LARGE) == LARGE.capacity
    small = Shape(resources=FrozenMap({"cpu": "3"}))
    assert replace(PLAIN, max_units=3).counted(small) == amounts(cpu=3)


@pytest.mark.rule("engine#pods")
def test_a_machine_that_states_no_pods_counts_for_110_where_a_need_names_them() -> None:
    assert PLAIN.counted(LARGE).amount("pods") == 0
    assert PODS.counted(LARGE) == amounts(cpu=64, memory="256Gi", pods=110)
    assert replace(PLAIN, unit=amounts(pods=1)).counted(LARGE).amount("pods") == 110 * 10**9
    limited = replace(PODS, unit=amounts(cpu=1, pods=1), max_units=4)
    assert limited.counted(LARGE) == amounts(cpu=4, memory="256Gi", pods=4)


@pytest.mark.rule("engine#pods")
@pytest.mark.parametrize("stated", ["0", "1", "58", "250"])
def test_a_machine_that_states_a_number_of_pods_keeps_it(stated: str) -> None:
    offered = FrozenMap({"cpu": "4", "pods": stated})
    assert PODS.counted(Shape(resources=offered)) == amounts(cpu=4, pods=stated)
    assert PODS.counted(Shape(allocatable=offered)) == amounts(cpu=4, pods=stated)


@pytest.mark.rule("engine#pods", "engine#capacity")
def test_what_counts_is_the_allocatable_as_a_whole() -> None:
    shape = Shape(resources=FrozenMap({"pods": "58"}), allocatable=FrozenMap({"cpu": "4"}))
    assert PODS.counted(shape) == amounts(cpu=4, pods=110)


@pytest.mark.rule("engine#aggregation", "engine#fragments")
def test_rows_that_differ_in_limit_or_fragments_do_not_add_up() -> None:
    rows = [PLAIN, replace(PLAIN, max_units=1), replace(PLAIN, for_fragments=True)]
    assert aggregate([*rows, *rows]) == [replace(row, total=amounts(cpu=120)) for row in rows]
