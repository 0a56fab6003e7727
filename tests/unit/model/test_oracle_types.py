"""Oracle rows A-01 to A-20, as `engine#examples` changes them: types and arithmetic."""

import math
from dataclasses import replace

import pytest

from bigfleet.model import buckets
from bigfleet.model.buckets import PenaltyBucket, bucket_of, upper_bound
from bigfleet.model.costs import drain_grace_s, effective_cost, victim_cost
from bigfleet.model.errors import IllegalTransitionError, InvalidFieldError, InvariantError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import (
    NO_HOST,
    Assignment,
    HostRef,
    Machine,
    MachineState,
    Shape,
    check,
    check_transition,
)
from bigfleet.model.need import Need, aggregate
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread
from bigfleet.model.resources import Resources
from tests.support.builders import amounts, assigned, machine, shape

S = MachineState


@pytest.mark.rule("engine#penalty-buckets")
@pytest.mark.parametrize(
    ("dollars", "ordinal"),
    [
        (-5, 1), (0, 1), (0.25, 2), (0.50, 2), (0.51, 3), (1, 3), (1.01, 4), (2, 4), (8000, 16), (8192, 16),
        (8192.01, 17), (1048576, 23), (8388608, 26), (8388608.01, 27), (20000000, 27), (math.nan, 27),
    ],
)  # fmt: skip
def test_dollars_go_into_the_first_bucket_whose_bound_is_not_smaller(dollars: float, ordinal: int) -> None:
    assert bucket_of(dollars) == ordinal


@pytest.mark.rule("engine#penalty-buckets")
@pytest.mark.parametrize(
    ("ordinal", "bound"),
    [(0, 0), (1, 0), (2, 0.5), (3, 1), (4, 2), (16, 8192), (23, 1048576), (26, 8388608), (27, math.inf)],
)
def test_the_upper_bound_of_a_bucket(ordinal: int, bound: float) -> None:
    assert upper_bound(PenaltyBucket(ordinal)) == bound


BASE = Profile(
    requirements=(
        Requirement("zone", RequirementOperator.IN, ("b", "a")),
        Requirement("gen", RequirementOperator.EXISTS),
    ),
    priority=100,
)


@pytest.mark.rule("engine#fingerprint")
def test_order_of_requirements_and_values_does_not_matter() -> None:
    other = Profile(
        requirements=(
            Requirement("gen", RequirementOperator.EXISTS),
            Requirement("zone", RequirementOperator.IN, ("a", "b")),
        ),
        priority=100,
    )
    assert other.fingerprint == BASE.fingerprint
    assert other == BASE


@pytest.mark.rule("engine#fingerprint")
def test_every_part_of_a_profile_makes_another_fingerprint() -> None:
    others = [
        replace(BASE, priority=101),
        replace(BASE, interruption_bucket=PenaltyBucket(5)),
        replace(BASE, reclamation_bucket=PenaltyBucket(5)),
        replace(BASE, requirements=(*BASE.requirements, Requirement("arch", RequirementOperator.EXISTS))),
        replace(BASE, spreads=(Spread("zone", 1),)),
    ]
    assert len({profile.fingerprint for profile in (BASE, *others)}) == 6


def row(cluster: str, priority: int, cpu: int, unit: int = 0, arrival_ns: int = 0) -> Need:
    return Need(cluster, Profile(priority=priority), amounts(cpu=cpu), amounts(cpu=unit), arrival_ns)


@pytest.mark.rule("engine#aggregation")
def test_rows_of_one_kind_add_up_and_units_take_the_maximum() -> None:
    rows = [
        row("a", 100, 1, 1), row("a", 100, 1, 1), row("a", 100, 3, 3), row("b", 100, 2, 2), row("a", 200, 4, 4),
    ]  # fmt: skip
    assert aggregate(rows) == [row("a", 100, 5, 3), row("b", 100, 2, 2), row("a", 200, 4, 4)]


@pytest.mark.rule("engine#aggregation")
def test_the_smallest_arrival_that_is_known_counts() -> None:
    rows = [row("a", 100, 1, arrival_ns=arrival) for arrival in (0, 300, 100)]
    assert [need.arrival_ns for need in aggregate(rows)] == [100]


