"""The kit that makes random messages reaches what the wire allows, and its old peers are old."""

import math
from collections.abc import Callable
from typing import TypeVar

import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import Message
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

from bigfleet.v1alpha1.capacity_pb2 import CapacityNeed, PenaltyBucket
from bigfleet.v1alpha1.coordinator_pb2 import ReportAck, ShardReport, ShardSummary
from bigfleet.v1alpha1.provider_pb2 import Machine
from bigfleet.v1alpha1.shard_pb2 import OperatorMessage
from tests.support.messages import messages, old_peer_classes, without_additions

MessageT = TypeVar("MessageT", bound=Message)
SEARCH = settings(derandomize=True, database=None, max_examples=5000, phases=[Phase.generate])
SHORT_SEARCH = settings(SEARCH, max_examples=300)


def reaches(message_class: type[MessageT], condition: Callable[[MessageT], bool]) -> bool:
    """Search with fixed choices; `find` raises when nothing fulfils the condition."""
    return condition(find(messages(message_class), condition, settings=SEARCH))


@pytest.mark.parametrize("member", ["hello", "rollup", "bootstrap_response", "reclaim_ack", None])
def test_every_member_of_a_oneof_and_none_of_them_is_made(member: str | None) -> None:
    assert reaches(OperatorMessage, lambda message: message.WhichOneof("payload") == member)


def test_named_and_unnamed_enum_numbers_are_made() -> None:
    named = PenaltyBucket.values()
    assert reaches(CapacityNeed, lambda need: need.interruption_penalty_bucket not in named)
    assert reaches(
        CapacityNeed, lambda need: need.interruption_penalty_bucket == PenaltyBucket.PENALTY_BUCKET_PINNED
    )


def test_infinite_prices_are_made_and_nan_is_not() -> None:
    assert reaches(Machine, lambda machine: math.isinf(machine.price_per_hour))
    with pytest.raises(NoSuchExample):
        find(messages(Machine), lambda machine: math.isnan(machine.price_per_hour), settings=SHORT_SEARCH)


def test_messages_that_are_present_and_empty_are_made() -> None:
    assert reaches(
        Machine, lambda machine: machine.HasField("allocatable") and not machine.allocatable.resources
    )


def test_the_deepest_field_of_the_contract_is_reached() -> None:
    def deep(ack: ReportAck) -> bool:
        return any(each.reassign_speculative.selector.deficit.resources for each in ack.instructions)

    assert reaches(ReportAck, deep)


def test_recursive_messages_end_at_the_depth_asked_for() -> None:
    def depth(value: struct_pb2.Value) -> int:
        return 1 + max((depth(each) for each in value.list_value.values), default=0)

    found = find(messages(struct_pb2.Value, max_depth=5), lambda value: depth(value) == 3, settings=SEARCH)
    assert depth(found) == 3
    with pytest.raises(NoSuchExample):
        find(messages(struct_pb2.Value, max_depth=3), lambda value: depth(value) == 3, settings=SHORT_SEARCH)
    with pytest.raises(NoSuchExample):
        find(messages(struct_pb2.Struct, max_depth=1), lambda each: bool(each.fields), settings=SHORT_SEARCH)


def test_messages_of_an_old_peer_are_made_in_its_own_pool() -> None:
    old = old_peer_classes()["bigfleet.v1alpha1.ShardReport"]
    assert isinstance(find(messages(old), lambda _: True, settings=SEARCH), old)
    assert not issubclass(old, ShardReport)


def test_taking_additions_away_reaches_every_depth_and_leaves_the_original_alone() -> None:
    report = ShardReport(shard_id="s", summary=ShardSummary(total_machines=1, idle_machines=1))
    assert without_additions(report) == ShardReport(shard_id="s", summary=ShardSummary(total_machines=1))
    assert report.summary.idle_machines == 1
