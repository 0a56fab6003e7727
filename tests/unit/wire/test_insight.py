"""Machines as the insight service shows them.

Rules: `dashboard#insight-service`, `engine#snapshot-defaults`, `engine#machine-invariants`.
"""

import math

import pytest

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState as S
from bigfleet.model.machine import NeedRef
from bigfleet.wire.insight import machine_to_proto, need_key_from_proto, need_key_to_proto
from tests.support.builders import assigned, machine, shape


def test_a_row_holds_all_that_the_record_says_and_never_the_providers_metadata() -> None:
    record = machine(
        "m-1",
        S.DRAINING,
        cluster="web",
        shape=shape(
            "m5", zone="za", price=1.5, probability=0.25, labels={"rack": "r1"}, allocatable={"cpu": "3500m"}
        ),
        assigned=assigned(7, math.inf, 2.0, fingerprint="fp", group="g"),
        draining_for=NeedRef("train", "other", "h"),
        drain_grace_remaining_s=12.5,
        last_error="slow",
        metadata=FrozenMap({"secret": "x"}),
    )
    row = machine_to_proto(record, pending=True)
    assert (row.id, row.state, row.cluster, row.instance_type, row.zone) == (
        "m-1",
        "Draining",
        "web",
        "m5",
        "za",
    )
    assert (row.host_provider, row.host_ref) == ("rack", "host-of-m-1")
    assert (row.capacity_type, row.price_per_hour, row.interruption_probability) == ("OnDemand", 1.5, 0.25)
    assert (dict(row.capacity), dict(row.labels)) == ({"cpu": "3.5"}, {"rack": "r1"})
    assert (row.assigned.priority, row.assigned.interruption_penalty) == (7, math.inf)
    assert (row.assigned.fingerprint, row.assigned.group) == ("fp", "g")
    assert (row.draining_for.cluster, row.draining_for.group) == ("train", "h")
    assert (row.drain_grace_remaining_seconds, row.last_error, row.pending) == (12.5, "slow", True)
    assert b"secret" not in row.SerializeToString()


def test_what_a_machine_has_not_stays_absent() -> None:
    row = machine_to_proto(machine("m-1", S.SPECULATIVE))
    assert not row.HasField("assigned")
    assert not row.HasField("draining_for")
    assert (row.idle_since_unix_nanos, row.pending) == (0, False)


def test_idle_since_is_told_to_the_nanosecond_that_a_float_holds() -> None:
    row = machine_to_proto(machine("m-1", S.IDLE, idle_since=1_700_000_000.5))
    assert row.idle_since_unix_nanos == 1_700_000_000_500_000_000


@pytest.mark.parametrize("key", [NeedRef("a", "fp"), NeedRef("a", "fp", "g")])
def test_a_need_is_named_both_ways(key: NeedRef) -> None:
    assert need_key_from_proto(need_key_to_proto(key)) == key
