"""Which instructions a shard carries out.

Rules: `coordinator#shard-client`, `shard#coordinator-client`, `shard#terms`, `shard#instructions`.
"""

import pytest

from bigfleet.coordlink.core.acks import DUPLICATE, AckMemory
from bigfleet.coordlink.core.domains import AssignedDomains
from bigfleet.coordlink.core.instruction_handling import InstructionHandler
from bigfleet.coordlink.core.obedience import UnsharedProvider
from bigfleet.model.errors import BigFleetError
from bigfleet.model.instruction import (
    Ack,
    AssignDomain,
    CrossShardDrain,
    Domain,
    Instruction,
    MovePhase,
    Outcome,
    Payload,
    ReassignSpeculative,
    ReportAnswer,
    TransferOwnership,
    UnassignDomain,
)

RACK = Domain("rack", "r1")
ZONE = Domain("topology.kubernetes.io/zone", "za")


def answer(*instructions: Instruction, term: int = 5) -> ReportAnswer:
    return ReportAnswer(term, acknowledged=True, instructions=instructions)


def order(instruction_id: str, payload: Payload | None, term: int = 5) -> Instruction:
    return Instruction(term, 1, instruction_id, payload)


class FailingDomains(AssignedDomains):
    def assign(self, domain: Domain) -> None:
        raise BigFleetError(f"no room for {domain}")

    def unassign(self, domain: Domain) -> None:
        raise BigFleetError(f"{domain} is stuck")


def test_domains_are_assigned_and_unassigned_and_both_may_be_repeated() -> None:
    domains = AssignedDomains()
    handler = InstructionHandler(UnsharedProvider(domains))
    assign = (AssignDomain(ZONE), AssignDomain(RACK), AssignDomain(RACK))
    first = handler.handle(answer(*(order(f"a-{n}", payload) for n, payload in enumerate(assign))), 5)
    assert [item.ack.outcome for item in first] == [Outcome.ACCEPTED] * 3
    assert domains.listed() == (RACK, ZONE)
    handler.handle(answer(order("u-1", UnassignDomain(RACK)), order("u-2", UnassignDomain(RACK))), 5)
    assert domains.listed() == (ZONE,)


def test_a_new_term_empties_the_set_as_the_new_leader_sends_all_of_it_again() -> None:
    domains = AssignedDomains()
    handler = InstructionHandler(UnsharedProvider(domains))
    handler.handle(answer(order("a-1", AssignDomain(ZONE)), order("a-2", AssignDomain(RACK))), 5)
    handler.handle(answer(), 5)
    assert domains.listed() == (RACK, ZONE)
    handler.handle(answer(order("a-3", AssignDomain(RACK), term=6), term=6), 6)
    assert domains.listed() == (RACK,)


def test_an_instruction_without_an_id_is_ignored() -> None:
    domains = AssignedDomains()
    assert (
        InstructionHandler(UnsharedProvider(domains)).handle(answer(order("", AssignDomain(RACK))), 5) == ()
    )
    assert domains.listed() == ()


@pytest.mark.rule("coordinator#repeated-acks")
def test_an_instruction_that_was_carried_out_is_acked_again_and_not_carried_out_again() -> None:
    domains = AssignedDomains()
    handler = InstructionHandler(UnsharedProvider(domains))
    handler.handle(answer(order("i-1", AssignDomain(RACK))), 5)
    domains.unassign(RACK)
    (again,) = handler.handle(answer(order("i-1", AssignDomain(RACK))), 5)
    assert (again.ack, again.repeated) == (Ack("i-1", Outcome.ACCEPTED, DUPLICATE), True)
    assert domains.listed() == ()


def test_a_repeated_ack_carries_the_machines_that_the_first_one_named() -> None:
    memory = AckMemory()
    memory.remember(Ack("offer", Outcome.ACCEPTED, "", ("m-1", "m-2")))
    handler = InstructionHandler(UnsharedProvider(AssignedDomains()), memory)
    (again,) = handler.handle(answer(order("offer", TransferOwnership())), 5)
    assert again.ack.machine_ids == ("m-1", "m-2")


