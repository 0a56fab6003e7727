"""The operator's half of the session: messages of the shard into facts, our answers into messages.

Why: an unknown frame must be dropped and logged, and never end the session; so reading gives None and a reason.
Must never: log or show `user_data`, or invent a field that the shard did not send.
Rules: `wire#session-stream`, `wire#session`, `wire#additions`, `operator#frame-dispatch`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bigfleet.model.frames import (
    BlobAnswer,
    BlobRequest,
    CapacityHint,
    NodeStateUpdate,
    ReclaimAck,
    ReclaimOrder,
    ReclaimTarget,
    ShardAck,
    ShardFrame,
    Taint,
)
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import OPERATOR_WORDS, Profile
from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.wire.raw import twin_of
from bigfleet.wire.requirements import requirement_from_proto
from bigfleet.wire.rollups import row_to_proto

PROTOCOL_VERSION: Final = "v1alpha1"
_WORDS_BY_NUMBER: Final = {int(operator): word for operator, word in OPERATOR_WORDS.items()}
_CONFIDENCES: Final = {
    shard_pb2.AvailableCapacityUpdate.CONFIDENCE_LOW: "Low",
    shard_pb2.AvailableCapacityUpdate.CONFIDENCE_MEDIUM: "Medium",
    shard_pb2.AvailableCapacityUpdate.CONFIDENCE_HIGH: "High",
}
_STATES: Final = {int(state): state for state in MachineState}
# Any: a derived class has no stub.
_RAW_ROLLUP: Final[Any] = twin_of(capacity_pb2.ClusterCapacityNeeds.DESCRIPTOR)
_RAW_MESSAGE: Final[Any] = twin_of(shard_pb2.OperatorMessage.DESCRIPTOR)


def frame_from_proto(message: shard_pb2.ShardMessage) -> ShardFrame | str:
    """Read one frame of the shard, or say why it is dropped."""
    match message.WhichOneof("payload"):
        case "ack":
            ack = message.ack
            return ShardAck(
                ack.echo, ack.coordinator_term, ack.shard_epoch, ack.problem, frozenset(ack.features)
            )
        case "bootstrap_request":
            asked = message.bootstrap_request
            if not asked.request_id:
                return "a bootstrap request without an id"
            return BlobRequest(asked.request_id, tuple(map(_words_of, asked.requirements)), asked.machine_id)
        case "reclaim_instruction":
            return _order(message.reclaim_instruction)
        case "node_state_update":
            return _node_state(message.node_state_update)
        case "available_capacity":
            return _hint(message.available_capacity)
    return "a frame of no kind that is known"


def _order(message: shard_pb2.ReclaimInstruction) -> ReclaimOrder | str:
    details = list(message.targets) if len(message.targets) == len(message.nodes) else []
    targets = [
        ReclaimTarget(entry, detail.machine_id, detail.provider_id, detail.node_name)
        for entry, detail in zip(message.nodes, details, strict=False)
    ] or [ReclaimTarget(entry) for entry in message.nodes]
    named = tuple(target for target in targets if target.machine)
    if not named:
        return "a reclaim instruction that names no node"
    return ReclaimOrder(
        message.instruction_id, named, message.grace_period_seconds, message.preemptor_priority
    )


def _node_state(message: shard_pb2.NodeStateUpdate) -> NodeStateUpdate | str:
    if not message.machine_id:
        return "a node state without a machine id"
    state = _STATES.get(message.state, MachineState.UNSPECIFIED)
    if state is MachineState.UNSPECIFIED:
        return f"machine {message.machine_id} in the unknown state {int(message.state)}"
    return NodeStateUpdate(
        machine_id=message.machine_id,
        state=state,
        node_name=message.node_name,
        provider_id=message.provider_id,
        last_error=message.last_error,
        labels=FrozenMap(dict(message.labels)),
        resources=FrozenMap(dict(message.resources.resources)),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in message.taints),
    )


def _hint(message: shard_pb2.AvailableCapacityUpdate) -> CapacityHint | str:
    if not message.supersedes_key:
        return "available capacity without a key"
    known = [
        requirement_from_proto(item) for item in message.requirements if item.operator in _WORDS_BY_NUMBER
    ]
    return CapacityHint(
        key=message.supersedes_key,
        requirements=tuple(known),
        resources=FrozenMap(dict(message.resources.resources)),
        available=message.available_count,
        confidence=_CONFIDENCES.get(message.confidence, "None"),
        cost_per_hour=message.cost_per_hour,
    )


def _words_of(message: capacity_pb2.NodeSelectorRequirement) -> tuple[str, str, tuple[str, ...]]:
    # An unknown operator is an empty word for the template's author to see, not a reason to refuse a machine.
    return message.key, _WORDS_BY_NUMBER.get(message.operator, ""), tuple(message.values)


def hello_frame(cluster: str) -> bytes:
    """Write the frame that opens a session, and that asks for a sign of life later."""
    hello = shard_pb2.Hello(cluster_id=cluster, protocol_version=PROTOCOL_VERSION)
    return shard_pb2.OperatorMessage(hello=hello).SerializeToString()


def encoded_row(
    profile: Profile,
    total: Mapping[str, str],
    unit: Mapping[str, str],
    group: str,
    *,
    max_units: int = 0,
    for_fragments: bool = False,
) -> bytes:
    """Write one row of demand; maps are sorted, or two runs of one demand would differ."""
    row = row_to_proto(profile, total, unit, group, max_units=max_units, for_fragments=for_fragments)
    return row.SerializeToString(deterministic=True)


class RollupWriter:
    """Writes a roll-up row by row; equal demand at equal times gives equal bytes.

    Rows are taken as bytes, so that a row that did not change is not encoded again.
    """

    def __init__(self, cluster: str, built_ns: int) -> None:
        self._rollup: Any = _RAW_ROLLUP(cluster_id=cluster, timestamp_unix_nanos=built_ns)

    def add_encoded(self, rows: Iterable[bytes]) -> None:
        """Add rows that are encoded, as `encoded_row` does it."""
        self._rollup.needs.extend(rows)

    def frame(self) -> bytes:
        """Return the encoded frame."""
        frame: bytes = _RAW_MESSAGE(rollup=self._rollup.SerializeToString()).SerializeToString()
        return frame


def answer_frame(answer: BlobAnswer | ReclaimAck) -> bytes:
    """Write an answer to something that the shard asked."""
    return _answer_message(answer).SerializeToString()


def _answer_message(answer: BlobAnswer | ReclaimAck) -> shard_pb2.OperatorMessage:
    if isinstance(answer, ReclaimAck):
        ack = shard_pb2.ReclaimAck(instruction_id=answer.instruction_id, nodes_started=answer.nodes_started)
        return shard_pb2.OperatorMessage(reclaim_ack=ack)
    return shard_pb2.OperatorMessage(
        bootstrap_response=shard_pb2.BootstrapBlobResponse(
            request_id=answer.request_id,
            user_data=answer.user_data,
            ttl_seconds=answer.ttl_s,
            error=answer.error,
        )
    )
