"""Guesses about a need from the rows of its shard (`dashboard#approximate`)."""

from typing import Any

from bigfleet.dashboard.core.approximate import approximate, find
from bigfleet.explain.tables import need_listings, need_title


def row(cluster: str, *, held: int = 0, satisfied: bool = True, **given: Any) -> dict[str, Any]:
    return {
        "clusterId": cluster, "profileFingerprint": "f", "group": "", "priority": 10, "satisfied": satisfied,
        "unmetReason": "SATISFIED" if satisfied else "PRIORITY_STARVED", "acquisitionParked": False, "sameDomain": "",
        "aggregateResources": {"cpu": "8"}, "residualDeficit": {} if satisfied else {"cpu": "4"},
        "claimedMachineCount": held, "sameCandidates": [], "preemption": {"victimsFound": 0},
        "matchingSupply": {"idle": 1, "configured": 2, "speculative": 3, "capped": True},
    } | given  # fmt: skip


ROWS = [
    row("a", held=2),
    row("b", held=5),
    row("gpu", held=9, aggregateResources={"gpu": "1"}),
    row("c", satisfied=False),
]


def test_a_need_is_found_by_cluster_profile_and_gang() -> None:
    assert find(ROWS, "b", "f", "") == 1
    assert find(ROWS, "b", "f", "gang") is None


def test_competitors_are_the_needs_ahead_that_hold_the_same_resources_most_first() -> None:
    reply = approximate(ROWS, 3)
    assert [(item["cluster"], item["machines"]) for item in reply["competitors"]] == [("b", 5), ("a", 2)]
    assert {item["relation"] for item in reply["competitors"]} == {"approximate: ahead"}


def test_the_sentence_says_that_it_is_a_guess_and_what_is_known() -> None:
    assert approximate(ROWS, 3)["sentence"] == (
        "Approximate: short cpu=4 of cpu=8, 0 machines taken: what matches serves needs of higher precedence. "
        "Matching machines: 1 idle, 2 configured, 3 speculative or more."
    )
    assert approximate(ROWS, 0)["sentence"] == "Approximate: satisfied with 2 machines."


def test_it_has_the_form_of_the_engines_so_that_the_same_tables_show_it() -> None:
    gang = row(
        "d",
        satisfied=False,
        sameDomain="r1",
        sameCandidates=[{"domain": "r1", "coveragePerMille": 500, "satisfiable": False}],
    )
    reply = approximate([*ROWS, gang], 4)
    assert need_title(reply) == "need 4 of d, priority 10"
    assert [listing.name for listing in need_listings(reply, quick=True)] == ["competitors", "domains"]