def test_a_duplicate_is_answered_before_its_term_is_looked_at() -> None:
    handler = InstructionHandler(UnsharedProvider(AssignedDomains()))
    handler.handle(answer(order("i-1", AssignDomain(RACK))), 5)
    (again,) = handler.handle(answer(order("i-1", AssignDomain(RACK)), term=9), 9)
    assert again.ack.outcome is Outcome.ACCEPTED


@pytest.mark.rule("coordinator#term-mark")
def test_a_lower_term_drops_the_whole_answer_and_an_equal_or_higher_one_passes() -> None:
    handler = InstructionHandler(UnsharedProvider(AssignedDomains()))
    stale = answer(order("i-1", AssignDomain(RACK), term=4), term=4)
    assert handler.term_after(stale, 5) is None
    assert handler.term_after(answer(term=5), 5) == 5
    assert handler.term_after(answer(term=6), 5) == 6


def test_an_answer_without_a_term_leaves_the_mark_alone() -> None:
    handler = InstructionHandler(UnsharedProvider(AssignedDomains()))
    assert handler.term_after(answer(term=0), 5) == 5
    assert handler.handle(answer(term=0), 5) == ()


def test_a_single_instruction_of_a_lower_term_is_refused_as_stale() -> None:
    domains = AssignedDomains()
    orders = (order("i-1", AssignDomain(RACK), term=4), order("i-2", AssignDomain(ZONE)))
    handled = InstructionHandler(UnsharedProvider(domains)).handle(answer(*orders), 5)
    assert [item.ack.outcome for item in handled] == [Outcome.REJECTED_STALE, Outcome.ACCEPTED]
    assert handled[0].ack.reason == "term 4 is below 5, the highest seen"
    assert domains.listed() == (ZONE,)


@pytest.mark.rule("coordinator#no-accepted-no-ops")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(ReassignSpeculative(("m-1",), phase=MovePhase.OFFER), id="reassign_speculative"),
        pytest.param(CrossShardDrain(("m-1",), preemptor_priority=7), id="cross_shard_drain"),
        pytest.param(TransferOwnership(("m-1",), phase=MovePhase.ADOPT), id="transfer_ownership"),
    ],
)
def test_what_needs_a_shared_provider_is_refused_with_a_reason_and_never_a_silent_no_op(
    payload: Payload,
) -> None:
    """Rules: `coordinator#one-shard-per-provider`, `coordinator#no-accepted-no-ops`."""
    (handled,) = InstructionHandler(UnsharedProvider(AssignedDomains())).handle(
        answer(order("i-1", payload)), 5
    )
    assert handled.ack.outcome is Outcome.REJECTED_INVALID
    assert "shares its provider with no other" in handled.ack.reason
    assert handled.ack.reason.startswith(handled.kind)


def test_an_unknown_kind_is_refused_as_invalid() -> None:
    (handled,) = InstructionHandler(UnsharedProvider(AssignedDomains())).handle(answer(order("i-1", None)), 5)
    assert (handled.kind, handled.ack.outcome) == ("unknown", Outcome.REJECTED_INVALID)


@pytest.mark.parametrize("domain", [Domain("", "r1"), Domain("rack", "")])
def test_a_domain_without_key_or_value_is_refused_as_invalid(domain: Domain) -> None:
    (handled,) = InstructionHandler(UnsharedProvider(AssignedDomains())).handle(
        answer(order("i-1", AssignDomain(domain))), 5
    )
    assert handled.ack.outcome is Outcome.REJECTED_INVALID
    assert "both are required" in handled.ack.reason


@pytest.mark.parametrize(
    ("payload", "text"),
    [(AssignDomain(RACK), "no room for rack=r1"), (UnassignDomain(RACK), "rack=r1 is stuck")],
)
def test_a_handler_that_fails_is_acked_with_its_text_and_tried_again_when_asked_again(
    payload: Payload, text: str
) -> None:
    handler = InstructionHandler(UnsharedProvider(FailingDomains()))
    for _ in range(2):
        (handled,) = handler.handle(answer(order("i-1", payload)), 5)
        assert handled.ack == Ack("i-1", Outcome.FAILED, text)
        assert not handled.repeated
