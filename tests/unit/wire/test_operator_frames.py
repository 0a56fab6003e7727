"""Messages of the shard into facts, answers into messages."""

import pytest

from bigfleet.model.frames import (
    BlobAnswer,
    BlobRequest,
    CapacityHint,
    NodeStateUpdate,
    ReclaimAck,
    ReclaimOrder,
    ReclaimTarget,
    ShardAck,
    Taint,
)
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Requirement, RequirementOperator
from bigfleet.v1alpha1 import capacity_pb2, provider_pb2, shard_pb2
from bigfleet.wire.operator_frames import answer_frame, frame_from_proto, hello_frame

_REQ = capacity_pb2.NodeSelectorRequirement


def test_an_ack() -> None:
    ack = shard_pb2.Acknowledgement(echo="resync", coordinator_term=3, shard_epoch=4)
    assert frame_from_proto(shard_pb2.ShardMessage(ack=ack)) == ShardAck("resync", 3, 4)
    newer = shard_pb2.Acknowledgement(echo="hello", features=["pods", "later"])
    found = frame_from_proto(shard_pb2.ShardMessage(ack=newer))
    assert isinstance(found, ShardAck)
    assert found.features == {"pods", "later"}


def test_a_bootstrap_request_words_its_operators_and_an_unknown_one_is_empty() -> None:
    request = shard_pb2.BootstrapRequest(
        request_id="r",
        machine_id="m",
        requirements=[
            _REQ(key="a", operator=_REQ.OPERATOR_IN, values=["x"]),
            _REQ(key="b", operator=_REQ.OPERATOR_SAME),
            _REQ(key="c"),
            _REQ(key="d", operator=_REQ.Operator.ValueType(9)),
        ],
    )
    wanted = (("a", "In", ("x",)), ("b", "Same", ()), ("c", "", ()), ("d", "", ()))
    assert frame_from_proto(shard_pb2.ShardMessage(bootstrap_request=request)) == BlobRequest(
        "r", wanted, "m"
    )


def test_a_reclaim_with_and_without_targets() -> None:
    order = shard_pb2.ReclaimInstruction(instruction_id="i", nodes=["n"], grace_period_seconds=10)
    plain = ReclaimOrder("i", (ReclaimTarget("n"),), 10)
    assert frame_from_proto(shard_pb2.ShardMessage(reclaim_instruction=order)) == plain
    order.targets.add(machine_id="m", provider_id="p", node_name="n")
    order.preemptor_priority = 5
    full = ReclaimOrder("i", (ReclaimTarget("n", "m", "p", "n"),), 10, 5)
    assert frame_from_proto(shard_pb2.ShardMessage(reclaim_instruction=order)) == full


def test_a_node_state_with_everything() -> None:
    update = shard_pb2.NodeStateUpdate(
        machine_id="m",
        state=provider_pb2.MACHINE_STATE_FAILED,
        node_name="n",
        provider_id="p",
        last_error="boom",
        labels={"zone": "a"},
        resources=provider_pb2.Resources(resources={"cpu": "8"}),
        taints=[shard_pb2.Taint(key="k", value="v", effect="NoSchedule")],
    )
    assert frame_from_proto(shard_pb2.ShardMessage(node_state_update=update)) == NodeStateUpdate(
        "m",
        MachineState.FAILED,
        "n",
        "p",
        "boom",
        FrozenMap({"zone": "a"}),
        FrozenMap({"cpu": "8"}),
        (Taint("k", "v", "NoSchedule"),),
    )


def test_a_hint() -> None:
    update = shard_pb2.AvailableCapacityUpdate(
        supersedes_key="available:x",
        requirements=[_REQ(key="a", operator=_REQ.OPERATOR_EXISTS), _REQ(key="b")],
        available_count=3,
        confidence=shard_pb2.AvailableCapacityUpdate.CONFIDENCE_MEDIUM,
        cost_per_hour=1.5,
    )
    assert frame_from_proto(shard_pb2.ShardMessage(available_capacity=update)) == CapacityHint(
        "available:x", (Requirement("a", RequirementOperator.EXISTS),), FrozenMap(), 3, "Medium", 1.5
    )


@pytest.mark.rule("operator#frame-dispatch")
@pytest.mark.parametrize(
    "message",
    [
        shard_pb2.ShardMessage(),
        shard_pb2.ShardMessage(bootstrap_request=shard_pb2.BootstrapRequest()),
        shard_pb2.ShardMessage(reclaim_instruction=shard_pb2.ReclaimInstruction(instruction_id="i")),
        shard_pb2.ShardMessage(
            node_state_update=shard_pb2.NodeStateUpdate(state=provider_pb2.MACHINE_STATE_IDLE)
        ),
        shard_pb2.ShardMessage(node_state_update=shard_pb2.NodeStateUpdate(machine_id="m")),
        shard_pb2.ShardMessage(
            node_state_update=shard_pb2.NodeStateUpdate(
                machine_id="m", state=provider_pb2.MachineState.ValueType(77)
            )
        ),
        shard_pb2.ShardMessage(available_capacity=shard_pb2.AvailableCapacityUpdate()),
    ],
    ids=lambda message: str(message).replace("\n", " ") or "empty",
)
def test_a_frame_that_says_nothing_is_dropped_with_a_word(message: shard_pb2.ShardMessage) -> None:
    assert isinstance(frame_from_proto(message), str)


def test_answers() -> None:
    sent = shard_pb2.OperatorMessage.FromString
    hello = sent(hello_frame("prod-1")).hello
    assert (hello.cluster_id, hello.protocol_version) == ("prod-1", "v1alpha1")
    blob = sent(answer_frame(BlobAnswer("r", b"x", 9, ""))).bootstrap_response
    assert (blob.request_id, blob.user_data, blob.ttl_seconds, blob.error) == ("r", b"x", 9, "")
    ack = sent(answer_frame(ReclaimAck("i", 2))).reclaim_ack
    assert (ack.instruction_id, ack.nodes_started) == ("i", 2)
