"""Rows of a what-if (`dashboard#what-if-difference`)."""

from typing import Any

import pytest

from bigfleet.dashboard.core.difference import shown


def side(need: int) -> dict[str, Any]:
    return {"state": "Configured", "cluster": "web", "action": None, "needs": [need]}


def machine(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    shape = {"instance_type": "m5", "zone": "a", "capacity_type": "Spot", "price_per_hour": 1.0}
    return {"machine": "m-1", **shape, "before": before, "after": after}


@pytest.mark.rule("dashboard#what-if-difference")
def test_a_machine_that_goes_to_another_need_of_its_cluster_says_so() -> None:
    (row,) = shown({"needs": [], "machines": [machine(side(0), side(2))]})["machines"]
    assert (row["before"], row["after"]) == ("Configured for web, need 0", "Configured for web, need 2")


@pytest.mark.rule("dashboard#what-if-difference")
def test_a_machine_that_is_drained_needs_no_numbers() -> None:
    (row,) = shown({"needs": [], "machines": [machine(side(0), side(0) | {"action": "Reclaim"})]})["machines"]
    assert (row["before"], row["after"]) == ("Configured for web", "Reclaim for web")
