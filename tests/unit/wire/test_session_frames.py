"""Frames of a session as the shard reads and writes them (`wire#session`, `wire#additions`)."""

import pytest
from google.protobuf.message import DecodeError

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.wire import session_frames
from bigfleet.wire.session_frames import (
    MAX_FIELDS,
    Blob,
    Hello,
    NoPayload,
    ReclaimStarted,
    RollupBytes,
    read_operator_frame,
)
from tests.support.builders import machine, shape

pb = shard_pb2
ROLLUP = capacity_pb2.ClusterCapacityNeeds(cluster_id="prod", timestamp_unix_nanos=7)


@pytest.mark.parametrize(
    ("message", "frame"),
    [
        (pb.OperatorMessage(hello=pb.Hello(cluster_id="prod", protocol_version="v1")), Hello("prod")),
        (pb.OperatorMessage(hello=pb.Hello()), Hello("")),
        (pb.OperatorMessage(rollup=ROLLUP), RollupBytes(ROLLUP.SerializeToString())),
        (pb.OperatorMessage(rollup=capacity_pb2.ClusterCapacityNeeds()), RollupBytes(b"")),
        (
            pb.OperatorMessage(
                bootstrap_response=pb.BootstrapBlobResponse(
                    request_id="r", user_data=b"x", ttl_seconds=9, error="e"
                )
            ),
            Blob("r", b"x", 9, "e"),
        ),
        (
            pb.OperatorMessage(reclaim_ack=pb.ReclaimAck(instruction_id="i", nodes_started=2)),
            ReclaimStarted("i", 2),
        ),
        (pb.OperatorMessage(), NoPayload()),
    ],
)
def test_a_frame_is_opened(message: pb.OperatorMessage, frame: object) -> None:
    assert read_operator_frame(message.SerializeToString()) == frame


def test_of_two_payloads_the_last_counts_and_two_parts_of_one_are_merged_as_protobuf_does() -> None:
    hello = pb.OperatorMessage(hello=pb.Hello(cluster_id="prod")).SerializeToString()
    rollup = pb.OperatorMessage(rollup=ROLLUP).SerializeToString()
    assert read_operator_frame(hello + rollup) == RollupBytes(ROLLUP.SerializeToString())
    more = pb.OperatorMessage(rollup=capacity_pb2.ClusterCapacityNeeds(needs=[capacity_pb2.CapacityNeed()]))
    merged = read_operator_frame(rollup + more.SerializeToString())
    assert isinstance(merged, RollupBytes)
    assert len(capacity_pb2.ClusterCapacityNeeds.FromString(merged.data).needs) == 1


def test_fields_of_tomorrow_are_stepped_over() -> None:
    unknown = b"\x78\x96\x01" + b"\x7d\x00\x00\x00\x00" + b"\x79" + bytes(8) + b"\x82\x01\x01x"
    hello = pb.OperatorMessage(hello=pb.Hello(cluster_id="prod")).SerializeToString()
    assert read_operator_frame(unknown + hello + unknown) == Hello("prod")
    assert read_operator_frame(unknown) == NoPayload()


