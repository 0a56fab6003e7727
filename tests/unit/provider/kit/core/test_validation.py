"""Every duty of a record that can be checked (`providers#record-fields`)."""

import math
from dataclasses import replace

import pytest

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.provider.contract import FORBIDDEN_LABELS, REMOVED_LABEL
from bigfleet.provider.kit.core.validation import RecordValidator, host_error
from bigfleet.provider.kit.core.values import DescribedMachine
from tests.support.builders import shape

GOOD = shape()


def reasons(slot: DescribedMachine) -> list[str]:
    return [fault.reason for fault in RecordValidator().faults(slot)]


@pytest.mark.parametrize(
    "slot",
    [
        DescribedMachine("m", GOOD),
        DescribedMachine("pool/a/0001", GOOD, host="h"),
        DescribedMachine(
            "m", GOOD, host="h", state=MachineState.CONFIGURED, cluster="c", shard_metadata={"k": "v"}
        ),
        DescribedMachine("m", GOOD, state=MachineState.FAILED, last_error="broke"),
        DescribedMachine("m", shape(capacity_type=CapacityType.SPOT, probability=0.05)),
        DescribedMachine("m", shape(price=0.0, capacity_type=CapacityType.BARE_METAL), host="h"),
        DescribedMachine("m", shape(resources={}, labels={"zone-of-comfort": "x"})),
        DescribedMachine("m", shape(allocatable={"cpu": "0"})),
    ],
)
def test_a_good_slot_has_no_fault(slot: DescribedMachine) -> None:
    assert reasons(slot) == []


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (replace(GOOD, instance_type=""), "instance_type"),
        (replace(GOOD, zone=""), "zone"),
        (replace(GOOD, capacity_type=CapacityType.UNSPECIFIED), "capacity_type"),
        (replace(GOOD, price_per_hour=-1.0), "price_per_hour"),
        (replace(GOOD, price_per_hour=math.nan), "price_per_hour"),
        (replace(GOOD, price_per_hour=math.inf), "price_per_hour"),
        (replace(GOOD, interruption_probability=1.5), "interruption_probability"),
        (replace(GOOD, interruption_probability=math.nan), "interruption_probability"),
        (replace(GOOD, capacity_type=CapacityType.SPOT), "interruption_probability"),
        (replace(GOOD, resources=FrozenMap({"cpu": "four"})), "resources"),
        (replace(GOOD, resources=FrozenMap({"cpu": "0"})), "resources"),
        (replace(GOOD, allocatable=FrozenMap({"cpu": "-1"})), "allocatable"),
        *((replace(GOOD, labels=FrozenMap({key: "x"})), "labels") for key in sorted(FORBIDDEN_LABELS)),
        (replace(GOOD, labels=FrozenMap({REMOVED_LABEL: "x"})), "labels"),
    ],
)
def test_a_bad_shape_is_reported_by_its_field(broken: Shape, reason: str) -> None:
    assert reasons(DescribedMachine("m", broken)) == [reason]


@pytest.mark.parametrize(
    ("slot", "reason"),
    [
        (DescribedMachine("", GOOD), "id"),
        (DescribedMachine("m" * 1025, GOOD), "id"),
        (DescribedMachine("m", GOOD, host="h" * 5000), "host"),
        (DescribedMachine("m", GOOD, cluster="c"), "cluster"),
        (DescribedMachine("m", GOOD, host="h", state=MachineState.SPECULATIVE), "host"),
        (DescribedMachine("m", GOOD, state=MachineState.IDLE), "host"),
        (DescribedMachine("m", GOOD, host="h", state=MachineState.CONFIGURED), "cluster"),
        (DescribedMachine("m", GOOD, host="h", state=MachineState.IDLE, cluster="c"), "cluster"),
        (DescribedMachine("m", GOOD, state=MachineState.CREATING), "state"),
        (DescribedMachine("m", GOOD, state=MachineState.FAILED), "last_error"),
    ],
)
def test_a_bad_description_is_reported_by_its_field(slot: DescribedMachine, reason: str) -> None:
    assert reason in reasons(slot)


def test_all_faults_of_a_described_machine_are_reported_with_its_id() -> None:
    faults = RecordValidator().faults(DescribedMachine("m", replace(GOOD, zone="", price_per_hour=-1.0)))
    assert [str(fault).split(":")[0] for fault in faults] == ["m", "m"]
    assert [fault.reason for fault in faults] == ["zone", "price_per_hour"]


def test_what_a_host_says_of_its_size_is_checked_too() -> None:
    assert host_error(GOOD) is None
    assert host_error(replace(GOOD, resources=FrozenMap({"cpu": "much"}))) is not None
    assert host_error(replace(GOOD, resources=FrozenMap({"cpu": "0"}))) is not None
