"""How every machine fits: the first test it fails, in the order in which the engine tests."""

from collections.abc import Callable

import pytest

from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.fit import FitChecker, FitResult

MakeCycle = Callable[[str], DecidedCycle]

FLEET = """
machine taken Idle
machine held Configured @x P1000
machine drains Draining @z draining-for=short P1
machine leaves Configured @z P1
machine failed Failed
machine deleting Deleting
machine draining Draining @x
machine elsewhere Configured @y P9000
machine coming Configuring @y
machine ordered Creating to=y fingerprint=p=1
machine ours Creating to=x fingerprint=p=1
machine nobodys Creating
machine other Idle type=b7
machine unlabelled Configured @x type=b7
machine small Idle gpu=4
machine lent Idle zone=zz
need x 2xG
need first 1xG P2000
need short 3xG P1500
"""


def fits(cycle: DecidedCycle, place: int) -> dict[str, tuple[FitResult, str]]:
    checker = FitChecker(cycle, place)
    found = {}
    for machine_id in cycle.machines:
        fit = checker.fit(cycle.group_of(machine_id))
        found[machine_id] = (fit.result, fit.detail)
    return found


def test_every_machine_has_the_result_of_the_first_test_it_fails(make_cycle: MakeCycle) -> None:
    cycle = make_cycle(FLEET)
    assert fits(cycle, 2) == {
        "taken": (FitResult.TAKEN, "bootstrapped"),
        "lent": (FitResult.CLAIMED, "of higher precedence"),
        "drains": (FitResult.IN_FLIGHT, "z"),
        "leaves": (FitResult.PREEMPTED, "z"),
        "held": (FitResult.OTHER_CLUSTER, "x"),
        "failed": (FitResult.WRONG_STATE, "Failed"),
        "deleting": (FitResult.WRONG_STATE, "Deleting"),
        "draining": (FitResult.WRONG_STATE, "Draining"),
        "elsewhere": (FitResult.OTHER_CLUSTER, "y"),
        "coming": (FitResult.OTHER_CLUSTER, "y"),
        "ordered": (FitResult.OTHER_ORDER, "y"),
        "ours": (FitResult.OTHER_ORDER, "x"),
        "nobodys": (FitResult.OTHER_ORDER, "nobody"),
        "other": (FitResult.PINNED_TYPE, "b7"),
        "unlabelled": (FitResult.OTHER_CLUSTER, "x"),
        "small": (FitResult.BELOW_UNIT, "gpu 8"),
    }
    of_x = fits(cycle, 0)
    assert of_x["held"] == (FitResult.TAKEN, "kept")
    assert of_x["ours"] == (FitResult.OTHER_ORDER, "another need of x")
    assert of_x["unlabelled"][0] is FitResult.REQUIREMENT


@pytest.mark.parametrize(
    ("lines", "machine_id", "result", "detail"),
    [
        ("machine m1..m2 Idle\nneed x 1xG", "m2", FitResult.NOT_NEEDED, ""),
        (
            "machine m1 Idle rack=a\nmachine m2 Idle rack=b\nneed x 2xG same=rack",
            "m2",
            FitResult.OUTSIDE_DOMAIN,
            "b",
        ),
        (
            "machine m1 Configured @x rack=a P1000\nmachine m2 Idle rack=a\nneed x 3xG same=rack\npark x",
            "m2",
            FitResult.PARKED,
            "",
        ),
        (
            "machine a1 Idle zone=za\nmachine b1..b3 Idle zone=zb\nneed x 4xG spread=zone:1",
            "b3",
            FitResult.SPREAD_LIMIT,
            "zb",
        ),
        (
            "machine a1 Idle rack=r\nmachine b1 Idle\nneed x 4xG spread=rack:1",
            "b1",
            FitResult.SPREAD_KEY,
            "rack",
        ),
        ("machine m1 Idle\nneed x 1xG\nneed y 1xG", "m1", FitResult.TAKEN, "bootstrapped"),
    ],
)
def test_a_machine_that_could_serve_is_told_what_keeps_it(
    make_cycle: MakeCycle, lines: str, machine_id: str, result: FitResult, detail: str
) -> None:
    assert fits(make_cycle(lines), 0)[machine_id] == (result, detail)


def test_a_gang_without_a_domain_of_its_own_keeps_to_that_of_what_it_took(make_cycle: MakeCycle) -> None:
    # The first gang counts on all three by id, then takes the two that are cheapest; the second is left with m1.
    cycle = make_cycle("""
        machine m1 Idle rack=a $9
        machine m2..m3 Idle rack=a gpu=16
        need x gpu=30 unit=gpu:8 types=any same=rack group=A P2000
        need y gpu=18 unit=gpu:8 types=any same=rack group=B P1000
    """)
    assert (cycle.verdict(1).domain, cycle.verdict(1).claimed) == (None, ("m1",))
    assert FitChecker(cycle, 1).domain == "a"
