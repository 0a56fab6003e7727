"""Exact amounts in a scale of their own."""

import numpy as np
import pytest

from bigfleet.engine.amounts import Scale, first_covering
from bigfleet.testing.builders import amounts

NEEDS = [amounts(cpu="1500m", memory="768Gi"), amounts(gpu=8)]
MACHINES = [amounts(cpu=4, memory="16Gi", disk=7), amounts(gpu=1)]


@pytest.mark.parametrize("machines", [2, 10**18])
def test_a_vector_comes_back_as_it_was_whatever_the_integers(machines: int) -> None:
    scale = Scale(NEEDS, MACHINES, machines=machines, rows=2)
    assert scale.names == ("cpu", "gpu", "memory")
    assert scale.dtype is (np.int64 if machines == 2 else object)
    for vector in NEEDS:
        assert scale.resources(scale.vector(vector)) == vector
    assert scale.resources(scale.matrix(MACHINES)[0]) == amounts(cpu=4, memory="16Gi")


@pytest.mark.parametrize(
    ("wanted", "count"), [([0, 0], 0), ([1, 0], 1), ([8, 0], 2), ([8, 1], 3), ([99, 0], 3), ([9, 1], 3)]
)
def test_machines_are_taken_until_everything_is_covered(wanted: list[int], count: int) -> None:
    capacities = np.array([[4, 0], [4, 0], [4, 2]])
    assert first_covering(capacities, np.array(wanted)) == count


def test_nothing_to_take_takes_nothing() -> None:
    assert first_covering(np.zeros((0, 2), dtype=np.int64), np.array([1, 0])) == 0
