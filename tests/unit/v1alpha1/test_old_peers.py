"""Peers built before our additions and peers built with them read each other's bytes.

The old peer is made from the same descriptors without the fields from number 1000 up, in a pool of its own.
Rules: `wire#additions`.
"""

from typing import Any

import pytest
from google.protobuf.message import Message

from bigfleet.v1alpha1.capacity_pb2 import CapacityNeed
from bigfleet.v1alpha1.coordinator_pb2 import (
    AssignDomain,
    CoordinatorInstruction,
    CrossShardDrain,
    InstructAck,
    MoveMark,
    MovePhase,
    MoveSelector,
    OwnershipView,
    ReassignSpeculative,
    RemoveShardRequest,
    ReportAck,
    ShardRegistryEntry,
    ShardReport,
    ShardReportSnapshot,
    ShardSummary,
    Shortfall,
    TransferOwnership,
)
from bigfleet.v1alpha1.provider_pb2 import Resources
from bigfleet.v1alpha1.shard_pb2 import (
    Acknowledgement,
    AvailableCapacityUpdate,
    BootstrapRequest,
    ReclaimInstruction,
    ReclaimTarget,
)
from bigfleet.v1alpha1.shardread_pb2 import NeedCoverage, NeedView
from tests.support.messages import contract_classes, old_peer_classes, without_additions

PACKAGE = "bigfleet.v1alpha1"
OLD = old_peer_classes()

SELECTOR = MoveSelector(
    count=2, zone="za", min_unit={"cpu": "4", "gpu": "1"}, deficit=Resources(resources={"cpu": "8"})
)
OFFER = MovePhase.MOVE_PHASE_OFFER
# `Any`: one set of arguments for three constructors
MOVE: dict[str, Any] = {"selector": SELECTOR, "phase": OFFER, "move_seq": 7, "flow_id": "00ff00ff00ff00ff"}
SUMMARY = ShardSummary(
    total_machines=9,
    free_machines=4,
    per_zone_counts={"za": 5, "zb": 4},
    provider_address="127.0.0.1:7000",
    partition_key="topology.kubernetes.io/zone",
    idle_machines=3,
    speculative_machines=1,
    instance_types_left_out=2,
    zones_left_out=3,
)
WITH_ADDITIONS: tuple[Message, ...] = (
    CapacityNeed(priority=3, min_unit={"cpu": "1"}, max_units_per_machine=1, for_fragments=True),
    AvailableCapacityUpdate(available_count=2, largest=[Resources(resources={"cpu": "8"})]),
    BootstrapRequest(request_id="r", cluster_id="blue", machine_id="m-1"),
    ReclaimInstruction(
        instruction_id="i",
        nodes=["n-1"],
        targets=[ReclaimTarget(machine_id="m-1", provider_id="h-1", node_name="n-1")],
    ),
    ShardReport(
        shard_id="s-1",
        summary=SUMMARY,
        vanished_machine_ids=["m-8", "m-9"],
        ownership=OwnershipView(
            domains=[AssignDomain(topology_key="zone", topology_value="za")],
            adopted=[MoveMark(machine_id="m-2", move_seq=3)],
            released=[MoveMark(machine_id="m-3", move_seq=4)],
            settled=True,
        ),
        shortfalls_left_out=4,
    ),
    Acknowledgement(
        echo="rollup-refused",
        shard_epoch=5,
        problem="needs: found 60000 rows, allowed is at most 50000",
        features=["pods"],
    ),
    SUMMARY,
    Shortfall(priority=5, age_cycles=6, min_unit={"cpu": "4", "memory": "1Gi", "gpu": "1"}),
    ReassignSpeculative(machine_ids=["m-1"], **MOVE, from_shard_id="s-1", to_shard_id="s-2"),
    CrossShardDrain(machine_ids=["m-1"], preemptor_priority=9, **MOVE),
    TransferOwnership(machine_ids=["m-1"], from_shard_id="s-1", to_shard_id="s-2", **MOVE),
    InstructAck(
        instruction_id="i",
        outcome=InstructAck.OUTCOME_ACCEPTED,
        machine_ids=["m-1", "m-2"],
        machine_total=Resources(resources={"cpu": "16"}),
        domain_values=["za", "zb"],
    ),
    RemoveShardRequest(shard_id="s-1", destroyed=True),
    NeedView(
        cluster_id="blue",
        satisfied=True,
        coverage=NeedCoverage(
            running=2, wanted=1, missing=Resources(resources={"cpu": "8"}), waiting_seconds=1.5
        ),
    ),
    ShardRegistryEntry(shard_id="s-1", last_heartbeat_unix_ns=5, last_heartbeat_age_nanos=6),
    ShardReportSnapshot(shard_id="s-1", cycle=7, received_age_nanos=8),
)
CARRIERS = pytest.mark.parametrize("message", WITH_ADDITIONS, ids=lambda message: message.DESCRIPTOR.name)