@pytest.mark.parametrize(
    "data", [b"\x12\x05ab", b"\xff", b"\x0b", b"\x12", b"\x79\x00", b"\x12" + b"\xff" * 11]
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_operator_frame(data)


@pytest.mark.rule("wire#frame-fields")
@pytest.mark.parametrize(
    "field",
    [
        pytest.param(b"\x0a\x00", id="a hello"),
        pytest.param(b"\x12\x00", id="a roll-up"),
        pytest.param(b"\x12\x00\x0a\x00", id="two kinds in turn"),
        pytest.param(b"\x78\x01", id="an unknown number"),
        pytest.param(b"\x82\x01\x00", id="an unknown message"),
    ],
)
def test_a_frame_of_many_fields_is_given_up_at_the_thousandth(field: bytes) -> None:
    read_operator_frame(field * (MAX_FIELDS // 2))
    with pytest.raises(InvalidFieldError, match="frame: found 'more than 1024 fields'"):
        read_operator_frame(field * 4_000_000)


def test_as_many_parts_as_are_allowed_are_put_together_in_order() -> None:
    rows = [capacity_pb2.CapacityNeed(priority=row) for row in range(MAX_FIELDS)]
    parts = (pb.OperatorMessage(rollup=capacity_pb2.ClusterCapacityNeeds(needs=[row])) for row in rows)
    merged = read_operator_frame(b"".join(part.SerializeToString() for part in parts))
    assert isinstance(merged, RollupBytes)
    read = capacity_pb2.ClusterCapacityNeeds.FromString(merged.data)
    assert [row.priority for row in read.needs] == list(range(MAX_FIELDS))


def test_a_blob_is_not_shown() -> None:
    assert "secret" not in repr(Blob("r", b"secret", 0, ""))


def opened(frame: bytes) -> pb.ShardMessage:
    return pb.ShardMessage.FromString(frame)


def test_a_node_state_tells_who_where_and_how_large() -> None:
    one = machine(
        "m-1",
        MachineState.FAILED,
        shape=shape("big", zone="z9", labels={"rack": "r1"}, allocatable={"cpu": "3"}),
        last_error="it broke",
    )
    update = opened(session_frames.node_state(one, "prod")).node_state_update
    assert (update.supersedes_key, update.machine_id, update.cluster_id) == ("node:m-1", "m-1", "prod")
    assert (update.state, update.last_error) == (8, "it broke")
    assert dict(update.labels) == {
        "rack": "r1",
        "node.kubernetes.io/instance-type": "big",
        "topology.kubernetes.io/zone": "z9",
    }
    assert dict(update.resources.resources) == {"cpu": "3"}
    plain = machine("m-2", MachineState.IDLE, shape=shape(resources=FrozenMap({"cpu": "4"})))
    again = opened(session_frames.node_state(plain, "prod")).node_state_update
    assert dict(again.resources.resources) == {"cpu": "4"}
    assert again.provider_id == "host-of-m-2"


def test_requests_instructions_hints_and_acks() -> None:
    profile = Profile(requirements=(Requirement("rack", RequirementOperator.SAME),), priority=3)
    request = opened(session_frames.bootstrap_request("r1", profile, "prod", "m-1")).bootstrap_request
    assert (request.request_id, request.cluster_id, request.machine_id) == ("r1", "prod", "m-1")
    assert request.requirements[0].operator == 5
    bound = machine("m-1", MachineState.CONFIGURED)
    frame = session_frames.reclaim_instruction("i1", [bound], grace_s=120, preemptor_priority=9)
    instruction = opened(frame).reclaim_instruction
    assert (list(instruction.nodes), instruction.grace_period_seconds) == (["m-1"], 120)
    assert (instruction.targets[0].machine_id, instruction.targets[0].provider_id) == ("m-1", "host-of-m-1")
    hint = opened(
        session_frames.available_capacity(
            profile, count=5, confidence=4, cost_per_hour=1.5, resources={"cpu": "8", "memory": "32Gi"}
        )
    ).available_capacity
    assert hint.supersedes_key == f"available:{profile.fingerprint}"
    assert (hint.available_count, hint.confidence, hint.cost_per_hour) == (5, 4, 1.5)
    assert dict(hint.resources.resources) == {"cpu": "8", "memory": "32Gi"}
    ack = opened(session_frames.acknowledgement("resync", term=4, epoch=2)).ack
    assert (ack.echo, ack.coordinator_term, ack.shard_epoch) == ("resync", 4, 2)


@pytest.mark.rule("wire#acknowledgements")
def test_the_answer_to_hello_and_no_other_says_what_the_shard_understands() -> None:
    read = [
        pb.ShardMessage.FromString(session_frames.acknowledgement(echo, term=1, epoch=2)).ack.features
        for echo in ("hello", "rollup", "resync")
    ]
    assert [list(features) for features in read] == [["pods"], [], []]
