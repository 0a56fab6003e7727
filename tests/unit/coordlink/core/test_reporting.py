"""What a report says (`shard#shortfalls`, `shard#coordinator-client`, `wire#reports`)."""

from dataclasses import replace

import pytest

from bigfleet.coordlink.core.reporting import report_of, shortfalls_of, summary_of
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.instruction import Ack, Outcome
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.shard_report import MAX_SHORTFALL_TEXT
from bigfleet.model.situation import Situation
from bigfleet.shard.core.views import AgedShortfall
from bigfleet.wire.shard_reports import report_from_proto, report_to_proto
from tests.support.builders import amounts, machine, shape
from tests.support.shard_views import StaticShard, cycle_of

FLEET = (
    machine("a-1", S.IDLE, shape=shape("m5", zone="za")),
    machine("a-2", S.SPECULATIVE, shape=shape("m5", zone="zb")),
    machine("a-3", S.CONFIGURED, shape=shape("g8", zone="za")),
    machine("a-4", S.FAILED, shape=shape("", zone="")),
)


def test_the_summary_counts_every_machine_and_leaves_empty_names_out() -> None:
    summary = summary_of(cycle_of(Situation(0.0, FLEET)).snapshot, "provider.example:9000")
    assert (summary.total_machines, summary.free_machines) == (4, 2)
    assert (summary.idle_machines, summary.speculative_machines) == (1, 1)
    assert summary.per_instance_type == FrozenMap({"g8": 1, "m5": 2})
    assert summary.per_zone == FrozenMap({"za": 2, "zb": 1})
    assert (summary.provider_address, summary.partition_key) == ("provider.example:9000", "")


def test_an_empty_fleet_is_counted_as_such() -> None:
    assert summary_of(cycle_of(Situation(0.0)).snapshot, "").total_machines == 0


def test_before_the_first_cycle_there_is_no_summary_rather_than_zeros() -> None:
    report = report_of(StaticShard().status(), None, number=1, now_ns=77, acks=())
    assert (report.summary, report.shortfalls) == (None, ())
    assert (report.shard_id, report.cycle, report.built_at_ns, report.shard_epoch) == ("shard-0", 1, 77, 3)
    assert report.address == "shard-0.example:7780"


def test_shortfalls_are_those_of_the_ledger_with_all_that_a_rebalancer_asks_for() -> None:
    profile = Profile((Requirement("rack", RequirementOperator.SAME),), priority=900)
    need = Need("a", profile, amounts(gpu=24), amounts(gpu=8), group="g")
    view = cycle_of(Situation(0.0, (), (need,)))
    ack = Ack("i-1", Outcome.ACCEPTED)
    report = report_of(StaticShard().status(), view, number=4, now_ns=1, acks=(ack,))
    (short,) = report.shortfalls
    assert (short.deficit, short.priority, short.age_cycles) == (amounts(gpu=24), 900, 1)
    assert (short.requirements, short.min_unit) == (profile.requirements, amounts(gpu=8))
    assert report.acks == (ack,)
    assert report.summary is not None


def test_at_most_a_hundred_shortfalls_are_reported_and_the_ledgers_order_is_kept() -> None:
    ledger = [AgedShortfall(Profile(priority=500 - place), amounts(cpu=1), 1) for place in range(130)]
    reported = shortfalls_of(ledger)
    assert [item.priority for item in reported] == [500 - place for place in range(100)]


@pytest.mark.rule("wire#report-size")
def test_shortfalls_that_do_not_fit_are_left_out_and_counted_and_shorter_ones_behind_them_are_not() -> None:
    def short(priority: int, value: str) -> AgedShortfall:
        wants = Requirement("rack", RequirementOperator.IN, tuple(f"{value}-{n}" for n in range(1000)))
        return AgedShortfall(Profile((wants,), priority=priority), amounts(cpu=1), 1)

    long = [short(900 - place, "v" * 59) for place in range(6)]
    ledger = (*long, AgedShortfall(Profile(priority=1), amounts(cpu=1), 1))
    view = replace(cycle_of(Situation(0.0)), shortfalls=ledger)
    report = report_of(StaticShard().status(), view, number=1, now_ns=1, acks=())
    assert [item.priority for item in report.shortfalls] == [900, 899, 898, 897, 1]
    assert report.shortfalls_left_out == 2
    message = report_to_proto(report)
    assert message.ByteSize() < 2 * MAX_SHORTFALL_TEXT
    assert report_from_proto(message).shortfalls_left_out == 2


@pytest.mark.rule("wire#report-size")
def test_of_many_types_and_zones_those_with_the_most_machines_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bigfleet.coordlink.core.reporting.MAX_COUNTED_NAMES", 1)
    summary = summary_of(cycle_of(Situation(0.0, FLEET)).snapshot, "")
    assert (summary.per_instance_type, summary.per_zone) == (FrozenMap({"m5": 2}), FrozenMap({"za": 2}))
    assert (summary.instance_types_left_out, summary.zones_left_out) == (1, 1)