def canonical(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def old_form(message: Message) -> type[Message]:
    return OLD[message.DESCRIPTOR.full_name]


def test_the_examples_set_every_addition_of_every_message_that_carries_one() -> None:
    carried = {
        (name.removeprefix(f"{PACKAGE}."), field.number)
        for name, message_class in contract_classes().items()
        for field in message_class.DESCRIPTOR.fields
        if field.number >= 1000
    }
    shown = {
        (message.DESCRIPTOR.name, field.number)
        for message in WITH_ADDITIONS
        for field, _ in message.ListFields()
        if field.number >= 1000
    }
    assert shown == carried
    assert len(shown) == 37


def test_the_old_peer_knows_neither_the_additions_nor_what_only_they_lead_to() -> None:
    added = {"MoveMark", "MoveSelector", "NeedCoverage", "OwnershipView", "ReclaimTarget"}
    assert contract_classes().keys() - OLD.keys() == {f"{PACKAGE}.{name}" for name in added}
    assert {
        field.number for each in OLD.values() for field in each.DESCRIPTOR.fields if field.number >= 1000
    } == set()
    file = OLD[f"{PACKAGE}.ShardSummary"].DESCRIPTOR.file
    assert "MovePhase" not in file.enum_types_by_name


@CARRIERS
def test_an_old_peer_that_keeps_unknown_fields_hands_on_the_same_bytes(message: Message) -> None:
    assert canonical(old_form(message).FromString(canonical(message))) == canonical(message)


@CARRIERS
def test_an_old_peer_that_ignores_the_additions_reads_all_the_rest(message: Message) -> None:
    read = old_form(message).FromString(canonical(message))
    read.DiscardUnknownFields()
    rest = without_additions(message)
    assert canonical(read) == canonical(rest)
    assert type(message).FromString(canonical(read)) == rest != message


@CARRIERS
def test_what_an_old_peer_sends_has_every_addition_absent(message: Message) -> None:
    sent = old_form(message).FromString(canonical(without_additions(message)))
    read = type(message).FromString(canonical(sent))
    assert [field.name for field, _ in read.ListFields() if field.number >= 1000] == []
    assert canonical(read) == canonical(sent)


@pytest.mark.rule("dashboard#original-calls")
def test_the_provider_address_crosses_both_ways_between_old_and_new() -> None:
    old_class = OLD[f"{PACKAGE}.ShardSummary"]
    old = old_class.FromString(canonical(SUMMARY))
    assert getattr(old, "provider_address") == "127.0.0.1:7000"  # noqa: B009 a class made at run time has no typed fields
    sent = old_class(total_machines=3, provider_address="127.0.0.1:7001")
    new = ShardSummary.FromString(sent.SerializeToString())
    assert (new.total_machines, new.provider_address) == (3, "127.0.0.1:7001")
    assert (new.partition_key, new.idle_machines, new.speculative_machines) == ("", 0, 0)


@pytest.mark.parametrize(
    ("absent", "empty", "name"),
    [
        pytest.param(ShardReport(), ShardReport(ownership=OwnershipView()), "ownership", id="ownership"),
        pytest.param(CrossShardDrain(), CrossShardDrain(selector=MoveSelector()), "selector", id="selector"),
        pytest.param(
            InstructAck(), InstructAck(machine_total=Resources()), "machine_total", id="machine_total"
        ),
    ],
)
def test_an_addition_that_is_absent_is_told_from_an_empty_one(
    absent: Message, empty: Message, name: str
) -> None:
    assert not type(absent).FromString(absent.SerializeToString()).HasField(name)
    assert type(empty).FromString(empty.SerializeToString()).HasField(name)
    handed_on = old_form(empty).FromString(empty.SerializeToString()).SerializeToString()
    assert type(empty).FromString(handed_on).HasField(name)


def test_additions_deep_inside_a_message_pass_an_old_peer_unharmed() -> None:
    instruction = CoordinatorInstruction(instruction_id="i", transfer_ownership=TransferOwnership(**MOVE))
    ack = ReportAck(coordinator_term=3, instructions=[instruction, instruction])
    assert canonical(old_form(ack).FromString(canonical(ack))) == canonical(ack)
    assert without_additions(ack).instructions[0].transfer_ownership == TransferOwnership()
    assert without_additions(ack).instructions[0].WhichOneof("payload") == "transfer_ownership"
