"""What the status of a CapacityRequest says, and when a write is due."""

from typing import Any

import pytest

from bigfleet.operator.core.contribution import Contributions
from bigfleet.operator.core.refusal import RequestRefusal
from bigfleet.operator.core.request_status import RequestView, acknowledged_status, refused_status, view_of

NOW = "2030-01-01T00:00:00Z"
FALSE = {
    "type": "Reported",
    "status": "False",
    "reason": "InvalidOperator",
    "observedGeneration": 2,
    "message": "",
    "lastTransitionTime": NOW,
}


def seen(status: object = None, *, good: bool = True, generation: int = 2) -> RequestView:
    spec = {"priority": 1, "resources": {}} if good else {"requirements": [{"operator": "Same"}]}
    return view_of({"uid": "u", "generation": generation}, status, Contributions().of({}, spec))


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (None, True),
        ({}, True),
        ({"phase": "Pending"}, True),
        ({"phase": "Acknowledged"}, False),
        ({"phase": "Acknowledged", "conditions": [{"type": "Other", "status": "False"}]}, False),
        ({"phase": "Acknowledged", "conditions": [FALSE]}, True),
        ({"phase": "Pending", "conditions": [FALSE]}, True),
        ({"conditions": ["nonsense"]}, True),
        ("nonsense", True),
    ],
    ids=str,
)
def test_a_good_request_is_marked_once_and_again_after_repair(status: Any, wanted: bool) -> None:
    assert seen(status).wants_acknowledgement is wanted
    assert not seen(status).wants_refusal


@pytest.mark.rule("operator#left-out-requests")
def test_a_bad_request_is_told_once_per_generation() -> None:
    assert seen(None, good=False).wants_refusal
    assert not seen({"phase": "Pending", "conditions": [FALSE]}, good=False).wants_refusal
    assert seen({"phase": "Pending", "conditions": [FALSE]}, good=False, generation=3).wants_refusal
    assert not seen(None, good=False).wants_acknowledgement


def test_the_acknowledgement_carries_phase_time_and_condition_in_one_patch() -> None:
    status = acknowledged_status(seen(), NOW)
    assert (status["phase"], status["acknowledgedAt"]) == ("Acknowledged", NOW)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == (
        "True",
        "InRollUp",
        2,
    )


def test_a_repaired_request_keeps_the_time_of_its_first_acknowledgement() -> None:
    assert "acknowledgedAt" not in acknowledged_status(seen({"phase": "Acknowledged"}), NOW)


@pytest.mark.parametrize(("before", "after"), [("", "Pending"), ("Acknowledged", "Acknowledged")])
def test_a_refusal_leaves_the_phase(before: str, after: str) -> None:
    view = seen({"phase": before}, good=False)
    assert isinstance(view.found, RequestRefusal)
    status = refused_status(view, view.found, NOW)
    assert status["phase"] == after
    assert status["conditions"][0]["reason"] == "InvalidOperator"
    assert "spec.requirements[0].operator" in status["conditions"][0]["message"]
