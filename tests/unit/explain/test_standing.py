"""Where every machine stands: the first test it fails, in the order in which the engine asks."""

from collections.abc import Callable

import pytest

from bigfleet.explain.case import Case
from bigfleet.explain.standing import Judge, Standing

MakeCase = Callable[[str], Case]

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


def standings(case: Case, place: int) -> dict[str, tuple[Standing, str]]:
    judge = Judge(case, place)
    found = {}
    for group in case.groups:
        answer = judge.answer(group)
        found.update(dict.fromkeys(group.ids, (answer.standing, answer.detail)))
    return found


def test_every_machine_has_the_standing_of_the_first_test_it_fails(make_case: MakeCase) -> None:
    case = make_case(FLEET)
    assert standings(case, 2) == {
        "taken": (Standing.TAKEN, "bootstrapped"),
        "lent": (Standing.CLAIMED, "of higher precedence"),
        "drains": (Standing.IN_FLIGHT, "z"),
        "leaves": (Standing.PREEMPTED, "z"),
        "held": (Standing.OTHER_CLUSTER, "x"),
        "failed": (Standing.WRONG_STATE, "Failed"),
        "deleting": (Standing.WRONG_STATE, "Deleting"),
        "draining": (Standing.WRONG_STATE, "Draining"),
        "elsewhere": (Standing.OTHER_CLUSTER, "y"),
        "coming": (Standing.OTHER_CLUSTER, "y"),
        "ordered": (Standing.OTHER_ORDER, "y"),
        "ours": (Standing.OTHER_ORDER, "x"),
        "nobodys": (Standing.OTHER_ORDER, "nobody"),
        "other": (Standing.PINNED_TYPE, "b7"),
        "unlabelled": (Standing.OTHER_CLUSTER, "x"),
        "small": (Standing.BELOW_UNIT, "gpu 8"),
    }
    of_x = standings(case, 0)
    assert of_x["held"] == (Standing.TAKEN, "kept")
    assert of_x["ours"] == (Standing.OTHER_ORDER, "another need of x")
    assert of_x["unlabelled"][0] is Standing.REQUIREMENT


@pytest.mark.parametrize(
    ("lines", "machine_id", "standing", "detail"),
    [
        ("machine m1..m2 Idle\nneed x 1xG", "m2", Standing.NOT_NEEDED, ""),
        (
            "machine m1 Idle rack=a\nmachine m2 Idle rack=b\nneed x 2xG same=rack",
            "m2",
            Standing.OUTSIDE_DOMAIN,
            "b",
        ),
        (
            "machine m1 Configured @x rack=a P1000\nmachine m2 Idle rack=a\nneed x 3xG same=rack\npark x",
            "m2",
            Standing.PARKED,
            "",
        ),
        (
            "machine a1 Idle zone=za\nmachine b1..b3 Idle zone=zb\nneed x 4xG spread=zone:1",
            "b3",
            Standing.SPREAD_LIMIT,
            "zb",
        ),
        (
            "machine a1 Idle rack=r\nmachine b1 Idle\nneed x 4xG spread=rack:1",
            "b1",
            Standing.SPREAD_KEY,
            "rack",
        ),
        ("machine m1 Idle\nneed x 1xG\nneed y 1xG", "m1", Standing.TAKEN, "bootstrapped"),
    ],
)
def test_a_machine_that_could_serve_is_told_what_keeps_it(
    make_case: MakeCase, lines: str, machine_id: str, standing: Standing, detail: str
) -> None:
    assert standings(make_case(lines), 0)[machine_id] == (standing, detail)


def test_a_gang_without_a_domain_of_its_own_keeps_to_that_of_what_it_took(make_case: MakeCase) -> None:
    # The first gang counts on all three by id, then takes the two that are cheapest; the second is left with m1.
    case = make_case("""
        machine m1 Idle rack=a $9
        machine m2..m3 Idle rack=a gpu=16
        need x gpu=30 unit=gpu:8 types=any same=rack group=A P2000
        need y gpu=18 unit=gpu:8 types=any same=rack group=B P1000
    """)
    assert (case.verdict(1).domain, case.verdict(1).claimed) == (None, ("m1",))
    assert Judge(case, 1).domain == "a"