@pytest.mark.rule("engine#needs-table")
def test_a_roll_up_replaces_everything_its_cluster_asked_for() -> None:
    table = NeedsTable()
    sizes = []
    for rows in ([row("a", 1, 1), row("a", 2, 1)], [row("a", 3, 1)], []):
        table.replace("a", rows)
        sizes.append(len(table))
    assert sizes == [2, 1, 0]
    assert table.clusters == ()


@pytest.mark.rule("engine#needs-table")
def test_order_is_priority_then_arrival() -> None:
    table = NeedsTable()
    table.replace("a", [row("a", 0, 1, arrival_ns=30), row("a", 1_000_000, 1, arrival_ns=20)])
    table.replace("b", [row("b", 500_000, 1, arrival_ns=10), row("b", 1_000_000, 1, arrival_ns=5)])
    order = [(need.cluster, need.profile.priority) for need in table.snapshot()]
    assert order == [("b", 1_000_000), ("a", 1_000_000), ("b", 500_000), ("a", 0)]


@pytest.mark.rule("engine#needs-table")
def test_equals_go_by_cluster_and_rows_of_one_cluster_stay_as_sent() -> None:
    table = NeedsTable()
    for cluster in ("c", "a", "b"):
        table.replace(cluster, [row(cluster, 1, 2), row(cluster, 1, 1)])
    order = [(need.cluster, need.total) for need in table.snapshot()]
    assert order == [(cluster, amounts(cpu=cpu)) for cluster in "abc" for cpu in (2, 1)]


@pytest.mark.rule("engine#needs-table")
def test_a_snapshot_never_changes() -> None:
    table = NeedsTable()
    table.replace("a", [row("a", 1, 1)])
    first = table.snapshot()
    table.replace("a", [row("a", 1, 2)])
    assert [need.total for need in first] == [amounts(cpu=1)]
    assert [need.total for need in table.snapshot()] == [amounts(cpu=2)]


@pytest.mark.rule("engine#vectors")
@pytest.mark.parametrize(
    ("want", "covered"),
    [({}, True), ({"gpu": "0"}, True), ({"gpu": "1"}, False), ({"cpu": "4000m"}, True)],
)
def test_cover_looks_at_the_dimensions_that_are_wanted(want: dict[str, str], covered: bool) -> None:
    assert amounts(cpu=4).covers(Resources.parse(want)) is covered


@pytest.mark.rule("engine#vectors")
def test_an_unreadable_quantity_is_refused_and_never_counts_as_zero() -> None:
    with pytest.raises(InvalidFieldError, match=r"\[cpu\]: found 'x', allowed is a Kubernetes quantity"):
        Resources.parse({"cpu": "x"})


@pytest.mark.rule("engine#vectors")
def test_subtraction_stops_at_zero() -> None:
    left = amounts(cpu=4, mem="1Gi") - amounts(cpu=16, gpu=8)
    assert left == amounts(cpu=0, mem="1Gi", gpu=0)
    assert not left.is_zero


@pytest.mark.rule("engine#capacity")
def test_allocatable_counts_as_a_whole() -> None:
    capacity = shape(resources={"cpu": "1", "memory": "4Gi"}, allocatable={"cpu": "16"}).capacity
    assert capacity == amounts(cpu=16)
    assert capacity.amount("memory") == 0


@pytest.mark.rule("engine#effective-cost")
@pytest.mark.parametrize(
    ("price", "probability", "penalty", "cost"),
    [
        (1.80, 0.10, 5, 2.30),
        (1.80, 0.10, 50, 6.80),
        (1.80, 0.10, -3, 1.80),
        (6, 0, 100, 6.0),
        (6, 0, math.inf, 6.0),
    ],
)
def test_effective_cost(price: float, probability: float, penalty: float, cost: float) -> None:
    assert effective_cost(price, probability, penalty) == pytest.approx(cost)


@pytest.mark.rule("engine#drain-grace")
@pytest.mark.parametrize(
    ("victim", "seconds"),
    [
        (0, 10), (99_999, 10), (100_000, 30), (100_001, 30), (499_999, 30), (500_000, 120), (500_001, 120),
        (899_999, 120), (900_000, 600), (900_001, 600), (1_000_000, 600),
    ],
)  # fmt: skip
def test_drain_grace_gets_shorter_as_the_gap_gets_wider(victim: int, seconds: int) -> None:
    assert drain_grace_s(1_000_000, victim) == seconds


