"""Reports of shards and the coordinator's answers: protobuf to model and back.

Why: the only steady-state call of the coordinator; both its ends read and write through here.
Must never: keep an unreadable quantity (`engine#quantities`): the report is refused whole, the refusal naming the field.
Rules: `wire#reports`, `wire#admin-calls`, `wire#additions`.
"""

from bigfleet.model.buckets import checked_bucket
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.instruction import Domain, ReportAnswer
from bigfleet.model.shard_report import MoveMark, OwnershipView, ShardReport, ShardSummary, Shortfall
from bigfleet.v1alpha1 import capacity_pb2
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from bigfleet.wire.instructions import (
    ack_from_proto,
    ack_to_proto,
    amounts_to_proto,
    domain_to_proto,
    instruction_from_proto,
    instruction_to_proto,
)
from bigfleet.wire.requirements import requirement_from_proto, requirements_to_proto
from bigfleet.wire.rollups import resources_from_texts


def report_from_proto(message: pb.ShardReport) -> ShardReport:
    """Read a report, or refuse it whole."""
    return ShardReport(
        shard_id=message.shard_id,
        cycle=message.cycle,
        built_at_ns=message.timestamp_unix_nanos,
        shard_epoch=message.shard_epoch,
        summary=_summary(message.summary) if message.HasField("summary") else None,
        shortfalls=tuple(
            _placed(f"shortfalls[{place}]", item) for place, item in enumerate(message.shortfalls)
        ),
        acks=tuple(map(ack_from_proto, message.instruction_acks)),
        address=message.shard_address,
        vanished_machine_ids=tuple(message.vanished_machine_ids),
        ownership=_view(message.ownership) if message.HasField("ownership") else None,
        shortfalls_left_out=message.shortfalls_left_out,
    )


def report_to_proto(report: ShardReport) -> pb.ShardReport:
    """Write a report."""
    message = pb.ShardReport(
        shard_id=report.shard_id,
        cycle=report.cycle,
        timestamp_unix_nanos=report.built_at_ns,
        shard_epoch=report.shard_epoch,
        shortfalls=map(shortfall_to_proto, report.shortfalls),
        instruction_acks=map(ack_to_proto, report.acks),
        shard_address=report.address,
        vanished_machine_ids=report.vanished_machine_ids,
        shortfalls_left_out=report.shortfalls_left_out,
    )
    if report.summary is not None:
        message.summary.CopyFrom(summary_to_proto(report.summary))
    if report.ownership is not None:
        message.ownership.CopyFrom(_view_to_proto(report.ownership))
    return message


def answer_to_proto(answer: ReportAnswer) -> pb.ReportAck:
    """Write the leader's answer."""
    return pb.ReportAck(
        coordinator_term=answer.term,
        acknowledged=answer.acknowledged,
        instructions=map(instruction_to_proto, answer.instructions),
    )


def answer_from_proto(message: pb.ReportAck) -> ReportAnswer:
    """Read the leader's answer."""
    return ReportAnswer(
        message.coordinator_term,
        message.acknowledged,
        tuple(map(instruction_from_proto, message.instructions)),
    )


def summary_to_proto(summary: ShardSummary) -> pb.ShardSummary:
    """Write a coarse inventory."""
    return pb.ShardSummary(
        total_machines=summary.total_machines,
        free_machines=summary.free_machines,
        per_instance_type_counts=summary.per_instance_type,
        per_zone_counts=summary.per_zone,
        provider_address=summary.provider_address,
        partition_key=summary.partition_key,
        idle_machines=summary.idle_machines,
        speculative_machines=summary.speculative_machines,
        instance_types_left_out=summary.instance_types_left_out,
        zones_left_out=summary.zones_left_out,
    )


def shortfall_to_proto(shortfall: Shortfall, *, with_requirements: bool = True) -> pb.Shortfall:
    """Write a shortfall; the listing of reports leaves the requirements out."""
    return pb.Shortfall(
        requirements=requirements_to_proto(shortfall.requirements) if with_requirements else (),
        deficit=amounts_to_proto(shortfall.deficit),
        priority=shortfall.priority,
        age_cycles=shortfall.age_cycles,
        interruption_penalty_bucket=capacity_pb2.PenaltyBucket.ValueType(shortfall.interruption_bucket),
        min_unit=shortfall.min_unit.texts(),
    )


def _summary(message: pb.ShardSummary) -> ShardSummary:
    return ShardSummary(
        total_machines=message.total_machines,
        free_machines=message.free_machines,
        per_instance_type=FrozenMap(message.per_instance_type_counts),
        per_zone=FrozenMap(message.per_zone_counts),
        provider_address=message.provider_address,
        partition_key=message.partition_key,
        idle_machines=message.idle_machines,
        speculative_machines=message.speculative_machines,
        instance_types_left_out=message.instance_types_left_out,
        zones_left_out=message.zones_left_out,
    )


def _placed(place: str, message: pb.Shortfall) -> Shortfall:
    try:
        return _shortfall(message)
    except InvalidFieldError as error:
        raise error.under(place) from None


def _shortfall(message: pb.Shortfall) -> Shortfall:
    return Shortfall(
        deficit=resources_from_texts(message.deficit.resources, "deficit"),
        priority=message.priority,
        age_cycles=message.age_cycles,
        interruption_bucket=checked_bucket(
            message.interruption_penalty_bucket, "interruption_penalty_bucket"
        ),
        requirements=tuple(map(requirement_from_proto, message.requirements)),
        min_unit=resources_from_texts(message.min_unit, "min_unit"),
    )


def _view(message: pb.OwnershipView) -> OwnershipView:
    return OwnershipView(
        domains=tuple(Domain(item.topology_key, item.topology_value) for item in message.domains),
        adopted=tuple(MoveMark(mark.machine_id, mark.move_seq) for mark in message.adopted),
        released=tuple(MoveMark(mark.machine_id, mark.move_seq) for mark in message.released),
        settled=message.settled,
        leaving=tuple(Domain(item.topology_key, item.topology_value) for item in message.leaving),
    )


def _view_to_proto(view: OwnershipView) -> pb.OwnershipView:
    return pb.OwnershipView(
        domains=map(domain_to_proto, view.domains),
        adopted=[pb.MoveMark(machine_id=mark.machine_id, move_seq=mark.move_seq) for mark in view.adopted],
        released=[pb.MoveMark(machine_id=mark.machine_id, move_seq=mark.move_seq) for mark in view.released],
        settled=view.settled,
        leaving=map(domain_to_proto, view.leaving),
    )
