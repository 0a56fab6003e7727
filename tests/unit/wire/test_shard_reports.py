"""Reports, answers and instructions to protobuf and back (`wire#reports`, `wire#additions`, `engine#quantities`)."""

import pytest

from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.instruction import (
    Ack,
    AssignDomain,
    CrossShardDrain,
    Domain,
    Instruction,
    MovePhase,
    MoveSelector,
    Outcome,
    Payload,
    ReassignSpeculative,
    ReportAnswer,
    TransferOwnership,
    UnassignDomain,
)
from bigfleet.model.profile import Requirement, RequirementOperator
from bigfleet.model.resources import Resources
from bigfleet.model.shard_report import MoveMark, OwnershipView, ShardReport, ShardSummary, Shortfall
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from bigfleet.wire.instructions import instruction_from_proto
from bigfleet.wire.shard_reports import (
    answer_from_proto,
    answer_to_proto,
    report_from_proto,
    report_to_proto,
    shortfall_to_proto,
)

GPU = Resources.parse({"gpu": "8", "cpu": "500m"})
IN_ZONE = Requirement("topology.kubernetes.io/zone", RequirementOperator.IN, ("a", "b"))
SELECTOR = MoveSelector(3, "m6i.large", "a", (IN_ZONE,), GPU, GPU, PenaltyBucket(5))
MOVE = (("m-1", "m-2"), SELECTOR, MovePhase.RELEASE, 17, "00112233aabbccdd")

REPORT = ShardReport(
    shard_id="s-1",
    cycle=7,
    built_at_ns=11,
    shard_epoch=3,
    summary=ShardSummary(9, 4, FrozenMap({"m": 9}), FrozenMap({"a": 9}), "p:9000", "zone", 3, 1),
    shortfalls=(Shortfall(GPU, 1000, 6, PenaltyBucket(4), (IN_ZONE,), GPU),),
    acks=(Ack("a1", Outcome.ACCEPTED, "done", ("m-1",), GPU, ("a",)), Ack("a2", Outcome.FAILED, "no")),
    address="s-1:7780",
    vanished_machine_ids=("m-9",),
    ownership=OwnershipView((Domain("zone", "a"),), (MoveMark("m-1", 2),), (MoveMark("m-2", 3),), True),
)


def test_a_report_survives_the_wire() -> None:
    assert report_from_proto(pb.ShardReport.FromString(report_to_proto(REPORT).SerializeToString())) == REPORT


def test_a_bare_report_has_neither_summary_nor_view() -> None:
    bare = report_from_proto(pb.ShardReport(shard_id="s"))
    assert (bare.summary, bare.ownership, bare.shortfalls) == (None, None, ())


@pytest.mark.parametrize(
    "payload",
    [
        AssignDomain(Domain("rack", "r1")),
        UnassignDomain(Domain("rack", "r1")),
        ReassignSpeculative(*MOVE, from_shard="s-1", to_shard="s-2"),
        CrossShardDrain(*MOVE, preemptor_priority=99),
        TransferOwnership(*MOVE, from_shard="s-1", to_shard="s-2"),
        TransferOwnership(("m",), None, MovePhase.ADOPT, 1, "", "a", "b"),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_an_instruction_survives_the_wire(payload: Payload) -> None:
    answer = ReportAnswer(4, True, (Instruction(4, 1, "00aa", payload),))
    assert answer_from_proto(pb.ReportAck.FromString(answer_to_proto(answer).SerializeToString())) == answer


def test_an_instruction_of_an_unknown_kind_keeps_its_id_and_has_no_payload() -> None:
    unknown = Instruction(4, 1, "00aa", None)
    bare = pb.CoordinatorInstruction(coordinator_term=4, sequence_number=1, instruction_id="00aa")
    assert instruction_from_proto(bare) == unknown
    assert answer_to_proto(ReportAnswer(4, True, (unknown,))).instructions[0] == bare


def test_an_instruction_with_an_unreadable_selector_has_no_payload_either() -> None:
    message = pb.CoordinatorInstruction(instruction_id="00aa")
    message.transfer_ownership.selector.min_unit["cpu"] = "12x"
    assert instruction_from_proto(message).payload is None
    message = pb.CoordinatorInstruction(instruction_id="00aa")
    message.transfer_ownership.phase = pb.MovePhase.ValueType(77)
    assert instruction_from_proto(message).payload is None


def test_an_unreadable_quantity_refuses_the_report_by_its_place() -> None:
    message = report_to_proto(REPORT)
    message.shortfalls[0].deficit.resources["cpu"] = "12x"
    with pytest.raises(InvalidFieldError, match=r"^shortfalls\[0\]\.deficit\[cpu\]: found '12x'"):
        report_from_proto(message)


def test_an_unknown_outcome_reads_as_unspecified() -> None:
    message = pb.ShardReport(shard_id="s")
    message.instruction_acks.add(instruction_id="x", outcome=pb.InstructAck.Outcome.ValueType(99))
    assert report_from_proto(message).acks == (Ack("x", Outcome.UNSPECIFIED),)


def test_the_listing_of_reports_leaves_requirements_out() -> None:
    assert not shortfall_to_proto(REPORT.shortfalls[0], with_requirements=False).requirements
