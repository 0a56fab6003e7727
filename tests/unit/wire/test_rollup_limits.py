"""What a roll-up may contain at most, and which time it may claim (`wire#rollup-limits`, `wire#arrival-time`)."""

from collections.abc import Callable

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.v1alpha1 import capacity_pb2 as pb
from bigfleet.wire.rollup_limits import (
    MAX_GROUP_BYTES,
    MAX_REQUIREMENTS,
    MAX_ROW_BYTES,
    MAX_VALUES,
    RollupLimits,
    refusal_reason,
)
from bigfleet.wire.rollups import ARRIVAL_WINDOW_NS, Rollup, RollupReader, rollup_to_proto

Spoil = Callable[[pb.CapacityNeed], None]
NOW_NS = 1_700_000_000_000_000_000


def rollup(*rows: pb.CapacityNeed, at_ns: int = NOW_NS) -> bytes:
    return pb.ClusterCapacityNeeds(needs=rows, timestamp_unix_nanos=at_ns).SerializeToString()


def refusal(data: bytes, limits: RollupLimits | None = None) -> InvalidFieldError:
    with pytest.raises(InvalidFieldError) as refused:
        RollupReader("a", limits or RollupLimits()).read(data)
    return refused.value


@pytest.mark.rule("wire#rollup-limits")
def test_too_many_rows_and_too_many_bytes_are_refused_whole_naming_the_flag() -> None:
    rows = [pb.CapacityNeed(priority=place + 1) for place in range(4)]
    error = refusal(rollup(*rows), RollupLimits(rows=3))
    assert str(error) == "needs: found '4 rows', allowed is at most 3 (--max-rows-per-cluster)"
    assert refusal_reason(error) == "rows"
    error = refusal(rollup(*rows), RollupLimits(size_bytes=10))
    assert "--max-rollup-bytes" in str(error)
    assert refusal_reason(error) == "bytes"
    assert len(RollupReader("a", RollupLimits(rows=4)).read(rollup(*rows)).needs) == 4


def _many_requirements(row: pb.CapacityNeed) -> None:
    for _ in range(MAX_REQUIREMENTS + 1):
        row.requirements.add(key="k", operator=3)


def _many_values(row: pb.CapacityNeed) -> None:
    row.requirements.add(key="k", values=[str(number) for number in range(MAX_VALUES + 1)])


def _long_key(row: pb.CapacityNeed) -> None:
    row.requirements.add(key="n" * 64)


def _long_prefix(row: pb.CapacityNeed) -> None:
    row.requirements.add(key="p" * 254 + "/name")


def _long_value(row: pb.CapacityNeed) -> None:
    row.requirements.add(key="k", values=["ok", "v" * 64])


def _long_topology_key(row: pb.CapacityNeed) -> None:
    row.spread.add(topology_key="n" * 64, max_skew=1)


def _negative_skew(row: pb.CapacityNeed) -> None:
    row.spread.add(topology_key="zone", max_skew=-1)


def _long_resource(row: pb.CapacityNeed) -> None:
    row.aggregate_resources["r" * 64] = "1"


def _long_group(row: pb.CapacityNeed) -> None:
    row.group = "g" * (MAX_GROUP_BYTES + 1)


def _large(row: pb.CapacityNeed) -> None:
    row.group = "g" * MAX_ROW_BYTES


@pytest.mark.rule("wire#rollup-limits", "wire#text-lengths")
@pytest.mark.parametrize(
    ("spoil", "field", "reason"),
    [
        (_many_requirements, "needs[1].requirements", "row"),
        (_many_values, "needs[1].requirements[0].values", "row"),
        (_long_key, "needs[1].requirements[0].key", "row"),
        (_long_prefix, "needs[1].requirements[0].key", "row"),
        (_long_value, "needs[1].requirements[0].values[1]", "row"),
        (_long_topology_key, "needs[1].spread[0].topology_key", "row"),
        (_negative_skew, "needs[1].spread[0].max_skew", "invalid"),
        (_long_resource, "needs[1].aggregate_resources", "row"),
        (_long_group, "needs[1].group", "row"),
        (_large, "needs[1]", "row"),
    ],
)
def test_a_row_beyond_its_limits_refuses_the_whole_by_its_field(
    spoil: Spoil, field: str, reason: str
) -> None:
    row = pb.CapacityNeed(priority=5)
    spoil(row)
    error = refusal(rollup(pb.CapacityNeed(), row))
    assert (error.field, refusal_reason(error)) == (field, reason)
    assert len(str(error)) < 1_000


@pytest.mark.rule("wire#text-lengths")
def test_what_kubernetes_and_the_original_send_at_most_is_accepted() -> None:
    row = pb.CapacityNeed(group=f"namespace\0topology.kubernetes.io/zone\0{'app=web,' * 400}")
    key = f"{'p' * 253}/{'n' * 63}"
    types = [f"{number:03}-{'t' * 59}" for number in range(500)]
    row.requirements.add(key=key, operator=1, values=types)
    row.aggregate_resources[key] = "1"
    row.spread.add(topology_key=key, max_skew=0)
    (need,) = RollupReader("a").read(rollup(row)).needs
    assert need.profile.requirements[0].values == tuple(types)
    assert need.group == row.group


@pytest.mark.rule("wire#arrival-time")
@pytest.mark.parametrize("claimed", [-(2**63), 0, 1, NOW_NS - ARRIVAL_WINDOW_NS - 1, 2**63 - 1])
def test_a_time_that_is_not_plausible_gives_no_place_in_the_queue(claimed: int) -> None:
    reader = RollupReader("a", now_ns=lambda: NOW_NS)
    read = reader.read(rollup(pb.CapacityNeed(), at_ns=claimed))
    assert (read.arrival_ns, read.needs[0].arrival_ns) == (NOW_NS, NOW_NS)


@pytest.mark.rule("wire#arrival-time")
@pytest.mark.parametrize("off_ns", [-ARRIVAL_WINDOW_NS, -1, 0, ARRIVAL_WINDOW_NS])
def test_the_time_of_an_operator_whose_clock_is_a_little_off_counts(off_ns: int) -> None:
    reader = RollupReader("a", now_ns=lambda: NOW_NS)
    assert reader.read(rollup(at_ns=NOW_NS + off_ns)).arrival_ns == NOW_NS + off_ns


def test_only_the_rows_of_the_last_roll_up_are_remembered() -> None:
    def numbered(first: int) -> bytes:
        needs = tuple(Need("a", Profile(priority=first + step)) for step in range(10))
        return rollup_to_proto(Rollup("a", 1, needs)).SerializeToString()

    reader = RollupReader("a")
    kept = reader.read(numbered(0)).needs[0].profile
    assert reader.read(numbered(0)).needs[0].profile is kept
    reader.read(numbered(100))
    assert len(reader._seen.rows) == 10
    reader.read(rollup())
    assert not reader._seen.rows
