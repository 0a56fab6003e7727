"""Which labels of a provider are taken over, and which names a record may have (`wire#labels-left-out`)."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import MachineState as S
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.labels import NO_LABEL, SECRET, reason_to_leave_out
from bigfleet.wire.listing import ListingReader, MachineListing
from bigfleet.wire.machines import MAX_ERROR_CHARACTERS, machine_from_proto, machine_to_proto
from tests.support.builders import machine, shape


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("topology.kubernetes.io/zone", "z1", None),
        ("bootstrap.example.com/rack", "r1", None),
        ("node.kubernetes.io/instance-type", "m5.large", None),
        ("partition-key", "a", None),
        ("accelerator", "", None),
        ("bootstrap-blob", "IyEvYmlu", SECRET),
        ("example.com/joinToken", "abc", SECRET),
        ("user-data", "abc", SECRET),
        ("userData", "abc", SECRET),
        ("aws.example/privateKey", "abc", SECRET),
        ("dbPasswords", "abc", SECRET),
        ("rack", "v" * 64, NO_LABEL),
        ("k" * 64, "v", NO_LABEL),
        ("rack", "two\nlines", NO_LABEL),
    ],
)
def test_labels_that_are_none_or_look_secret_are_left_out(key: str, value: str, reason: str | None) -> None:
    assert reason_to_leave_out(key, value) == reason


def listed(inventory: Inventory, *records: pb.Machine) -> MachineListing:
    listing = ListingReader(inventory).read(pb.MachineList(machines=records).SerializeToString())
    inventory.insert_rows(listing.new, 0.0)
    return listing


@pytest.mark.rule("wire#labels-left-out")
def test_a_blob_among_the_labels_reaches_no_inventory_and_is_reported_by_its_key_alone() -> None:
    labels = {"rack": "r1", "join-token": "abc", "script": "#!" + "x" * 1000}
    usual = machine_to_proto(machine("m-1", shape=shape(labels=labels)))
    unusual = machine_to_proto(machine("m-2", S.FAILED, shape=shape(labels=labels), last_error="lost"))
    inventory = Inventory()
    listing = listed(inventory, usual, unusual)
    assert listing.labels_left_out == {"join-token": SECRET, "script": NO_LABEL}
    for machine_id in ("m-1", "m-2"):
        assert dict(inventory.get(machine_id).shape.labels) == {"rack": "r1"}


def _control(field: str) -> pb.Machine:
    record = machine_to_proto(machine("m-1", S.CONFIGURED, cluster="prod"))
    match field:
        case "id":
            record.id = "m\n1"
        case "host.ref":
            record.host.ref = "h\x1b[2J"
        case "host.provider":
            record.host.provider = "p\x00"
        case "cluster":
            record.cluster = "prod\r"
        case _:
            setattr(record, field, "x\x85y")
    return record


@pytest.mark.rule("wire#text-lengths")
@pytest.mark.parametrize("field", ["id", "host.ref", "host.provider", "cluster", "instance_type", "zone"])
def test_a_name_with_a_control_character_refuses_its_record_alone(field: str) -> None:
    inventory = Inventory()
    good = machine_to_proto(machine("good"))
    listing = listed(inventory, _control(field), good)
    (rejected,) = listing.rejected
    assert rejected.error.field == f"machines[0].{field}"
    assert "without control characters" in str(rejected.error)
    assert "good" in inventory
    assert len(inventory) == 1


@pytest.mark.rule("wire#text-lengths")
@pytest.mark.parametrize("field", ["instance_type", "zone", "cluster"])
def test_a_name_of_a_megabyte_refuses_its_record_in_a_short_sentence(field: str) -> None:
    record = machine_to_proto(machine("m-1", S.CONFIGURED, cluster="prod"))
    setattr(record, field, "x" * (1 << 20))
    with pytest.raises(InvalidFieldError, match=field) as refused:
        machine_from_proto(record)
    assert len(str(refused.value)) < 500
    assert len(listed(Inventory(), record).rejected) == 1


@pytest.mark.rule("wire#machine-record")
def test_allocatable_above_resources_refuses_the_record_and_more_dimensions_do_not() -> None:
    oversold = shape(resources={"cpu": "4", "memory": "8Gi"})
    record = machine_to_proto(machine("m-1", shape=oversold))
    record.allocatable.resources["memory"] = "9Gi"
    (rejected,) = listed(Inventory(), record).rejected
    assert rejected.error.field == "machines[0].allocatable[memory]"
    assert "at most the 8Gi of resources" in str(rejected.error)
    record.allocatable.resources["memory"] = "8192Mi"
    record.allocatable.resources["pods"] = "110"
    assert not listed(Inventory(), record).rejected


def test_of_a_long_last_error_the_beginning_is_kept() -> None:
    record = machine_to_proto(machine("m-1", S.FAILED, last_error="e" * (1 << 20)))
    assert len(machine_from_proto(record).last_error) < MAX_ERROR_CHARACTERS + 100