@pytest.mark.rule("engine#drain-grace")
def test_priorities_far_apart_do_not_wrap_around() -> None:
    assert drain_grace_s(2**31 - 1, -(2**31)) == 10


@pytest.mark.rule("engine#victim-cost")
@pytest.mark.parametrize(
    ("stamp", "cost"),
    [(assigned(400_000, 5, 1), 6), (assigned(), 0), (assigned(999_999, math.inf, math.inf), math.inf)],
)
def test_a_victim_costs_its_penalties(stamp: Assignment, cost: float) -> None:
    assert victim_cost(machine(state=S.CONFIGURED, assigned=stamp)) == cost


@pytest.mark.rule("engine#victim-cost")
def test_remaining_drain_grace_is_paid_by_the_hour() -> None:
    draining_long = machine(state=S.CONFIGURED, shape=shape(price=4.0), drain_grace_remaining_s=1800)
    assert victim_cost(draining_long) == 2.0


@pytest.mark.rule("engine#transitions")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (S.SPECULATIVE, S.IDLE), (S.CONFIGURED, S.IDLE), (S.CONFIGURED, S.CONFIGURING),
        (S.FAILED, S.IDLE), (S.IDLE, S.FAILED), (S.IDLE, S.CONFIGURED),
    ],
)  # fmt: skip
def test_a_skipped_step_is_refused(before: MachineState, after: MachineState) -> None:
    with pytest.raises(IllegalTransitionError, match=f"machine m-1: {before.label} to {after.label}"):
        check_transition("m-1", before, after)


@pytest.mark.rule("engine#transitions")
@pytest.mark.parametrize(
    ("before", "after"),
    [(S.CONFIGURING, S.IDLE), (S.DELETING, S.SPECULATIVE), (S.DRAINING, S.FAILED), (S.IDLE, S.IDLE)],
)
def test_a_legal_step_passes(before: MachineState, after: MachineState) -> None:
    check_transition("m-1", before, after)


@pytest.mark.rule("engine#machine-invariants")
@pytest.mark.parametrize(
    ("record", "field"),
    [
        (machine(state=S.IDLE, host=NO_HOST), "host"),
        (machine(state=S.CONFIGURED, cluster=""), "cluster"),
        (machine(state=S.CONFIGURING, cluster=""), "cluster"),
        (machine(state=S.CREATING, host=HostRef("p", "h")), "host"),
        (machine(state=S.FAILED, last_error=""), "last_error"),
        (machine(shape=shape(probability=1.01)), "interruption_probability"),
        (machine(shape=shape(probability=math.nan)), "interruption_probability"),
        (machine(shape=shape(price=-1)), "price_per_hour"),
        (machine(shape=shape(price=math.nan)), "price_per_hour"),
        (machine(shape=shape(price=math.inf)), "price_per_hour"),
        (machine(shape=shape(resources={"cpu": "x"})), "resources[cpu]"),
        (machine(shape=shape(allocatable={"cpu": "-1"})), "allocatable[cpu]"),
        (machine(state=S.UNSPECIFIED), "state"),
        (machine(""), "id"),
    ],
)
def test_a_record_that_cannot_be_true_is_refused_by_the_name_of_its_field(
    record: Machine, field: str
) -> None:
    with pytest.raises(InvariantError) as refused:
        check(record)
    assert refused.value.field == field


@pytest.mark.rule("engine#machine-invariants")
def test_a_creating_machine_may_carry_the_stamp_of_its_need() -> None:
    check(machine(state=S.CREATING, assigned=assigned(fingerprint="p=1", group="g", cluster="a")))


def test_bucket_labels_are_those_of_the_metrics() -> None:
    labels = [buckets.label_of(bucket) for bucket in buckets.ALL_BUCKETS]
    assert labels[:5] == ["unspecified", "0", "0.5", "1", "2"]
    assert labels[-2:] == ["8388608", "pinned"]
    assert len(set(labels)) == 28


def test_equal_shapes_are_one_shape() -> None:
    assert Shape(labels=FrozenMap({"a": "1", "b": "2"})) == Shape(labels=FrozenMap([("b", "2"), ("a", "1")]))
