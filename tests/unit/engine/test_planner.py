"""What a planner keeps, and every reason for which it must not keep it.

Each test changes one thing between two cycles and compares with a planner that has seen nothing.
"""

import gc
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np
import pytest

from bigfleet.engine.planner import Planner
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision, Reason
from bigfleet.model.inventory import Inventory, SnapshotMask
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import HOST_NAME_KEY, ZONE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import GangRef, IdleHolds
from tests.support.builders import amounts, assigned, machine, shape

S = MachineState


@dataclass
class World:
    """An inventory, demand, and a planner that sees every change."""

    planner: Planner = field(default_factory=Planner)
    inventory: Inventory = field(default_factory=Inventory)
    table: NeedsTable = field(default_factory=NeedsTable)
    mask: SnapshotMask = field(default_factory=SnapshotMask)
    left_out: tuple[int, ...] = ()  # rows
    parked: frozenset[GangRef] = frozenset()
    reported: frozenset[str] | None = None
    now: float = 0.0

    def has(self, *machines: Machine) -> "World":
        for item in machines:
            self.inventory.insert(item, self.now)
        return self

    def wants(self, *needs: Need) -> "World":
        for cluster in {need.cluster for need in needs}:
            self.table.replace(cluster, [need for need in needs if need.cluster == cluster])
        return self

    def changes(self, *machines: Machine) -> None:
        for item in machines:
            self.inventory.adopt(item, self.now)

    def _decide(self, planner: Planner) -> Decision:
        return planner.decide(
            self.mask.without(self.inventory.snapshot(), np.array(self.left_out, dtype=np.intp)),
            self.table.demand(),
            parked=self.parked,
            reported_clusters=self.reported,
            holds=IdleHolds(),
            now=self.now,
        )

    def decides(self) -> Decision:
        """The planner's decision, which is that of a planner without a past."""
        decision = self._decide(self.planner)
        assert decision == self._decide(Planner())
        return decision


def need(
    cluster: str, total: Resources, *requirements: Requirement, unit: Resources = ZERO, group: str = ""
) -> Need:
    return Need(cluster, Profile(requirements, priority=100), total, unit, group=group)


def gang(cluster: str, cpus: int, group: str = "g") -> Need:
    return need(
        cluster,
        amounts(cpu=cpus),
        Requirement(ZONE_KEY, RequirementOperator.SAME),
        unit=amounts(cpu=4),
        group=group,
    )


def kinds_of(decision: Decision) -> list[tuple[ActionKind, str]]:
    return [(action.kind, action.machine_id) for action in decision.actions]


def bound(machine_id: str, cluster: str = "a", **given: object) -> Machine:
    return machine(machine_id, S.CONFIGURED, cluster=cluster, **given)


def settled(clusters: Iterable[str] = ("a", "b")) -> World:
    """Each cluster has one machine of the size it wants; one more is idle."""
    world = World().has(machine("idle-1"), *(bound(f"{name}-1", name) for name in clusters))
    return world.wants(*(need(name, amounts(cpu=4)) for name in clusters))


def test_a_lost_machine_opens_its_clusters_need_again() -> None:
    world = settled()
    assert kinds_of(world.decides()) == []
    world.changes(replace(machine("a-1", S.FAILED), shape=shape()))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "idle-1")]


def test_a_machine_that_joined_another_cluster_counts_there_and_no_longer_here() -> None:
    world = settled()
    world.decides()
    world.changes(bound("a-1", "b"))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "idle-1"), (ActionKind.RECLAIM, "b-1")]


def test_new_rows_of_one_cluster_are_planned() -> None:
    world = settled()
    world.decides()
    world.wants(need("a", amounts(cpu=8)))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "idle-1")]


def test_a_few_new_rows_among_many_take_their_places_in_the_list() -> None:
    names = [f"c{number:03}" for number in range(200)]
    world = World().has(machine("idle-1"), *(bound(f"{name}-1", name) for name in names))
    world.wants(*(Need(name, Profile(priority=int(name[1:]) * 5 % 7), amounts(cpu=4)) for name in names))
    world.decides()
    for cluster, priorities in (("c150", (9, 3, 0)), ("c000", ()), ("c199", (6, -1))):
        rows = [Need(cluster, Profile(priority=priority), amounts(cpu=1)) for priority in priorities]
        world.table.replace(cluster, rows)
        verdicts = world.decides().verdicts
        keys = [(-verdict.need.profile.priority, verdict.need.cluster) for verdict in verdicts]
        assert keys == sorted(keys)
        assert [-key[0] for key in keys if key[1] == cluster] == list(priorities)


def test_a_cluster_without_demand_gives_its_machines_back() -> None:
    world = settled()
    world.decides()
    world.table.replace("a", [])
    assert kinds_of(world.decides()) == [(ActionKind.RECLAIM, "a-1")]


