"""Exact amounts in a scale of their own."""

import numpy as np
import pytest

from bigfleet.engine.amounts import CapacitySizes, Scale, first_covering, less
from bigfleet.model.demand import Amounts
from bigfleet.model.resources import Resources
from tests.support.builders import amounts

NEEDS = [amounts(cpu="1500m", memory="768Gi"), amounts(gpu=8)]
MACHINES = [amounts(cpu=4, memory="16Gi", disk=7), amounts(gpu=1)]


def scale_of(terms: int) -> Scale:
    return Scale(Amounts.of(NEEDS), Amounts.of(MACHINES), terms)


@pytest.mark.parametrize("terms", [4, 10**18])
def test_a_vector_comes_back_as_it_was_whatever_the_integers(terms: int) -> None:
    scale = scale_of(terms)
    assert scale.names == ("cpu", "gpu", "memory")
    assert scale.matrix([scale.vector(NEEDS[0])]).dtype == (np.int64 if terms == 4 else object)
    for vector in NEEDS:
        assert scale.resources(scale.vector(vector)) == vector
    assert scale.resources(scale.vector(MACHINES[0])) == amounts(cpu=4, memory="16Gi")


def test_a_scale_serves_what_it_can_express_without_loss() -> None:
    scale, offered = scale_of(4), Amounts.of(MACHINES)
    assert scale.serves(Amounts.of([amounts(cpu=3)]), offered, 4)
    assert not scale.serves(
        Amounts.of([amounts(cpu="100m")]), offered, 4
    )  # finer than the unit, which is 500m
    assert not scale.serves(Amounts.of([amounts(disk=1)]), offered, 4)  # a dimension that demand did not name
    assert not scale.serves(Amounts.of([amounts(cpu=3)]), offered, 10**18)  # too many to add up in 64 bits
    assert not scale.serves(Amounts.of(NEEDS), Amounts.of([amounts(cpu="4100m")]), 4)


@pytest.mark.parametrize(
    ("wanted", "count"), [((0, 0), 0), ((1, 0), 1), ((8, 0), 2), ((8, 1), 3), ((99, 0), 3), ((9, 1), 3)]
)
def test_machines_are_taken_until_everything_is_covered(wanted: tuple[int, ...], count: int) -> None:
    capacities = np.array([[4, 0], [4, 0], [4, 2]])
    assert first_covering(capacities, wanted) == count


def test_nothing_to_take_takes_nothing() -> None:
    assert first_covering(np.zeros((0, 2), dtype=np.int64), (1, 0)) == 0


@pytest.mark.parametrize(
    "wanted", [amounts(cpu=1), amounts(cpu=100), amounts(cpu=55, gpu=3), amounts(gpu=9000)]
)
@pytest.mark.parametrize("length", [3, 40, 700])
def test_sizes_in_runs_and_sizes_all_mixed_are_covered_as_one_by_one(wanted: Resources, length: int) -> None:
    scale = scale_of(2000)
    sizes = CapacitySizes.of(scale, [amounts(cpu=4), amounts(cpu=8, gpu=1), amounts(memory="1Gi")])
    for order in ([0, 1, 2] * length, [0] * length + [1] * length + [2] * length):
        missing, count = scale.vector(wanted), 0
        while any(missing) and count < len(order):
            missing = less(missing, sizes.vectors[order[count]])
            count += 1
        assert sizes.cover(np.array(order), scale.vector(wanted)) == (count, missing)
