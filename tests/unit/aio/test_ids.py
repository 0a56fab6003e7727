"""Ids: their form in both makes, and what the seed decides."""

import re
from collections.abc import Callable

import pytest

from bigfleet.aio.ids import Ids, SystemIds
from bigfleet.aio.rng import SeededRng
from bigfleet.testing.ids import SeededIds

KINDS: list[Callable[[Ids], str]] = [
    lambda ids: ids.operation(),
    lambda ids: ids.request(),
    lambda ids: ids.instruction(),
    lambda ids: ids.session(),
]


def seeded(seed: int = 3) -> Ids:
    return SeededIds(SeededRng(seed))


@pytest.fixture(params=[SystemIds, seeded], ids=["system", "seeded"])
def ids(request: pytest.FixtureRequest) -> Ids:
    made: Ids = request.param()
    return made


def test_every_id_is_sixteen_lower_case_hex_digits_and_fresh(ids: Ids) -> None:
    made = [kind(ids) for _ in range(100) for kind in KINDS]
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in made)
    assert len(set(made)) == len(made)


def test_one_seed_gives_one_sequence_of_ids() -> None:
    first, second, other = seeded(), seeded(), seeded(4)
    sequence = [first.operation() for _ in range(5)]
    assert [second.operation() for _ in range(5)] == sequence
    assert [other.operation() for _ in range(5)] != sequence


def test_one_more_request_changes_no_operation() -> None:
    plain, busy = seeded(), seeded()
    busy.request()
    busy.session()
    assert busy.operation() == plain.operation()
