"""The oracle of machine counts, which must hold exactly (`testing#sizing-oracle`)."""

from fractions import Fraction

import pytest

from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.catalogues import REALISTIC, REALISTIC_DEV
from bigfleet.workload.sizing import allocate, effective_machines, gang_floor, split


@pytest.mark.parametrize(
    ("pods", "machines"),
    [
        (500_000, 5_784),
        (2_500_000, 28_500),
        (5_000_000, 56_892),
        (50_000_000, 567_973),
        (100_000_000, 1_135_843),
        (500_000_000, 5_678_787),
    ],
)
def test_so_many_pods_take_so_many_machines(pods: int, machines: int) -> None:
    assert effective_machines(REALISTIC, pods, 100) == machines


def test_the_development_profile_takes_610() -> None:
    assert effective_machines(REALISTIC_DEV, 5_000, 100) == 610


@pytest.mark.parametrize(
    ("machines", "allocation"),
    [  # tiny, service, batch, cache, db, inference, small, medium, critical
        (250, (166, 29, 14, 15, 15, 13, 24, 48, 2)),
        (1_000, (664, 114, 57, 15, 15, 52, 31, 48, 10)),
        (10_000, (6643, 1139, 569, 155, 155, 517, 309, 418, 95)),
        (15_000, (9965, 1708, 854, 232, 232, 775, 464, 627, 143)),
        (150_000, (99652, 17081, 8544, 2321, 2320, 7750, 4641, 6265, 1426)),
    ],
)
def test_so_many_machines_are_split_so(machines: int, allocation: tuple[int, ...]) -> None:
    assert allocate(REALISTIC, machines, 100) == allocation


def test_an_empty_tier_stays_empty_whatever_the_gangs_would_want() -> None:
    assert sum(allocate(REALISTIC, 0, 100)) == 0


@pytest.mark.parametrize(("catalogue", "floor"), [(REALISTIC, 102), (REALISTIC_DEV, 66)])
def test_the_floors_of_gangs_add_up_as_published(catalogue: Catalogue, floor: int) -> None:
    assert sum(gang_floor(archetype, catalogue) for archetype in catalogue.steady) == floor


def test_of_equal_remainders_the_earlier_wins() -> None:
    assert split(5, [Fraction(1, 3)] * 3) == [2, 2, 1]
    assert split(0, [Fraction(1)]) == [0]
