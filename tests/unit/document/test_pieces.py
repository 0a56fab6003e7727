"""A document sent in pieces is the document (`engine#snapshot-live`)."""

import pytest
from hypothesis import given

from bigfleet.document.pieces import situation_pieces
from bigfleet.document.snapshot import read_situation, write_situation
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import GangRef, IdleHolds, Situation
from tests.support.builders import amounts, machine
from tests.support.situations import situations

GANG = Profile((Requirement("rack", RequirementOperator.SAME),))
NEED = Need("a", GANG, amounts(cpu=4), group="g")
FLEET = tuple(machine(f"m-{number:04d}", S.IDLE) for number in range(1001))


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(Situation(0.0), id="nothing"),
        pytest.param(Situation(1.5, FLEET[:1]), id="one machine"),
        pytest.param(Situation(1.5, FLEET, (NEED,) * 700), id="more than one piece"),
        pytest.param(
            Situation(
                1e9 + 0.123456,
                FLEET[:2],
                (NEED,),
                parked=frozenset({GangRef("a", "g", GANG.fingerprint)}),
                reported_clusters=frozenset({"b", "a"}),
                holds=IdleHolds(1, 2),
            ),
            id="all fields",
        ),
    ],
)
def test_the_pieces_together_are_the_document(situation: Situation) -> None:
    assert b"".join(situation_pieces(situation, situation.machines)) == write_situation(situation)


@given(situations())
def test_the_pieces_of_any_situation_read_back_as_it_was(situation: Situation) -> None:
    pieces = b"".join(situation_pieces(situation, situation.machines))
    assert pieces == write_situation(situation)
    assert read_situation(pieces).situation.machines == situation.machines


def test_no_piece_is_larger_than_a_few_hundred_lines() -> None:
    assert max(piece.count(b"\n") for piece in situation_pieces(Situation(0.0), FLEET)) <= 201
