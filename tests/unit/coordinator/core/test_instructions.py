"""The queue per shard (`coordinator#instruction-queue`)."""

from itertools import count

import pytest

from bigfleet.coordinator.core.instructions import MAX_PENDING, InstructionQueue
from bigfleet.model.instruction import Ack, AssignDomain, Domain, Outcome

PAYLOAD = AssignDomain(Domain("rack", "r1"))


def queue(term: int = 4) -> InstructionQueue:
    numbers = count()
    return InstructionQueue(term, lambda: f"{next(numbers):016x}")


@pytest.mark.rule("coordinator#instruction-queue")
def test_instructions_stay_until_acked_in_sequence_order_at_most_a_hundred_per_answer() -> None:
    waiting = queue()
    for number in range(150):
        waiting.enqueue("s", AssignDomain(Domain("rack", f"r{number}")))
    first = waiting.next_answer("s")
    assert [instruction.sequence for instruction in first] == list(range(1, 101))
    assert {instruction.term for instruction in first} == {4}
    assert waiting.next_answer("s") == first
    for instruction in first:
        assert waiting.acknowledge("s", Ack(instruction.id, Outcome.ACCEPTED)) == instruction
    assert [instruction.sequence for instruction in waiting.next_answer("s")] == list(range(101, 151))


@pytest.mark.rule("coordinator#instruction-queue")
def test_every_outcome_clears_the_entry() -> None:
    for outcome in Outcome:
        waiting = queue()
        instruction = waiting.enqueue("s", PAYLOAD)
        assert instruction is not None
        assert waiting.acknowledge("s", Ack(instruction.id, outcome)) == instruction
        assert waiting.next_answer("s") == ()


def test_an_ack_for_what_is_not_queued_is_ignored() -> None:
    waiting = queue()
    instruction = waiting.enqueue("s", PAYLOAD)
    assert instruction is not None
    assert waiting.acknowledge("s", Ack("unknown", Outcome.ACCEPTED)) is None
    assert waiting.acknowledge("other", Ack(instruction.id, Outcome.ACCEPTED)) is None
    assert waiting.next_answer("s") == (instruction,)


def test_the_same_id_overwrites_and_goes_to_the_end() -> None:
    waiting = queue()
    waiting.enqueue("s", PAYLOAD, "one")
    waiting.enqueue("s", PAYLOAD, "two")
    again = waiting.enqueue("s", AssignDomain(Domain("rack", "r9")), "one")
    assert waiting.pending("s")[-1] == again
    assert [instruction.id for instruction in waiting.pending("s")] == ["two", "one"]


def test_beyond_its_bound_nothing_is_queued_and_it_is_counted() -> None:
    waiting = queue()
    for _ in range(MAX_PENDING):
        assert waiting.enqueue("s", PAYLOAD)
    assert waiting.enqueue("s", PAYLOAD) is None
    assert (len(waiting.pending("s")), waiting.dropped) == (MAX_PENDING, 1)
    assert waiting.enqueue("other", PAYLOAD)


def test_a_removed_shards_queue_is_gone() -> None:
    waiting = queue()
    waiting.enqueue("s", PAYLOAD)
    waiting.forget("s")
    assert waiting.pending("s") == ()