def test_a_cluster_that_has_neither_machines_nor_demand_is_forgotten() -> None:
    world = settled()
    world.decides()
    world.table.replace("a", [])
    world.changes(machine("a-1"))
    assert [verdict.need.cluster for verdict in world.decides().verdicts] == ["b"]


def two_zones() -> World:
    """A gang of eight cores that fits into no zone, and another cluster at rest."""
    here = [machine(f"{zone}-{place}", shape=shape(zone=zone)) for zone in ("za", "zb") for place in range(1)]
    return World().has(*here, bound("b-1", "b")).wants(gang("a", 8), need("b", amounts(cpu=4)))


def test_a_gang_that_counted_on_shared_supply_is_looked_at_again_when_that_changes() -> None:
    world = two_zones()
    assert world.decides().verdicts[0].domain == "za"
    world.has(machine("zb-2", shape=shape(zone="zb")))
    assert world.decides().verdicts[0].domain == "zb"


def test_what_a_gang_of_another_cluster_counts_on_moves_a_gang_that_did_not_change() -> None:
    machines = [
        machine(f"{zone}-{place}", shape=shape(zone=zone)) for zone in ("za", "zb") for place in (1, 2)
    ]
    world = World().has(*machines).wants(gang("b", 8))
    assert world.decides().verdicts[0].domain == "za"
    world.wants(gang("a", 8))
    assert [verdict.domain for verdict in world.decides().verdicts] == ["za", "zb"]


def test_a_gang_that_did_not_change_still_counts_on_what_it_will_take() -> None:
    machines = [
        machine(f"{zone}-{place}", shape=shape(zone=zone)) for zone in ("za", "zb") for place in (1, 2)
    ]
    world = World().has(*machines).wants(gang("a", 8))
    assert world.decides().verdicts[0].domain == "za"
    world.wants(gang("b", 8))
    assert [verdict.domain for verdict in world.decides().verdicts] == ["za", "zb"]


def test_gangs_fold_when_a_machine_appears_that_holds_one_whole() -> None:
    world = two_zones()
    assert world.decides().verdicts[0].need.group == "g"
    world.has(machine("large", shape=shape("m5.large", resources={"cpu": "16"})))
    folded = world.decides().verdicts[-1]
    assert (folded.need.group, folded.need.unit, list(folded.claimed)) == ("", amounts(cpu=8), ["large"])


def test_gangs_unfold_when_the_last_machine_that_holds_one_whole_goes() -> None:
    world = two_zones().has(machine("large", shape=shape("m5.large", resources={"cpu": "16"})))
    assert world.decides().verdicts[-1].need.group == ""
    world.inventory.remove("large")
    assert world.decides().verdicts[0].need.group == "g"


def test_a_gang_that_was_parked_looks_at_shared_supply_no_longer() -> None:
    world = two_zones()
    assert world.decides().actions
    parked = world.table.demand().rows[0]
    world.parked = frozenset({GangRef("a", "g", parked.profile.fingerprint)})
    assert kinds_of(world.decides()) == []


def test_a_cluster_that_reported_meanwhile_gives_back_what_it_does_not_need() -> None:
    world = World(reported=frozenset()).has(bound("a-1"))
    assert kinds_of(world.decides()) == []
    world.reported = frozenset({"a"})
    assert kinds_of(world.decides()) == [(ActionKind.RECLAIM, "a-1")]


def test_an_idle_machine_is_released_when_its_hold_is_over_though_nothing_else_changed() -> None:
    world = World().has(machine("idle-1"))
    assert kinds_of(world.decides()) == []
    world.now = 599.0
    assert kinds_of(world.decides()) == []
    world.now = 600.0
    assert kinds_of(world.decides()) == [(ActionKind.DELETE, "idle-1")]


def test_a_hold_that_still_lasts_costs_nothing_until_it_ends() -> None:
    world = World(now=1_700_000_000.0).has(machine("idle-1"))
    first = world.decides()
    world.now += 599.0
    assert world.decides() is first
    world.now += 1.0
    assert kinds_of(world.decides()) == [(ActionKind.DELETE, "idle-1")]


def test_time_that_runs_backwards_takes_a_release_back() -> None:
    world = World().has(machine("idle-1"))
    world.now = 600.0
    assert world.decides().actions
    world.now = 1.0
    assert kinds_of(world.decides()) == []


