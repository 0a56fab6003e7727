"""Laws of the loop for fragments, in a model of a cluster: every pod runs, then nothing changes, and nothing is bought for nothing."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.operator.core.fragment_terms import FragmentRules, Why
from bigfleet.operator.core.rooms import Row, Workload
from tests.support.builders import amounts
from tests.support.cluster_model import Cluster, Kind

ROUND = 4
"""Steps of 15 s in a round: a look, what the shard does about it, machines that join, and the time until a pod is stuck again."""
ROUNDS = 20
QUIET = 160
"""Further steps: forty minutes, so longer than the shortest times for which anything is held or kept."""
ANY = Requirement(INSTANCE_TYPE_KEY, RequirementOperator.EXISTS)
TOGETHER = Requirement(ZONE_KEY, RequirementOperator.SAME)
DAEMON = Workload(None, "daemon", amounts(cpu="500m", memory="128Mi", pods=1), is_daemon=True)
KINDS = st.lists(
    st.tuples(st.sampled_from([4, 8, 16, 32]), st.sampled_from([2, 4, 8]), st.sampled_from([0.9, 1.0, 1.2])),
    min_size=1,
    max_size=4,
    unique_by=lambda kind: kind[0],
)
WORKLOADS = st.lists(
    st.tuples(
        st.sampled_from(["100m", "300m", "1", "1500m", "2500m", "3", "5", "7500m"]),
        st.sampled_from(["256Mi", "1Gi", "4Gi", "9000Mi"]),
        st.integers(1, 15),  # pods
        st.sampled_from(["", "", "", "apart"]),
        st.sampled_from(["any", "any", "a", "b", "together"]),
        st.sampled_from([0, 0, 0, 10]),  # priority
    ),
    min_size=1,
    max_size=6,
)


def row(*requirements: Requirement, priority: int = 0, group: str = "") -> Row:
    """A row of demand."""
    return Row(Profile(requirements=requirements or (ANY,), priority=priority), group)


def in_zone(zone: str) -> Requirement:
    """The requirement of one zone."""
    return Requirement(ZONE_KEY, RequirementOperator.IN, (zone,))


def workload(place: int, of: tuple[str, str, int, str, str, int]) -> Workload:
    """The workload of a drawn tuple."""
    cpu, memory, _, apart, where, priority = of
    rows = {
        "any": row(priority=priority),
        "together": row(TOGETHER, priority=priority, group=f"gang-{place}"),
    }
    mine = rows.get(where) or row(in_zone(where), priority=priority)
    return Workload(
        mine,
        f"owner-{place}",
        amounts(cpu=cpu, memory=memory, pods=1),
        apart=apart and f"{apart}-{place}",
        is_movable=where != "together",
    )


def cluster(
    kinds: list[tuple[int, int, float]],
    workloads: list[tuple[str, str, int, str, str, int]],
    seed: int,
    *,
    daemon: bool = False,
    share: float = 4.0,
) -> Cluster:
    """A cluster in two zones with pods that all could run somewhere."""
    offered = [
        Kind(f"{zone}{cpu}", amounts(cpu=cpu, memory=f"{cpu * ratio}Gi", pods=110), cpu * price, zone)
        for zone in "ab"
        for cpu, ratio, price in kinds
    ]
    made = Cluster(offered, Random(seed), FragmentRules(share=share), daemon=DAEMON if daemon else None)
    for place, of in enumerate(workloads):
        made.add(workload(place, of), of[2])
    overhead = DAEMON.requests if daemon else amounts()
    asked = made.demand()
    runs = {
        one: any((kind.size - overhead).covers(asked[one].unit + overhead) for kind in offered)
        for one in asked
    }
    for uid, pod in list(made.pods.items()):
        if pod.workload.row is not None and not runs[pod.workload.row]:
            made.remove(uid)
    return made


def extra_machines(world: Cluster) -> int:
    """How many machines are asked for on top."""
    return sum(extra.machines for extra in world.answer.extra.values())


def is_within_share(world: Cluster, share: float) -> bool:
    """Whether what is asked for on top is within the share of the demand, or one machine."""
    total, extra = Counter[str](), Counter[str]()
    for found in world.demand().values():
        total.update(dict(found.total.items()))
    for more in world.answer.extra.values():
        extra.update(dict(more.total.items()))
    return extra_machines(world) <= 1 or all(extra[name] <= share * total[name] for name in extra)


@pytest.mark.rule("operator#fragments")
@pytest.mark.rule("operator#fragments-release")
@given(KINDS, WORKLOADS, st.integers(0, 2**16), st.booleans())
@settings(max_examples=40)
def test_every_pod_runs_and_then_nothing_changes(
    kinds: list[tuple[int, int, float]],
    workloads: list[tuple[str, str, int, str, str, int]],
    seed: int,
    daemon: bool,
) -> None:
    world = cluster(kinds, workloads, seed, daemon=daemon)
    world.step(ROUND * ROUNDS)
    assert not world.waiting, world.answer
    settled_s = world.now_s
    world.step(QUIET)
    assert not world.waiting, world.answer
    assert [when for when in world.raises if when > settled_s] == []
    assert [what for what in world.bought if what[0] > settled_s] == []
    assert world.left_homeless == []


@pytest.mark.rule("operator#fragments-share")
@given(KINDS, WORKLOADS, st.integers(0, 2**16), st.sampled_from([0.0, 0.05, 0.25]), st.data())
@settings(max_examples=40)
def test_the_surplus_never_exceeds_its_share(
    kinds: list[tuple[int, int, float]],
    workloads: list[tuple[str, str, int, str, str, int]],
    seed: int,
    share: float,
    data: st.DataObject,
) -> None:
    world = cluster(kinds, workloads, seed, share=share)
    for _ in range(ROUNDS):
        for _ in range(ROUND):
            world.step()
            assert extra_machines(world) == 0 if share == 0 else is_within_share(world, share)
        if world.pods:
            for uid in data.draw(st.lists(st.sampled_from(sorted(world.pods)), unique=True, max_size=9)):
                world.remove(uid)
    if world.waiting:
        assert world.answer.stuck.keys() & {Why.LIMITED, Why.YOUNG, Why.ON_ITS_WAY, Why.HELD, Why.SHORT}


SMALL = [(8, 4, 1.0)]


def bought_without_the_loop(world: Cluster) -> int:
    """How many machines the sums alone need."""
    world.fragments_on = False
    world.step(ROUND * ROUNDS)
    return len(world.bought)


@pytest.mark.rule("operator#fragments-stuck")
@given(st.integers(0, 2**16))
@settings(max_examples=2)
def test_a_thousand_pods_that_no_machine_helps_buy_nothing(seed: int) -> None:
    def refusing() -> Cluster:
        made = cluster(SMALL, [("1", "1Gi", 10, "", "any", 0)], seed)
        hopeless = Workload(row(priority=5), "hopeless", amounts(cpu="100m", memory="16Mi", pods=1))
        made.add(hopeless, 1000)
        made.refuses = lambda pod, _: pod.workload is hopeless
        return made

    world = refusing()
    world.step(ROUND * ROUNDS)
    assert len(world.bought) == bought_without_the_loop(refusing())
    assert world.answer.stuck == {Why.ELSEWHERE: 1000}


@pytest.mark.rule("operator#fragments-stuck")
def test_pods_whose_sum_is_not_covered_raise_nothing() -> None:
    world = cluster(SMALL, [("1", "1Gi", 10, "", "any", 0)], 1)
    world.add(Workload(row(in_zone("nowhere")), "lost", amounts(cpu=1, pods=1)), 1000)
    world.step(ROUND * 10)
    assert world.raises == []
    assert world.answer.stuck == {Why.SHORT: 1000}


@pytest.mark.rule("operator#fragments-stuck")
@given(st.integers(0, 2**16), st.integers(0, 40))
@settings(max_examples=4)
def test_a_scheduler_that_is_down_buys_at_most_what_is_needed_anyway(seed: int, after: int) -> None:
    pods = [("7500m", "1Gi", 40, "", "any", 0)]
    world = cluster(SMALL, pods, seed)
    world.step(after)
    world.scheduler_is_up = False
    world.step(ROUND * 120)
    assert len(world.bought) <= 40
    world.scheduler_is_up = True
    world.step(ROUND * ROUNDS)
    assert not world.waiting
    assert len(world.boxes) == 40


@pytest.mark.rule("operator#fragments-holds")
@pytest.mark.parametrize(("seed", "stay", "away"), [(1, 3, 1), (2, 5, 9), (3, 12, 4)])
def test_pods_that_flap_buy_less_and_less_often(seed: int, stay: int, away: int) -> None:
    world = cluster(SMALL, [("5", "1Gi", 12, "", "any", 0)], seed)
    world.step(ROUND * ROUNDS)
    flapping = Workload(row(priority=5), "flapping", amounts(cpu="5", memory="1Gi", pods=1))
    world.refuses = lambda pod, _: pod.workload is flapping
    for _ in range(240 * ROUND // (stay + away)):
        uids = world.add(flapping, 4)
        world.step(stay)
        for uid in uids:
            world.remove(uid)
        world.step(away)
    late = [when for when in world.raises if when > world.now_s - 2 * 3600]
    assert len(late) <= 5  # the hold has grown to half an hour


@pytest.mark.rule("operator#fragments-holds")
def test_a_machine_that_does_not_come_is_asked_for_ever_more_seldom() -> None:
    world = cluster(SMALL, [("5", "1Gi", 10, "", "any", 0)], 3)
    world.kinds = [Kind(kind.name, kind.size, kind.price, kind.zone, stock=0) for kind in world.kinds[1:]] + [
        Kind("a8", world.kinds[0].size, 1.0, "a", stock=7)
    ]
    world.step(ROUND * 240)
    gaps = [later - earlier for earlier, later in pairwise(world.raises)]
    assert gaps[:5] == sorted(gaps[:5])
    assert gaps[0] >= 60
    assert max(gaps) >= 1800
    assert len(world.bought) == 7
