"""Diverse pods: the list is that of the published benchmark, the check refuses what the scheduler refuses, the bound is one."""

from collections import Counter
from typing import Any

import pytest

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import Machine, MachineState, Shape
from bigfleet.model.profile import HOST_NAME_KEY, ZONE_KEY
from scaletest.bench.first_fit import FirstFit, Placed, placed_pod
from scaletest.bench.karpenter_demand import ClusterDemand
from scaletest.bench.karpenter_loop import ClosedLoop
from scaletest.bench.karpenter_pods import PRICE_OF_SIZE, diverse_pods, machine_types, price_bound


def _pod(name: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Placed:
    requests = {"cpu": cpu, "memory": "1Mi"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return placed_pod(
        {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": containers, **spec}}
    )


def _spread(key: str, app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    term = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return {"topologySpreadConstraints": [term]}


def _affinity(key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _nodes(*zones: str, cpu: str = "4", pods: str = "110") -> FirstFit:
    resources = FrozenMap({"cpu": cpu, "memory": "1Gi", "pods": pods})
    fit = FirstFit()
    fit.add(
        Machine(f"m-{number}", MachineState.SPECULATIVE, Shape("t", zone, resources=resources))
        for number, zone in enumerate(zones)
    )
    return fit


def _names(pods: list[Placed]) -> list[str]:
    return [pod.name for pod in pods]


def test_a_pod_needs_all_of_its_request_on_one_node() -> None:
    fit = _nodes("a", "a")
    assert _names(fit.place([_pod("p", "3"), _pod("q", "3"), _pod("r", "2")])) == ["r"]


def test_a_node_takes_no_more_pods_than_it_has_room_for() -> None:
    assert _names(_nodes("a", pods="2").place([_pod("p"), _pod("q"), _pod("r")])) == ["r"]


@pytest.mark.parametrize("key", [HOST_NAME_KEY, ZONE_KEY])
def test_a_strict_spread_waits_for_a_domain_that_is_full(key: str) -> None:
    fit = _nodes("a", "b")
    assert fit.place([_pod(f"full-{number}") for number in range(4)]) == []
    spread = [_pod(f"s-{number}", labels={"app": "s"}, **_spread(key, "s")) for number in range(3)]
    assert _names(fit.place(spread)) == ["s-1", "s-2"]
    assert fit.node_of["s-0"] == "m-1"


def test_a_spread_counts_pods_that_do_not_ask_for_it() -> None:
    fit = _nodes("a", "b")
    assert fit.place([_pod("x", labels={"app": "s"}), _pod("y", labels={"app": "s"})]) == []
    assert fit.node_of == {"x": "m-0", "y": "m-0"}
    assert fit.place([_pod("s", labels={"app": "s"}, **_spread(HOST_NAME_KEY, "s"))]) == []
    assert fit.node_of["s"] == "m-1"


def test_affinity_follows_its_match_and_does_not_start_without_selecting_itself() -> None:
    fit = _nodes("a", "b")
    follower = _pod("f", "1", {"app": "f"}, **_affinity(HOST_NAME_KEY, "g"))
    assert _names(fit.place([follower])) == ["f"]
    assert fit.place([_pod("big", "4"), follower, _pod("g", "1", {"app": "g"})]) == []
    assert fit.node_of["f"] == fit.node_of["g"] == "m-1"


def test_a_gang_that_shares_a_host_starts_where_all_of_it_fits() -> None:
    fit = _nodes("a")
    fit.add(
        [
            Machine(
                "big",
                MachineState.SPECULATIVE,
                Shape("t", "a", resources=FrozenMap({"cpu": "8", "memory": "1Gi"})),
            )
        ]
    )
    gang = [_pod(f"g-{number}", "2", {"app": "g"}, **_affinity(HOST_NAME_KEY, "g")) for number in range(4)]
    assert fit.place(gang) == []
    assert set(fit.node_of.values()) == {"big"}
    split = _nodes("a", "a")
    assert len(split.place(gang)) == 2


def test_the_list_has_five_families_of_a_fifth_each_and_is_the_same_every_time() -> None:
    pods = diverse_pods(1_003)
    assert pods == diverse_pods(1_003)
    kinds = Counter(
        (bool(pod["spec"].get("topologySpreadConstraints")), bool(pod["spec"].get("affinity")))
        for pod in pods
    )
    assert kinds == {(False, False): 203, (True, False): 400, (False, True): 400}
    assert len({pod["metadata"]["uid"] for pod in pods}) == len(pods)


def test_no_machines_that_hold_the_sum_cost_less_than_the_bound() -> None:
    assert price_bound(1, 0, 0) == pytest.approx(PRICE_OF_SIZE)
    assert price_bound(1, 5 * 2**30, 0) == pytest.approx(2.5 * PRICE_OF_SIZE)
    assert price_bound(1, 0, 40) == pytest.approx(4 * PRICE_OF_SIZE)
    offered = machine_types(types=3, slots=1).snapshot().machines()
    assert all(
        machine.shape.price_per_hour
        >= price_bound(*(machine.shape.capacity.amount(name) / 1e9 for name in ("cpu", "memory", "pods")))
        - 1e-9
        for machine in offered
    )


def test_a_node_that_leaves_gives_its_pods_back_and_counts_for_nothing() -> None:
    fit = _nodes("a", "b")
    spread = [_pod(f"s-{number}", labels={"app": "s"}, **_spread(HOST_NAME_KEY, "s")) for number in range(3)]
    assert fit.place(spread) == []
    assert _names(fit.remove("m-0")) == ["s-0", "s-2"]
    assert fit.node_of == {"s-1": "m-1"}
    # The node that is left is the emptiest domain now.
    assert fit.place([spread[0]]) == []


def test_the_sum_is_bought_before_anything_is_stuck() -> None:
    pods = diverse_pods(60)
    placed = [placed_pod(pod) for pod in pods]
    loop = ClosedLoop(machine_types(types=40, slots=4), ClusterDemand(pods), placed)
    memory = sum(float(pod.amounts[1]) for pod in placed) / 1000
    assert loop.dollars >= price_bound(0, memory, 0)
    assert loop.unmet == loop.surplus == 0


def test_the_loop_comes_to_rest_with_fewer_pods_without_a_node() -> None:
    pods = [pod for pod in diverse_pods(300) if set(pod["spec"]) == {"containers"}]
    loop = ClosedLoop(
        machine_types(types=3, slots=60), ClusterDemand(pods), [placed_pod(pod) for pod in pods]
    )
    at_first = len(loop.waiting)
    assert loop.run() is not None
    assert len(loop.waiting) < at_first


def test_demand_that_cannot_be_bought_is_told() -> None:
    pods = diverse_pods(60)
    loop = ClosedLoop(machine_types(types=2, slots=1), ClusterDemand(pods), [placed_pod(pod) for pod in pods])
    assert loop.unmet
    assert loop.waiting
