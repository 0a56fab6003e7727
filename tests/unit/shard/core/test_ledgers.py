"""What is remembered between cycles: parking, shortfalls, hold-offs, first sightings.

Rules: `shard#parking`, `shard#shortfalls`, `shard#provisioning-latency`, `shard#blob-back-off`.
"""

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.decision import Verdict
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import GangRef
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.bootstrap_backoff import BootstrapBackoffs
from bigfleet.shard.core.latency import FirstSeen
from bigfleet.shard.core.parking import ParkingLedger
from bigfleet.shard.core.shortfalls import ShortfallLedger, Unmet, age_class, priority_class
from bigfleet.shard.metrics import SHARD_METRICS, show_shortfalls
from tests.support.builders import amounts

RACK = Requirement("rack", RequirementOperator.SAME)
GANG = Need("prod", Profile(requirements=(RACK,)), amounts(cpu=64), group="train")
REF = GangRef("prod", "train", GANG.profile.fingerprint)


def verdict(need: Need = GANG, *, acquired: tuple[str, ...] = (), satisfiable: bool = False) -> Verdict:
    return Verdict(
        need, (0,), deficit=amounts(cpu=1), bootstrapped=acquired, structurally_satisfiable=satisfiable
    )


@pytest.mark.rule("shard#parking")
def test_a_gang_is_parked_after_eight_cycles_and_tries_again_at_thirty_two() -> None:
    ledger, parked_at = ParkingLedger(), []
    for age in range(1, 70):
        ledger.decided([verdict()])
        if REF in ledger.parked():
            parked_at.append(age)
    assert parked_at == [age for age in range(8, 70) if age not in (32, 64)]


@pytest.mark.rule("shard#parking")
@pytest.mark.parametrize(
    "progress",
    [
        pytest.param([verdict(acquired=("m-1",))], id="acquired something"),
        pytest.param([verdict(satisfiable=True)], id="a domain could hold it"),
        pytest.param([], id="satisfied, or no longer wanted"),
    ],
)
def test_progress_is_forgotten_about(progress: list[Verdict]) -> None:
    ledger = ParkingLedger()
    for _ in range(9):
        ledger.decided([verdict()])
    ledger.decided(progress)
    assert not ledger.ages


@pytest.mark.rule("shard#parking")
def test_only_gangs_are_parked() -> None:
    ledger = ParkingLedger()
    ledger.decided([verdict(Need("prod", Profile(), amounts(cpu=1)))])
    assert not ledger.ages


def unmet(cluster: str, cpu: int, priority: int = 0, unit: int = 0) -> Unmet:
    need = Need(cluster, Profile(priority=priority), amounts(cpu=cpu), amounts(cpu=unit))
    return Unmet(need, amounts(cpu=cpu))


@pytest.mark.rule("shard#shortfalls")
def test_deficits_of_a_fingerprint_are_summed_and_aged_once_per_cycle() -> None:
    ledger = ShortfallLedger()
    ledger.decided([unmet("a", 4, unit=2), unmet("b", 2, unit=1)])
    ledger.decided([unmet("a", 4, unit=2), unmet("b", 2, unit=1)])
    (entry,) = ledger.in_order()
    assert (entry.deficit, entry.age_cycles, entry.min_unit) == (amounts(cpu=6), 2, amounts(cpu=2))
    ledger.decided([])
    assert len(ledger) == 0
    ledger.decided([unmet("a", 4)])
    assert ledger.in_order()[0].age_cycles == 1


@pytest.mark.rule("shard#shortfalls")
def test_shortfalls_are_ordered_by_priority_then_age_then_fingerprint() -> None:
    ledger = ShortfallLedger()
    ledger.decided([unmet("a", 1, priority=5)])
    bucket = Need("a", Profile(priority=5, interruption_bucket=PenaltyBucket(9)), amounts(cpu=1))
    ledger.decided([unmet("a", 1, priority=5), unmet("a", 1, priority=9), Unmet(bucket, amounts(cpu=1))])
    found = [(entry.profile.priority, entry.age_cycles) for entry in ledger.in_order()]
    assert found == [(9, 1), (5, 2), (5, 1)]


