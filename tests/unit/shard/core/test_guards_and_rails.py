"""Roll-up guard, listing guard, reclaim cap and action cap (`shard#rails`, `shard#listing-guard`, ADR-0046, ADR-0073)."""

import pytest

from bigfleet.model.action import Action, ActionKind
from bigfleet.shard.core.listing_guard import ListingGuard
from bigfleet.shard.core.rails import cap_actions, cap_reclaims
from bigfleet.shard.core.rollup_guard import RollupGuard


@pytest.mark.rule("shard#rollup-guard")
@pytest.mark.parametrize(
    ("rows", "accepted"),
    [
        pytest.param([100, 0, 0, 0], [True, False, False, True], id="held, held, accepted"),
        pytest.param([100, 0, 100, 0], [True, False, True, False], id="a good one resets"),
        pytest.param([9, 0], [True, True], id="nine rows are too few to suspect"),
        pytest.param([10, 1], [True, True], id="a tenth is enough"),
        pytest.param([10, 0], [True, False], id="fewer than a tenth is not"),
        pytest.param([101, 10], [True, False], id="strictly fewer"),
        pytest.param([100, 0, 9, 5], [True, False, False, True], id="held ones need not be alike"),
        pytest.param([0, 0], [True, True], id="the first one is always accepted"),
    ],
)
def test_roll_ups_are_accepted_or_held(rows: list[int], accepted: list[bool]) -> None:
    guard = RollupGuard()
    assert [guard.accepts("prod", count) for count in rows] == accepted


def test_clusters_are_not_compared_and_the_guard_can_be_off() -> None:
    guard = RollupGuard()
    assert guard.accepts("a", 100)
    assert guard.accepts("b", 0)
    assert not guard.accepts("a", 0)
    assert (guard.held("a"), guard.held("b"), guard.accepted_rows("a")) == (1, 0, 100)
    off = RollupGuard(enabled=False)
    assert off.accepts("a", 100)
    assert off.accepts("a", 0)


@pytest.mark.rule("shard#listing-guard")
@pytest.mark.parametrize(
    ("known", "missing", "believed"),
    [
        pytest.param(100, [20], [True], id="20 % is believed"),
        pytest.param(100, [21], [False], id="one more is held"),
        pytest.param(20, [9], [True], id="nine machines are too few to suspect"),
        pytest.param(20, [10], [False], id="ten are not"),
        pytest.param(100, [50, 50, 50], [False, False, True], id="the third in a row, after the window"),
        pytest.param(100, [50, 5, 50, 50, 50], [False, True, False, False, True], id="a good one resets"),
        pytest.param(100, [50, 50, 50, 50], [False, False, True, False], id="confirmed once, not for ever"),
    ],
)
def test_missing_machines_are_believed_gone_or_held(
    known: int, missing: list[int], believed: list[bool]
) -> None:
    guard = ListingGuard(window_s=120)
    listings = enumerate(missing)
    assert [guard.believes(known, count, 1000.0 + 60 * minute) for minute, count in listings] == believed


@pytest.mark.rule("shard#listing-guard")
def test_listings_that_follow_quickly_are_held_for_the_whole_window() -> None:
    guard = ListingGuard(window_s=120)
    assert [second for second in range(0, 130, 10) if guard.believes(100, 50, float(second))] == [120]
    assert (guard.held, guard.since_s) == (0, None)
    guard.believes(100, 40, 300.0)
    guard.believes(100, 60, 310.0)
    assert (guard.held, guard.since_s, guard.missing) == (2, 300.0, 60)


def reclaims(count: int, cluster: str = "prod") -> list[Action]:
    return [Action(ActionKind.RECLAIM, f"{cluster}-{place}", cluster=cluster) for place in range(count)]


@pytest.mark.rule("shard#reclaim-cap")
@pytest.mark.parametrize(
    ("configured", "fraction", "kept"),
    [
        pytest.param(100, 0.05, 5, id="five of a hundred"),
        pytest.param(5, 0.05, 1, id="five machines release one per cycle"),
        pytest.param(39, 0.05, 1, id="rounded down"),
        pytest.param(100, 0.0, 50, id="off"),
        pytest.param(100, 1.0, 50, id="all"),
    ],
)
def test_the_cap_keeps_the_head_of_the_reclaims(configured: int, fraction: float, kept: int) -> None:
    actions = reclaims(50)
    left, capped = cap_reclaims(actions, fraction, lambda _cluster: configured)
    assert left == actions[:kept]
    assert capped == 50 - kept


@pytest.mark.rule("shard#reclaim-cap")
@pytest.mark.parametrize(
    ("pending", "kept"),
    [
        pytest.param(0, 5, id="none"),
        pytest.param(3, 2, id="some"),
        pytest.param(5, 0, id="as many as the cap"),
        pytest.param(7, 0, id="more, since the cluster shrank"),
    ],
)
def test_releases_that_the_provider_has_not_answered_count_against_the_cap(pending: int, kept: int) -> None:
    left, capped = cap_reclaims(reclaims(50), 0.05, lambda _cluster: 100, lambda _cluster: pending)
    assert (len(left), capped) == (kept, 50 - kept)


def test_each_cluster_has_its_own_cap_and_nothing_else_is_capped() -> None:
    others = [
        Action(kind, f"{kind}", cluster="prod") for kind in ActionKind if kind is not ActionKind.RECLAIM
    ]
    actions = [*others, *reclaims(3, "a"), *reclaims(3, "b")]
    left, capped = cap_reclaims(actions, 0.05, lambda _cluster: 20)
    assert left == [*others, actions[len(others)], actions[len(others) + 3]]
    assert capped == 4


def test_the_action_cap_defers_the_tail() -> None:
    actions = reclaims(5)
    assert cap_actions(actions, 2) == (actions[:2], 3)
    assert cap_actions(actions, 0) == (actions, 0)
    assert cap_actions(actions, 5) == (actions, 0)
