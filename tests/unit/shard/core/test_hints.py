"""Capacity hints for clusters (`shard#hints`)."""

from collections.abc import Sequence

import pytest

from bigfleet.model.demand import ClusterNeeds
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.profile import INSTANCE_TYPE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.shard.core.hints import BURST, PER_SECOND, Confidence, FreeSupply, Hint, HintLedger
from tests.support.builders import amounts, machine, shape

S = MachineState


def supply(*machines: Machine) -> FreeSupply:
    inventory = Inventory()
    for each in machines:
        inventory.insert(each, None)
    return FreeSupply(inventory.snapshot())


def pinned(*types: str) -> Profile:
    return Profile(requirements=(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, types),))


def part(*profiles: Profile) -> dict[str, ClusterNeeds]:
    rows = [Need("prod", profile, amounts(cpu=1)) for profile in profiles]
    return {"prod": ClusterNeeds("prod", rows, [(place,) for place in range(len(rows))])}


SIZE = FrozenMap({"cpu": "4", "memory": "16Gi"})  # of a shape of the builders
FREE = supply(
    machine("i-1", S.IDLE, shape=shape("big", price=4.0)),
    machine("i-2", S.IDLE, shape=shape("big", zone="z2", price=3.0)),
    machine("s-1", S.SPECULATIVE, shape=shape("small", price=1.0)),
    machine("c-1", S.CONFIGURED, shape=shape("big", price=0.5)),
)


def test_types_that_are_named_are_counted_alone_with_the_cheapest_idle_one() -> None:
    assert FREE.hint(pinned("big")) == Hint(2, Confidence.HIGH, 3.0, SIZE)
    assert FREE.hint(pinned("small")) == Hint(1, Confidence.MEDIUM, 0.0, SIZE)
    assert FREE.hint(pinned("big", "small")) == Hint(3, Confidence.HIGH, 3.0, SIZE)
    assert FREE.hint(pinned("unheard-of")) == Hint(0, Confidence.NONE, 0.0)


@pytest.mark.rule("shard#hints")
def test_a_hint_names_what_each_counted_machine_offers_at_least() -> None:
    def sized(name: str, kind: str, **texts: str) -> Machine:
        return machine(name, S.IDLE, shape=shape(kind, resources=texts))

    free = supply(
        sized("a", "big", cpu="8", memory="32Gi", gpu="1"),
        sized("b", "big", cpu="8", memory="30Gi"),
        sized("c", "small", cpu="7500m", memory="64Gi"),
    )
    assert free.hint(pinned("small")).resources == FrozenMap({"cpu": "7500m", "memory": "64Gi"})
    assert free.hint(pinned("big")).resources == FrozenMap({"cpu": "8", "memory": "30Gi"})
    assert free.hint(Profile()).resources == FrozenMap({"cpu": "7500m", "memory": "30Gi"})
    assert free.hint(pinned("unheard-of")).resources == FrozenMap({})
    other = supply(sized("a", "big", cpu="4"), sized("b", "big", cpu="4"), sized("c", "small", cpu="4"))
    assert free != other  # so that a cluster hears of sizes that changed with equal counts and prices


def test_without_named_types_everything_free_counts_and_no_price_is_told() -> None:
    assert FREE.hint(Profile()) == Hint(3, Confidence.HIGH, 0.0, SIZE)
    excluded = Profile(requirements=(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.NOT_IN, ("big",)),))
    assert FREE.hint(excluded) == Hint(3, Confidence.HIGH, 0.0, SIZE)


def told(
    book: HintLedger,
    free: FreeSupply,
    demand: dict[str, ClusterNeeds],
    now: float,
    sessions: Sequence[str] = ("prod",),
) -> int:
    return len(list(book.due(free, demand, sessions, now)))


