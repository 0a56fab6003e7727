"""The shard's verdict on a request, as text (`operator#plugin-why`, ADR-0061)."""

from typing import Any

import pytest

from bigfleet.cli.kubectl.verdict import verdict_lines
from bigfleet.v1alpha1 import capacity_pb2, provider_pb2, shardread_pb2

Operator = capacity_pb2.NodeSelectorRequirement.Operator
REQUEST: dict[str, Any] = {
    "spec": {
        "priority": 7,
        "requirements": [{"key": "zone", "operator": "In", "values": ["b", "a"]}],
        "resources": {},
    }
}


def need(
    priority: int = 7, *values: str, together: bool = False, **view: Any
) -> shardread_pb2.InspectNeedsResponse:
    requirements = [
        capacity_pb2.NodeSelectorRequirement(
            key="zone", operator=Operator.OPERATOR_IN, values=values or ("a", "b")
        )
    ]
    if together:
        requirements.append(capacity_pb2.NodeSelectorRequirement(key="rack", operator=Operator.OPERATOR_SAME))
    wanted = capacity_pb2.CapacityNeed(requirements=requirements, priority=priority)
    return shardread_pb2.InspectNeedsResponse(need=shardread_pb2.NeedView(need=wanted, **view))


HEADER = shardread_pb2.InspectNeedsResponse(header=shardread_pb2.InspectNeedsHeader(cycle=42))


def test_a_covered_need_says_by_how_many_machines() -> None:
    assert verdict_lines([HEADER, need(satisfied=True, claimed_machine_count=3)], REQUEST) == (
        "cycle 42: covered by 3 machines",
    )


def test_a_short_need_says_what_is_missing_and_why() -> None:
    view = need(
        together=True,
        claimed_machine_count=1,
        residual_deficit=provider_pb2.Resources(resources={"cpu": "8", "memory": "1073741824"}),
        unmet_reason=shardread_pb2.UNMET_REASON_PRIORITY_STARVED,
        matching_supply=shardread_pb2.MatchingSupply(idle=0, configured=256, speculative=2, capped=True),
        age_cycles_unmet=5,
        same_domain="r1",
        acquisition_parked=True,
    )
    (line,) = verdict_lines([HEADER, view], REQUEST)
    assert line == (
        "cycle 42: short of cpu 8, memory 1Gi with 1 machines; priority starved; "
        "matching machines: 0 idle, 2 speculative, 256 in use or more; short for 5 cycles; gathers in r1; "
        "parked, since no domain can hold the whole gang"
    )


def test_other_needs_are_not_shown() -> None:
    others = [HEADER, need(8, satisfied=True), need(7, "a", satisfied=True)]
    assert verdict_lines(others, REQUEST) == ("cycle 42: the shard knows no such need",)


@pytest.mark.rule("shard#coverage-split", "operator#plugin-why")
def test_a_shard_that_says_how_far_machines_are_is_quoted_and_wanted_machines_do_not_cover() -> None:
    covered = need(satisfied=True, coverage=shardread_pb2.NeedCoverage(running=2, on_order=1))
    wanted = need(
        satisfied=True,
        coverage=shardread_pb2.NeedCoverage(
            running=2,
            wanted=1,
            missing=provider_pb2.Resources(resources={"cpu": "8"}),
            held_off="provider-unreachable",
            waiting_seconds=30.0,
        ),
    )
    assert verdict_lines([HEADER, covered, wanted], REQUEST) == (
        "cycle 42: covered: 2 running, 1 on order",
        "cycle 42: missing cpu 8: 2 running, 1 wanted; the wanted ones do not come: provider unreachable, waiting 30 s",
    )
