"""What a report says (`shard#shortfalls`, `shard#coordinator-client`, `wire#reports`)."""

from bigfleet.coordlink.core.reporting import report_of, shortfalls_of, summary_of
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.instruction import Ack, Outcome
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import Situation
from bigfleet.shard.core.views import AgedShortfall
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
