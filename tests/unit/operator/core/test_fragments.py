"""What is asked for on top of the sum, look by look."""

from itertools import pairwise

import pytest

from bigfleet.model.profile import ZONE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.operator.core.fragment_terms import (
    Coming,
    FragmentRules,
    FragmentsAnswer,
    RowDemand,
    Unplaced,
    Why,
)
from bigfleet.operator.core.fragments import Fragments
from bigfleet.operator.core.packing import bin_of, fill, open_bins
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Row, Workload
from tests.support.builders import amounts

ROW = Row(Profile())
SIZE = amounts(cpu=8, memory="32Gi", pods=110)
FIVE = Workload(ROW, "five", amounts(cpu=5, pods=1))
ONE = Workload(ROW, "one", amounts(cpu=1, pods=1))


class Given:
    """Machines of 8 CPU, each with a pod of 5, and further pods of 5 without a node."""

    def __init__(self, machines: int, stuck: int, *, share: float = 1.0, workload: Workload = FIVE) -> None:
        self.rooms = Rooms()
        self.loop = Fragments(FragmentRules(share=share), self.rooms)
        self.workload = workload
        for place in range(machines):
            self.join(f"m{place}", 0.0)
            self.rooms.put_pod(f"p{place}", workload, f"m{place}")
        self.stuck = {f"s{place}": 0.0 for place in range(stuck)}
        self.coming: list[Coming] = []
        self.pods = machines + stuck

    def join(self, name: str, now_s: float) -> None:
        """Let a machine come into service."""
        self.rooms.put_node(NodeFacts(name, name, {}, SIZE, SIZE), now_s)

    def look(self, now_s: float) -> FragmentsAnswer:
        """Look at the cluster."""
        demand = {ROW: RowDemand(self.workload.requests.scaled(self.pods), self.workload.requests)}
        unplaced = [Unplaced(uid, self.workload, since_s) for uid, since_s in self.stuck.items()]
        return self.loop.look(now_s, demand, unplaced, self.coming)


def machines(answer: FragmentsAnswer) -> int:
    """How many machines are asked for."""
    return sum(extra.machines for extra in answer.extra.values())


@pytest.mark.rule("operator#fragments-stuck")
def test_a_pod_is_stuck_after_half_a_minute_and_not_before() -> None:
    world = Given(machines=8, stuck=2)
    early = world.look(29.0)
    assert (machines(early), early.stuck, early.look_again_s) == (0, {Why.YOUNG: 2}, 30.0)
    assert machines(world.look(30.0)) == 2


@pytest.mark.rule("operator#fragments-stuck")
def test_a_node_that_joins_makes_it_wait_again_but_not_for_ever() -> None:
    world = Given(machines=8, stuck=1)
    for second in range(20, 300, 20):
        world.join(f"late{second}", float(second))
        world.rooms.put_pod(f"q{second}", FIVE, f"late{second}")
        assert machines(world.look(second + 5.0)) == 0
    assert machines(world.look(300.0)) == 1


@pytest.mark.rule("operator#fragments")
def test_the_row_for_fragments_says_how_many_units() -> None:
    world = Given(machines=8, stuck=3)
    extra = world.look(30.0).extra[ROW]
    assert (extra.machines, extra.size, extra.total, extra.for_fragments) == (
        3,
        FIVE.requests,
        FIVE.requests.scaled(3),
        True,
    )


@pytest.mark.rule("operator#fragments-stuck")
def test_a_machine_on_its_way_is_counted_before_more_is_asked_for() -> None:
    world = Given(machines=8, stuck=3)
    world.coming = [Coming("new", {}, SIZE, 10.0)]
    assert machines(answer := world.look(30.0)) == 2
    assert answer.stuck[Why.ON_ITS_WAY] == 1
    late = Given(machines=8, stuck=3)
    late.coming = [Coming("never", {}, SIZE, 10.0)]
    assert machines(late.look(1000.0)) == 3


@pytest.mark.rule("operator#fragments-stuck")
def test_an_empty_machine_with_room_means_that_another_would_not_help() -> None:
    world = Given(machines=8, stuck=3)
    world.join("empty", 100.0)
    assert world.look(120.0).stuck == {Why.YOUNG: 3}
    answer = world.look(131.0)
    assert (machines(answer), answer.stuck) == (0, {Why.ELSEWHERE: 3})


@pytest.mark.rule("operator#fragments-size")
def test_pods_that_never_ran_get_one_machine_first() -> None:
    world = Given(machines=8, stuck=0)
    strange = Workload(ROW, "strange", FIVE.requests)
    demand = {ROW: RowDemand(FIVE.requests.scaled(12), FIVE.requests)}
    unplaced = [Unplaced(f"s{place}", strange, 0.0) for place in range(4)]
    assert machines(world.loop.look(40.0, demand, unplaced, [])) == 1