def test_classes_of_ages_and_priorities() -> None:
    assert [age_class(age) for age in (1, 9, 10, 59, 60, 299, 300)] == [
        "1-9", "1-9", "10-59", "10-59", "60-299", "60-299", "300+",
    ]  # fmt: skip
    found = [priority_class(priority) for priority in (1_000_000, 999_999, 1_000, 999, 100, 99, -1)]
    assert found == ["critical", "service", "service", "batch", "batch", "other", "other"]


@pytest.mark.rule("shard#blob-back-off")
def test_a_failing_blob_is_held_off_for_five_seconds_doubling_to_five_minutes() -> None:
    holds, now, waits = BootstrapBackoffs(), 0.0, []
    for _ in range(9):
        holds.failed("prod", "fp", "template broken", now)
        began = now
        while not holds.admits("prod", "fp", now):
            now += 1.0
        waits.append(now - began)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.rule("shard#blob-back-off")
def test_errors_that_began_together_count_once_and_one_attempt_is_let_through() -> None:
    holds = BootstrapBackoffs()
    for _ in range(10):
        holds.failed("prod", "fp", "template broken", 0.0)
    assert not holds.admits("prod", "fp", 4.9)
    assert holds.admits("prod", "fp", 5.0)
    assert not holds.admits("prod", "fp", 5.0)
    assert holds.admits("prod", "fp", 10.0)  # the attempt came to nothing, which is no error of the template


@pytest.mark.rule("shard#blob-back-off")
def test_a_success_ends_it_and_others_are_not_held() -> None:
    holds = BootstrapBackoffs()
    holds.failed("prod", "fp", "template broken", 0.0)
    assert holds.admits("prod", "other", 0.0)
    assert holds.admits("other", "fp", 0.0)
    assert holds.views()["prod", "fp"].error == "template broken"
    holds.worked("prod", "fp")
    assert holds.admits("prod", "fp", 0.0)
    assert len(holds) == 0


def test_the_wait_for_a_machine_is_measured_from_the_first_roll_up_that_asked() -> None:
    seen = FirstSeen()
    seen.reported("prod", ["a", "b"], 10.0)
    seen.reported("prod", ["a", "b"], 20.0)
    assert seen.configured("prod", "a", 25.0) == 15.0
    assert seen.configured("prod", "a", 26.0) is None  # used once
    seen.reported("prod", ["a"], 30.0)  # starts again, and b is forgotten
    assert seen.configured("prod", "a", 31.0) == 1.0
    assert seen.configured("prod", "b", 31.0) is None
    assert seen.configured("elsewhere", "a", 31.0) is None


@pytest.mark.rule("shard#shortfalls")
def test_the_classes_count_the_first_hundred_and_the_plain_gauge_all() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(SHARD_METRICS, registry, version="t", commit="t")
    ledger = ShortfallLedger()
    ledger.decided([unmet("a", 1, priority=place) for place in range(130)])
    show_shortfalls(metrics, ledger.in_order())
    assert registry.get_sample_value("bigfleet_shard_shortfalls") == 130
    by_age = registry.get_sample_value("bigfleet_shard_shortfalls_aged", {"bucket": "1-9"})
    by_priority = {
        label: registry.get_sample_value("bigfleet_shard_shortfalls_by_priority", {"priority_class": label})
        for label in ("batch", "other")
    }
    assert by_age == 100
    assert by_priority == {"batch": 30, "other": 70}  # the highest priorities are those reported


@pytest.mark.rule("shard#ledger-ages")
def test_a_cycle_that_does_not_count_enters_a_shortfall_and_makes_none_older() -> None:
    ledger = ShortfallLedger()
    short = [Unmet(GANG, amounts(cpu=4))]
    ages: list[int] = []
    for counts in (False, False, True, False, True):
        ledger.decided(short, ages=counts)
        ages += ledger.ages.values()
    assert ages == [1, 1, 1, 1, 2]


@pytest.mark.rule("shard#ledger-ages")
def test_a_cycle_that_does_not_count_brings_no_gang_closer_to_being_parked() -> None:
    ledger = ParkingLedger()
    for _ in range(100):
        ledger.decided([verdict()], ages=False)
    assert ledger.ages == {REF: 0}
    for _ in range(7):
        ledger.decided([verdict()])
    assert ledger.parked() == frozenset()
