"""Which pods a round of a drain evicts, and the error of a failed drain."""

from typing import Any

import pytest

from bigfleet.operator.core.drain_plan import DrainPlan, DrainPod, EvictionOutcome, drain_pod


def pod(name: str, **options: Any) -> DrainPod:
    return DrainPod("shop", name, f"uid-{name}", **options)


@pytest.mark.rule("operator#drain-rounds")
def test_daemonset_and_mirror_pods_stay() -> None:
    def document(**metadata: Any) -> dict[str, Any]:
        return {"metadata": {"name": "p", "namespace": "shop", "uid": "u", **metadata}}

    owner = {"kind": "DaemonSet", "controller": True}
    assert drain_pod(document(ownerReferences=[owner])).stays
    assert drain_pod(document(annotations={"kubernetes.io/config.mirror": "x"})).stays
    assert not drain_pod(document(ownerReferences=[{"kind": "ReplicaSet", "controller": True}])).stays
    assert not drain_pod(document()).stays
    assert drain_pod(document(deletionTimestamp="2030-01-01T00:00:00Z")).terminating


def test_each_pod_is_asked_until_it_agrees_and_then_waited_for() -> None:
    plan = DrainPlan("n", 30)
    one, two = pod("one"), pod("two")
    assert plan.next_round([two, one, pod("ds", stays=True)]) == [one, two]
    plan.record(one, EvictionOutcome.LEAVING, "")
    plan.record(two, EvictionOutcome.RETRY, "budget")
    assert plan.next_round([one, two]) == [two]
    assert not plan.is_empty
    assert plan.next_round([pod("one", terminating=True)]) == []
    assert not plan.is_empty  # 63: an evicted pod that is still there holds up success
    assert plan.next_round([pod("ds", stays=True)]) == []
    assert plan.is_empty


def test_a_pod_of_the_same_name_and_another_uid_is_another_pod() -> None:
    plan = DrainPlan("n", 30)
    plan.next_round([pod("web-0")])
    plan.record(pod("web-0"), EvictionOutcome.LEAVING, "")
    fresh = DrainPod("shop", "web-0", "another")
    assert plan.next_round([fresh]) == [fresh]


@pytest.mark.rule("operator#evict-several-budgets")
def test_a_hopeless_pod_is_asked_every_fifth_round_only() -> None:
    plan = DrainPlan("n", 30)
    stuck = pod("stuck")
    asked = []
    for number in range(12):
        if plan.next_round([stuck]):
            asked.append(number)
            plan.record(stuck, EvictionOutcome.RETRY_RARELY, "two budgets")
    assert asked == [0, 5, 10]


def test_a_refusal_is_believed_after_five_rounds_in_a_row() -> None:
    plan = DrainPlan("n", 30)
    for number in range(1, 12):
        assert not plan.refused
        plan.next_round([pod("a"), pod("b")])
        if number == 4:
            plan.record(pod("a"), EvictionOutcome.RETRY, "busy")
            continue
        plan.record(pod("a"), EvictionOutcome.FORBIDDEN, "cannot create pods/eviction")
        plan.record(pod("b"), EvictionOutcome.FORBIDDEN, "cannot create pods/eviction")
        if number == 9:
            break
    assert plan.refused == "cannot create pods/eviction"


def test_a_list_that_is_refused_counts_too() -> None:
    plan = DrainPlan("n", 30)
    for _ in range(5):
        assert not plan.refused
        plan.skip_round()
        plan.forbid("cannot list pods")
    assert plan.refused == "cannot list pods"


@pytest.mark.rule("operator#evict-budget", "operator#drain-end")
def test_a_failure_names_node_time_and_up_to_five_pods_with_the_last_word() -> None:
    plan = DrainPlan("n-1", 10)
    pods = [pod(f"p{n}") for n in range(7)]
    plan.next_round(pods)
    plan.record(pods[0], EvictionOutcome.RETRY, "would violate the budget")
    plan.record(pods[1], EvictionOutcome.LEAVING, "")
    text = plan.failure("ran out of time")
    assert text.startswith("drain of node n-1 ran out of time after 10 s, 7 pods left: ")
    assert "shop/p0 (would violate the budget)" in text
    assert "shop/p1 (terminating)" in text
    assert "shop/p4" in text
    assert "shop/p5" not in text
    assert text.endswith("and 2 more")


@pytest.mark.parametrize("why", ["ran out of time", "was refused"])
def test_a_failure_without_pods_left_is_still_a_sentence(why: str) -> None:
    assert DrainPlan("n", 5).failure(why) == f"drain of node n {why} after 5 s, 0 pods left"