@pytest.mark.rule("operator#fragments-holds")
def test_a_raise_without_a_machine_is_taken_back_after_a_minute_and_held_for_longer_each_time() -> None:
    world, raised = Given(machines=8, stuck=1), []
    now_s, before = 30.0, 0
    while now_s < 12_000:
        answer = world.look(now_s)
        if machines(answer) > before:
            raised.append(now_s)
        before = machines(answer)
        assert answer.look_again_s > now_s
        now_s = answer.look_again_s
    # A minute to wait for an answer, and holds of 1, 2, 4, 8, 16 and then 30 minutes.
    assert [later - first for first, later in pairwise(raised)][:7] == [
        120, 180, 300, 540, 1020, 1860, 1860,
    ]  # fmt: skip


@pytest.mark.rule("operator#fragments-holds")
def test_a_machine_that_helps_nobody_is_not_asked_for_again_soon() -> None:
    world = Given(machines=8, stuck=1)
    assert machines(world.look(30.0)) == 1
    world.join("new", 60.0)
    answer = world.look(100.0)
    assert answer.stuck == {Why.ELSEWHERE: 1}
    world.rooms.put_pod("other", FIVE, "new")  # another pod took it, so this one lacks room again
    assert world.look(200.0).stuck == {Why.HELD: 1}
    assert world.look(399.0).stuck == {Why.HELD: 1}
    assert machines(world.look(400.0)) == 2


@pytest.mark.rule("operator#fragments-share")
@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.01, 1), (0.25, 3), (1.0, 4)])
def test_the_share_bounds_what_is_asked_for(share: float, expected: int) -> None:
    answer = Given(machines=8, stuck=4, share=share).look(30.0)
    assert machines(answer) == expected
    assert answer.stuck == {Why.ASKED if expected == 4 else Why.LIMITED: 4}


@pytest.mark.rule("operator#fragments-release")
def test_it_is_given_back_once_a_machine_is_spare_and_sooner_kept_after_a_mistake() -> None:
    world = Given(machines=8, stuck=1)
    world.look(30.0)
    world.join("new", 60.0)
    world.rooms.put_pod("s0", FIVE, "new")
    world.stuck.clear()
    assert machines(world.look(100.0)) == 1
    assert machines(world.look(3000.0)) == 1  # no other node has room
    world.rooms.drop_pod("p0")
    assert machines(world.look(3100.0)) == 0
    world.rooms.drop_node("new")
    world.stuck["s1"] = 3101.0
    world.rooms.put_pod("p0", ONE, "m0")
    world.rooms.put_pod("p9", FIVE, "m0")
    world.rooms.put_pod("p8", ONE, "m0")
    assert machines(world.look(3140.0)) == 1
    world.join("again", 3150.0)
    world.stuck.clear()
    world.look(3181.0)
    assert machines(world.look(3140.0 + 599.0)) == 1  # kept for twice as long
    assert machines(world.look(3140.0 + 601.0)) == 0


@pytest.mark.rule("operator#fragments-size")
def test_first_fit_counts_machines_not_sums() -> None:
    bins = [bin_of(SIZE)]
    assert fill(bins, FIVE, 3) == 2
    assert fill(bins, ONE, 4) == 1
    assert open_bins(bins, SIZE, FIVE, 5, 3) == 2
    assert len(bins) == 4
    apart = Workload(ROW, "apart", amounts(cpu=1, pods=1), apart="x")
    assert open_bins([], SIZE, apart, 5, 9) == 0
    fresh = [bin_of(SIZE)]
    assert fill(fresh, apart, 5) == 4
    zoned = Workload(
        Row(Profile(requirements=(Requirement(ZONE_KEY, RequirementOperator.IN, ("a",)),))), "z", ONE.requests
    )
    assert fill([bin_of(SIZE, {ZONE_KEY: "b"})], zoned, 2) == 2
    assert fill([bin_of(SIZE, {ZONE_KEY: "a"})], zoned, 2) == 0


@pytest.mark.rule("operator#fragments")
def test_what_nobody_asks_for_any_more_is_dropped_at_once() -> None:
    world = Given(machines=8, stuck=2)
    world.look(30.0)
    assert world.loop.look(40.0, {}, [], []).extra == {}


@pytest.mark.rule("operator#fragments")
def test_a_gang_gets_the_size_of_a_machine_of_its_domain_on_top_of_its_own_total() -> None:
    gang = Row(Profile(requirements=(Requirement(ZONE_KEY, RequirementOperator.SAME),)), "g")
    member = Workload(gang, "g", amounts(cpu=5, pods=1), is_movable=False)
    rooms = Rooms()
    loop = Fragments(FragmentRules(share=1.0), rooms)
    for name, zone, cpu in (("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 64)):
        size = amounts(cpu=cpu, pods=110)
        rooms.put_node(NodeFacts(name, name, {ZONE_KEY: zone}, size, size), 0.0)
    rooms.put_pod("1", member, "a1")
    rooms.put_pod("2", member, "a2")
    demand = {gang: RowDemand(amounts(cpu=15, pods=3), member.requests)}
    extra = loop.look(40.0, demand, [Unplaced("3", member, 0.0)], []).extra[gang]
    assert (extra.machines, extra.size, extra.for_fragments) == (1, amounts(cpu=8), False)
