"""How a need is called: by its number, its name, or its name and priority."""

import pytest

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.lookup import AmbiguousNeedError, find_need
from bigfleet.explain.redecide import Redecider
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import Situation
from tests.support.builders import amounts

ZONE = Profile(requirements=(Requirement("zone", RequirementOperator.EXISTS),), priority=5)
NEEDS = (
    Need("web", Profile(priority=9), amounts(cpu=1)),
    Need("web", Profile(priority=5), amounts(cpu=1)),
    Need("web", ZONE, amounts(cpu=1)),
    Need("train", Profile(priority=7), amounts(cpu=1), group="llm-7"),
)


@pytest.fixture
def cycle() -> DecidedCycle:
    return Redecider().cycle(SnapshotDocument(Situation(0.0, (), NEEDS), tuple(range(len(NEEDS)))))


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("web:9", 0), ("train", 3), ("train/llm-7", 3), ("train/llm-7:7", 3)]
)
def test_a_need_has_a_number_and_names(cycle: DecidedCycle, text: str, number: int) -> None:
    assert find_need(cycle, text, "--need") == cycle.place_of(number)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("web", "--need: web has 3 needs; use web:9, 1, 2"),
        ("web:5", "--need: web:5 has 2 needs; use 1, 2"),
    ],
)
def test_a_name_of_several_needs_is_refused_with_what_tells_them_apart(
    cycle: DecidedCycle, text: str, told: str
) -> None:
    with pytest.raises(AmbiguousNeedError) as refused:
        find_need(cycle, text, "--need")
    assert str(refused.value) == told


@pytest.mark.parametrize("text", ["web:6", "web:", ":5", "train/llm-7:5", "nobody"])
def test_a_name_of_no_need_is_refused_with_the_names_there_are(cycle: DecidedCycle, text: str) -> None:
    with pytest.raises(InvalidFieldError, match=r"the number of a need, or one of train/llm-7, web"):
        find_need(cycle, text, "--need")
