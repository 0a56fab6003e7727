"""Acks that wait, and acks that are given once more (`coordinator#shard-client`, `shard#coordinator-client`)."""

import pytest

from bigfleet.coordlink.core.acks import DUPLICATE, REMEMBERED, AckMemory, AckQueue
from bigfleet.model.instruction import Ack, Outcome
from tests.support.builders import amounts


def accepted(instruction_id: str, *machines: str) -> Ack:
    total = amounts(cpu=len(machines))
    return Ack(instruction_id, Outcome.ACCEPTED, "", machines, total, ("za",) * len(machines))


@pytest.mark.rule("coordinator#repeated-acks")
def test_a_repeated_ack_is_the_whole_ack_and_says_that_it_is_repeated() -> None:
    memory = AckMemory()
    memory.remember(accepted("i-1", "m-1", "m-2"))
    again = memory.repeated("i-1")
    assert again == Ack("i-1", Outcome.ACCEPTED, DUPLICATE, ("m-1", "m-2"), amounts(cpu=2), ("za", "za"))
    assert memory.repeated("i-2") is None


def test_the_last_ten_thousand_are_remembered_and_one_that_is_still_asked_for_stays() -> None:
    memory = AckMemory()
    for number in range(REMEMBERED):
        memory.remember(accepted(f"i-{number}"))
    assert memory.repeated("i-0") is not None  # asked for, so not the oldest any more
    memory.remember(accepted("one more"))
    assert len(memory) == REMEMBERED == 10_000
    assert memory.repeated("i-1") is None
    assert memory.repeated("i-0") is not None


def test_what_a_failed_report_carried_goes_in_front_of_what_came_since() -> None:
    queue = AckQueue()
    queue.add(accepted("i-1"))
    queue.add(accepted("i-2"))
    taken = queue.take()
    assert len(queue) == 0
    queue.add(accepted("i-3"))
    queue.put_back(taken)
    assert [ack.instruction_id for ack in queue.take()] == ["i-1", "i-2", "i-3"]


def test_an_instruction_is_answered_once_per_report_and_the_later_answer_counts() -> None:
    queue = AckQueue()
    queue.add(accepted("i-1"))
    taken = queue.take()
    queue.add(Ack("i-1", Outcome.ACCEPTED, DUPLICATE))
    queue.put_back(taken)
    assert queue.take() == (Ack("i-1", Outcome.ACCEPTED, DUPLICATE),)