def test_a_machine_that_became_free_is_there_to_be_taken() -> None:
    world = World().has(machine("i-1"), machine("s-1", S.SPECULATIVE)).wants(need("a", amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-1")]
    world.changes(machine("i-1", S.DELETING))
    assert kinds_of(world.decides()) == [(ActionKind.PROVISION, "s-1")]
    world.changes(machine("i-1"), machine("s-1", S.FAILED, last_error="it broke"))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-1")]


def test_a_free_machine_that_became_smaller_is_found_among_those_of_its_size() -> None:
    small = shape(resources={"cpu": "2"})
    world = World().has(machine("i-1"), machine("i-2"), machine("i-3", shape=small))
    world.wants(need("a", amounts(cpu=4), unit=amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-1")]
    world.changes(machine("i-1", shape=small))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-2")]


def test_a_need_that_stays_open_takes_a_machine_of_a_kind_that_is_new() -> None:
    world = World().has(machine("i-1", shape=shape(resources={"cpu": "2"})))
    world.wants(need("a", amounts(cpu=4), unit=amounts(cpu=4)))
    assert kinds_of(world.decides()) == []
    world.has(machine("i-2", shape=shape(resources={"cpu": "8"})))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-2")]


def test_a_price_that_changed_changes_who_is_taken_first() -> None:
    world = World().has(*(machine(f"i-{place}") for place in (1, 2))).wants(need("a", amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-1")]
    world.changes(machine("i-1", shape=shape(price=9.0)))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-2")]


def test_a_label_that_nobody_asked_about_tells_machines_apart_once_somebody_does() -> None:
    fast, slow = shape(labels={"disk": "ssd"}), shape(labels={"disk": "hdd"})
    world = World().has(machine("i-1", shape=slow), machine("i-2", shape=fast))
    world.wants(need("a", amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-1")]
    world.wants(need("a", amounts(cpu=4), Requirement("disk", RequirementOperator.IN, ("ssd",))))
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "i-2")]


def test_a_machine_that_took_over_the_row_of_another_is_kept_in_the_order_of_its_own_id() -> None:
    world = World().has(bound("m-2"), bound("m-3")).wants(need("a", amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.RECLAIM, "m-3")]
    world.inventory.remove("m-3")
    world.has(bound("m-1"))  # in the same row, in the same state, of the same shape
    assert kinds_of(world.decides()) == [(ActionKind.RECLAIM, "m-2")]


def test_a_machine_that_was_left_out_for_a_while_has_a_host_name_of_its_own() -> None:
    world = World().has(machine("m-1"), machine("m-2"))
    world.wants(need("a", amounts(cpu=8), Requirement(HOST_NAME_KEY, RequirementOperator.IN, ("m-1",))))
    world.left_out = (0,)
    assert kinds_of(world.decides()) == []
    world.left_out = ()
    assert kinds_of(world.decides()) == [(ActionKind.BOOTSTRAP, "m-1")]


def test_a_stamp_that_changed_changes_what_is_kept_first() -> None:
    world = World().has(bound("m-1"), bound("m-2")).wants(need("a", amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.RECLAIM, "m-2")]
    world.changes(bound("m-2", assigned=assigned(100, 0, 5.0)))
    assert kinds_of(world.decides()) == [(ActionKind.RECLAIM, "m-1")]


def test_a_gangs_own_machine_is_told_by_a_stamp_that_is_new() -> None:
    wanted = gang("a", 4)
    world = World().has(*(bound(f"{zone}-1", shape=shape(zone=zone)) for zone in ("za", "zb")))
    world.wants(gang("a", 8))  # too large for one machine, so it does not fold
    world.decides()
    stamp = assigned(100, fingerprint=wanted.profile.fingerprint, group="g")
    world.changes(bound("zb-1", shape=shape(zone="zb"), assigned=stamp))
    world.decides()


def test_amounts_finer_than_any_before_are_counted_exactly() -> None:
    world = World().has(machine("i-1"), machine("i-2")).wants(need("a", amounts(cpu=4)))
    world.decides()
    world.wants(need("b", amounts(cpu="4001m")))
    assert [verdict.reason for verdict in world.decides().verdicts] == [
        Reason.SATISFIED,
        Reason.PRIORITY_STARVED,
    ]


def test_a_machine_on_order_is_credited_once_it_is_stamped() -> None:
    world = World().has(machine("s-1", S.SPECULATIVE)).wants(need("a", amounts(cpu=4)))
    assert kinds_of(world.decides()) == [(ActionKind.PROVISION, "s-1")]
    stamp = assigned(fingerprint=world.table.demand().rows[0].profile.fingerprint, cluster="a")
    world.changes(machine("s-1", S.CREATING, assigned=stamp))
    assert kinds_of(world.decides()) == []


def test_an_inventory_that_was_compacted_is_read_anew() -> None:
    small = shape("c7", resources={"cpu": "1"})
    world = World().has(machine("old", shape=small), bound("a-1")).wants(need("a", amounts(cpu=4)))
    world.decides()
    world.inventory.remove("old")
    world.inventory.compact()  # what was the second shape is now the first
    assert kinds_of(world.decides()) == []


def test_an_old_decision_tells_what_held_in_its_own_cycle() -> None:
    world = two_zones()
    first = world.decides()
    before = [list(verdict.same_candidates) for verdict in world._decide(Planner()).verdicts]
    world.has(machine("zb-2", shape=shape(zone="zb", price=3.0)))
    world.wants(gang("a", 12), gang("a", 4, group="h"))
    world.decides()
    assert [list(verdict.same_candidates) for verdict in first.verdicts] == before
    assert [list(verdict.folded_from) for verdict in first.verdicts] == [[0], [1]]


@pytest.mark.rule("engine#kept-answers")
def test_answers_about_demand_that_is_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigfleet.engine.kinds._SPARE_BYTES", 0)
    world = World().has(machine("m-1"))
    for number in range(20):
        wants = Requirement("rack", RequirementOperator.IN, (f"r-{number}",))
        world.wants(need("a", amounts(cpu=1), wants))
        world.decides()
    fleet = world.planner._fleet
    assert fleet is not None
    assert len(fleet.kinds._matching) <= 9


@pytest.mark.rule("engine#kept-answers")
def test_answers_to_long_questions_are_forgotten_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigfleet.engine.kinds._SPARE_TEXTS", 4_000)
    world = World().has(machine("m-1"))
    for number in range(20):
        shuns = Requirement(
            "rack", RequirementOperator.NOT_IN, tuple(f"{number}-{place}" for place in range(10))
        )
        world.wants(need("a", amounts(cpu=1), shuns))
        world.decides()
    fleet = world.planner._fleet
    assert fleet is not None
    assert 0 < len(fleet.kinds._matching) <= len(fleet.kinds._met) < 8


@pytest.mark.rule("engine#kept-answers")
def test_of_questions_that_no_kind_of_machine_meets_nothing_is_kept() -> None:
    world = World().has(machine("m-1"))
    for number in range(20):
        wants = Requirement("rack", RequirementOperator.IN, (f"r{number}",))
        world.wants(need("a", amounts(cpu=1), wants))
        (verdict,) = world.decides().verdicts
        assert verdict.reason is Reason.NO_MATCHING_SUPPLY
    fleet = world.planner._fleet
    assert fleet is not None
    assert not fleet.kinds._matching
    assert not fleet.kinds._met


@pytest.mark.rule("engine#open-demand")
def test_sorts_of_needs_that_nothing_asks_for_any_more_are_forgotten() -> None:
    world = World().has(machine("m-1"))
    for number in range(200):
        world.wants(Need("a", Profile(priority=number), amounts(cpu=1)))
        world._decide(world.planner)
    asks = world.planner._asks
    assert asks is not None
    assert len(asks) < 80


@pytest.mark.rule("engine#kept-answers")
def test_a_decision_is_gone_as_soon_as_nothing_refers_to_it() -> None:
    gc.collect()
    gc.disable()  # as in a process that sets live objects aside: only counting references frees anything
    try:
        world = World().has(machine("m-1"), bound("a-1")).wants(need("a", amounts(cpu=64)))
        verdicts = world.decides().verdicts
        assert [tuple(each.folded_from) for each in verdicts] == [(0,)]
        gone = weakref.ref(verdicts)
        del verdicts
        world.wants(need("a", amounts(cpu=4)))
        world.decides()
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.rule("engine#made-when-read")
def test_actions_and_unresolved_needs_are_counted_when_decided_and_made_when_read() -> None:
    world = World().has(machine("idle-1"))
    world.wants(need("a", amounts(cpu=4)), need("c", amounts(cpu=4)))
    made = AssertionError("made before somebody reads it")
    with (
        patch("bigfleet.engine.verdicts.Action", side_effect=made),
        patch("bigfleet.engine.phase3.Action", side_effect=made),
        patch("bigfleet.engine.phase2.Unresolved", side_effect=made),
    ):
        decision = world._decide(world.planner)
        assert (len(decision.actions), len(decision.unresolved)) == (1, 1)
        with pytest.raises(AssertionError, match="before"):
            list(decision.actions)
    assert kinds_of(decision) == [(ActionKind.BOOTSTRAP, "idle-1")]
    assert [left.need for left in decision.unresolved] == [1]


def test_a_verdict_read_late_counts_the_machines_of_its_own_cycle() -> None:
    world = World().has(machine("idle-1", shape=shape(zone="za")))
    world.wants(need("a", amounts(cpu=4)), need("c", amounts(cpu=4)))
    decision = world._decide(world.planner)
    world.changes(replace(machine("idle-1", S.FAILED), shape=shape(zone="za")))
    world.decides()
    supply = decision.verdicts[1].matching_supply
    assert supply is not None
    assert supply.idle == 1
