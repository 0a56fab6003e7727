"""The penalty matrix of the cost page: what runs where, and what is wrong with it in sentences (`dashboard#page-cost`)."""

import re

import pytest

from bigfleet.dashboard.core.money import finops
from bigfleet.dashboard.pages.cost import _buckets, penalty, warnings


def words(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)).strip()


INVENTORY: dict[tuple[str, ...], float] = {
    ("Configured", "Spot", "4096"): 3.0,
    ("Configured", "Spot", "0"): 5.0,
    ("Configured", "OnDemand", "pinned"): 2.0,
    ("Configured", "OnDemand", "0"): 10.0,
    ("Idle", "OnDemand", "0"): 7.0,
}


@pytest.mark.rule("dashboard#page-cost")
def test_a_dear_interruption_on_a_spot_machine_is_marked_and_said() -> None:
    reported = finops(INVENTORY, {("4096",): 2.0}, {})
    said = words(_buckets(reported))
    assert "■ 3 spot machines carry work that loses up to $4096 when interrupted." in said
    assert "40.0 % of the machines that serve are spot machines." in said
    assert "10 machines not bought as spot serve work whose interruption costs nothing" in said
    assert (
        "penalty on OnDemand on Spot needs nothing 10 5 0 up to $4,096 0 ■ 3 2 never to be interrupted 2 0 0"
        in said
    )
    assert "No work that is dear" not in said


@pytest.mark.rule("dashboard#page-cost")
def test_a_fleet_that_is_well_says_so() -> None:
    reported = finops({("Configured", "OnDemand", "4096"): 3.0}, {}, {})
    (good, spot) = map(words, warnings(reported))
    assert good == "● No work that is dear to interrupt runs on a spot machine."
    assert spot.startswith("0.0 %")
    assert [words(line) for line in warnings(finops({}, {}, {}))] == ["No machine serves a need."]
    assert "No machine serves yet" in _buckets(finops({}, {}, {}))
    assert "--scrape" in _buckets(None)


def test_a_penalty_in_words() -> None:
    found = [penalty(bucket) for bucket in ("0", "0.5", "8192", "pinned", "unspecified")]
    assert found == ["nothing", "up to $0.50", "up to $8,192", "never to be interrupted", "not stated"]