@pytest.mark.rule("shard#hints")
def test_an_unchanged_hint_is_silent_and_a_change_waits_for_its_interval() -> None:
    book, demand = HintLedger(5.0), part(pinned("big"))
    fewer = supply(machine("i-1", S.IDLE, shape=shape("big")))
    assert told(book, FREE, demand, 0.0) == 1
    assert told(book, FREE, demand, 60.0) == 0
    assert told(book, fewer, demand, 60.0) == 1
    assert told(book, FREE, demand, 64.9) == 0  # a change inside the interval is silent
    assert told(book, fewer, demand, 65.0) == 0  # and was never queued
    assert told(book, FREE, demand, 65.0) == 1


@pytest.mark.rule("shard#hints")
def test_after_a_reconnect_everything_is_told_again() -> None:
    book, demand = HintLedger(5.0), part(pinned("big"), Profile())
    assert told(book, FREE, demand, 0.0) == 2
    book.forget("prod")
    assert told(book, FREE, demand, 1.0) == 2


def test_only_clusters_with_demand_and_a_session_are_told() -> None:
    book = HintLedger(5.0)
    assert told(book, FREE, part(Profile()), 0.0, sessions=()) == 0
    assert told(book, FREE, {}, 0.0) == 0


def test_new_demand_is_told_at_once_and_what_was_told_is_not_repeated() -> None:
    book = HintLedger(5.0)
    assert told(book, FREE, part(pinned("big")), 0.0) == 1
    hints = list(book.due(FREE, part(pinned("big"), pinned("small")), ["prod"], 1.0))
    assert [profile for _, profile, _ in hints] == [pinned("small")]


def test_a_supply_that_is_equal_costs_nothing_to_look_at_again() -> None:
    book, demand = HintLedger(5.0), part(pinned("big"))
    same = supply(*(machine(f"i-{n}", S.IDLE, shape=shape("big", price=4.0)) for n in (1, 2)))
    other = supply(*(machine(f"i-{n}", S.IDLE, shape=shape("big", price=4.0)) for n in (3, 4)))
    assert same == other
    assert told(book, same, demand, 0.0) == 1
    assert told(book, other, demand, 60.0) == 0


def test_changes_have_a_budget_clusters_take_turns_and_first_hints_are_told_at_once() -> None:
    book, clusters = HintLedger(5.0), [f"c{number:04d}" for number in range(3000)]
    rows = [Need("any", pinned("big"), amounts(cpu=1))]
    demand = {name: ClusterNeeds(name, rows, [(0,)]) for name in clusters}
    assert len(list(book.due(FREE, demand, clusters, 0.0))) == 3000
    fewer = supply(machine("i-1", S.IDLE, shape=shape("big")))
    heard = [cluster for cluster, _, _ in book.due(fewer, demand, clusters, 100.0)]
    assert heard == clusters[:BURST]
    heard += [cluster for cluster, _, _ in book.due(fewer, demand, clusters, 102.0)]
    assert heard == clusters[: BURST + 2 * PER_SECOND]
    for second in range(103, 120):
        heard += [cluster for cluster, _, _ in book.due(fewer, demand, clusters, float(second))]
    assert heard == clusters


@pytest.mark.rule("shard#hints")
def test_a_hint_is_remembered_as_long_as_its_profile_is_asked_for() -> None:
    ledger = HintLedger(5.0)
    for number in range(50):
        profiles = [pinned(f"type-{number}"), pinned("big")]
        sent = list(ledger.due(FREE, part(*profiles), ["prod"], float(number)))
        assert len(sent) == (2 if number == 0 else 1)  # the one that stays is not repeated
        assert ledger.remembered("prod") == 2
    assert list(ledger.due(FREE, {}, ["prod"], 60.0)) == []
    assert ledger.remembered("prod") == 0


@pytest.mark.rule("shard#hints")
def test_the_first_profiles_of_a_cluster_get_hints_and_the_others_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bigfleet.shard.core.hints.PROFILES", 3)
    ledger = HintLedger(5.0)
    many = part(*(pinned(f"type-{number}") for number in range(10)))
    assert len(list(ledger.due(FREE, many, ["prod"], 0.0))) == 3
