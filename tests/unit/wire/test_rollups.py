"""A roll-up is taken whole or refused whole, the refusal naming row and field (`wire#rollup-all-or-nothing`)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.v1alpha1 import capacity_pb2 as pb
from bigfleet.wire.rollups import SLICE_BYTES, SLICE_ROWS, Rollup, RollupReader, rollup_to_proto
from tests.support.builders import amounts

NEED = Need(
    "a",
    Profile(
        requirements=(
            Requirement("zone", RequirementOperator.SAME),
            Requirement("gen", RequirementOperator.NOT_IN, ("5", "4")),
        ),
        spreads=(Spread("rack", 2, WhenUnsatisfiable.DO_NOT_SCHEDULE),),
        priority=1000,
        interruption_bucket=PenaltyBucket(16),
        reclamation_bucket=PenaltyBucket(27),
    ),
    total=amounts(cpu="96", memory="768Gi"),
    unit=amounts(cpu="500m"),
    arrival_ns=77,
    group="gang-1",
)
LIMITED = replace(NEED, max_units=3, for_fragments=True)
ROLLUP = Rollup("a", 77, (NEED, NEED, LIMITED, replace(LIMITED, for_fragments=False)))


def test_a_roll_up_comes_back_as_it_was_sent() -> None:
    reader = RollupReader("a")
    data = rollup_to_proto(ROLLUP).SerializeToString()
    assert reader.read(data) == ROLLUP
    assert reader.read(data) == ROLLUP  # from memory this time


def test_an_empty_roll_up_means_no_demand() -> None:
    assert RollupReader("a").read(rollup_to_proto(Rollup("a", 5, ())).SerializeToString()).needs == ()


def test_an_empty_cluster_is_filled_in_and_another_one_refused() -> None:
    message = rollup_to_proto(ROLLUP)
    message.cluster_id = ""
    assert RollupReader("a").read(message.SerializeToString()) == ROLLUP
    message.cluster_id = "b"
    with pytest.raises(InvalidFieldError, match="cluster_id: found 'b', allowed is empty or 'a'"):
        RollupReader("a").read(message.SerializeToString())


def _operator_6(need: pb.CapacityNeed) -> None:
    need.requirements[1].operator = 6  # type: ignore[assignment]  # an open enum takes any number


def _bucket_28(need: pb.CapacityNeed) -> None:
    need.interruption_penalty_bucket = 28  # type: ignore[assignment]


def _bucket_below(need: pb.CapacityNeed) -> None:
    need.reclamation_penalty_bucket = -1  # type: ignore[assignment]


def _quantity(need: pb.CapacityNeed) -> None:
    need.aggregate_resources["cpu"] = "12x"


def _unit(need: pb.CapacityNeed) -> None:
    need.min_unit["memory"] = ""


def _limit_without_unit(need: pb.CapacityNeed) -> None:
    need.ClearField("min_unit")
    need.max_units_per_machine = 1


def _limit_of_nothing(need: pb.CapacityNeed) -> None:
    need.min_unit["cpu"] = "0"
    need.max_units_per_machine = 1


def _limit_below(need: pb.CapacityNeed) -> None:
    need.max_units_per_machine = -1


def _negative(need: pb.CapacityNeed) -> None:
    need.aggregate_resources["cpu"] = "-1"


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (_operator_6, "needs[1].requirements[1].operator"),
        (_bucket_28, "needs[1].interruption_penalty_bucket"),
        (_bucket_below, "needs[1].reclamation_penalty_bucket"),
        (_quantity, "needs[1].aggregate_resources[cpu]"),
        (_unit, "needs[1].min_unit[memory]"),
        (_negative, "needs[1].aggregate_resources[cpu]"),
        (_limit_without_unit, "needs[1].max_units_per_machine"),
        (_limit_of_nothing, "needs[1].max_units_per_machine"),
        (_limit_below, "needs[1].max_units_per_machine"),
    ],
)
def test_one_bad_row_refuses_the_whole(spoil: Callable[[pb.CapacityNeed], None], field: str) -> None:
    message = rollup_to_proto(ROLLUP)
    spoil(message.needs[1])
    with pytest.raises(InvalidFieldError) as refused:
        RollupReader("a").read(message.SerializeToString())
    assert refused.value.field == field


def test_operator_0_reads_and_never_holds_and_an_unknown_when_binds_nothing() -> None:
    message = rollup_to_proto(Rollup("a", 1, (NEED,)))
    message.needs[0].requirements[0].operator = 0  # type: ignore[assignment]
    message.needs[0].spread[0].when_unsatisfiable = 9  # type: ignore[assignment]
    (need,) = RollupReader("a").read(message.SerializeToString()).needs
    assert need.profile.requirements[0].operator is RequirementOperator.UNSPECIFIED
    assert need.profile.spreads[0].when_unsatisfiable is WhenUnsatisfiable.UNSPECIFIED


@pytest.mark.parametrize("data", [b"\xff", b"\x1a\x05ab", b"\x1a\x02\xff\xff"])
def test_bytes_that_are_no_roll_up_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidFieldError, match="an encoded"):
        RollupReader("a").read(data)


def test_the_memory_of_rows_is_bounded() -> None:
    reader = RollupReader("a")
    for start in range(0, 10_000, 1000):
        needs = tuple(Need("a", Profile(priority=start + step), arrival_ns=1) for step in range(1000))
        assert len(reader.read(rollup_to_proto(Rollup("a", 1, needs)).SerializeToString()).needs) == 1000
    assert len(reader._seen.rows) <= 4096


@pytest.mark.rule("shard#ingest-share")
def test_a_large_roll_up_is_read_in_slices_to_the_same_needs() -> None:
    needs = tuple(Need("a", Profile(priority=row), arrival_ns=1) for row in range(2 * SLICE_ROWS + 1))
    data = rollup_to_proto(Rollup("a", 1, needs)).SerializeToString()
    reading = RollupReader("a").in_slices(data)
    next(reading)
    next(reading)
    with pytest.raises(StopIteration) as end:
        next(reading)
    assert end.value.value == RollupReader("a").read(data) == Rollup("a", 1, needs)


def test_rows_that_are_long_are_read_in_slices_of_a_mebibyte() -> None:
    long = tuple(Need("a", Profile(priority=row), arrival_ns=1, group="g" * 15_000) for row in range(200))
    data = rollup_to_proto(Rollup("a", 1, long)).SerializeToString()
    reading = RollupReader("a").in_slices(data)
    assert len(list(reading)) == len(data) // SLICE_BYTES == 2


def test_a_bad_row_of_a_later_slice_is_named_by_its_place_in_the_whole() -> None:
    message = rollup_to_proto(Rollup("a", 1, (Need("a", Profile()),) * (SLICE_ROWS + 3)))
    message.needs[SLICE_ROWS + 1].aggregate_resources["cpu"] = "12x"
    with pytest.raises(InvalidFieldError, match=rf"^needs\[{SLICE_ROWS + 1}\]"):
        RollupReader("a").read(message.SerializeToString())
