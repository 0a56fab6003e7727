"""Every parser of foreign bytes gives a value or a typed error, for any bytes, in work that grows as the bytes do.

`make fuzz MINUTES=60` does the same for longer, with other inputs in each round.
Rules: `testing#fuzzing`.
"""

import pytest

from tests.fuzz.rounds import SLOWDOWN, fuzz, slowdown
from tests.fuzz.targets import CORPUS, TARGETS, Target

pytestmark = pytest.mark.rule("testing#fuzzing")
EXAMPLES = 60
GROWTH = [
    pytest.param(target, shape, id=f"{target.name}, {shape}") for target in TARGETS for shape in target.shapes
]


def test_every_target_has_seeds_and_every_seed_a_target() -> None:
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(target.name for target in TARGETS)
    assert [target.name for target in TARGETS if not target.seeds()] == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_seed_is_read_or_refused_with_a_typed_error(target: Target) -> None:
    assert {target.run(data) for data in target.seeds()} <= {"read", "refused"}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_any_bytes_are_read_or_refused_with_a_typed_error(target: Target) -> None:
    assert fuzz(target, EXAMPLES, number=1).total() >= EXAMPLES


@pytest.mark.parametrize(("target", "shape"), GROWTH)
def test_work_grows_no_faster_than_the_input(target: Target, shape: str) -> None:
    assert slowdown(target, target.shapes[shape]) < SLOWDOWN


def test_work_that_grows_as_the_square_of_the_input_is_noticed() -> None:
    def feed(data: bytes) -> None:
        for _ in range(len(data) // 16):
            data.count(b"y")

    assert slowdown(Target("planted", feed, ()), lambda size: b"x" * size) >= SLOWDOWN
