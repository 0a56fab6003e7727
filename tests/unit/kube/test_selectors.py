"""The text of a selector is the original's, and does not depend on the order of its parts (`operator#gang-rows`)."""

from typing import Any

import pytest

from bigfleet.kube.selectors import selector_text

WHOLE = {
    "matchLabels": {"job": "t", "app": "a"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "app", "operator": "Exists"},
    ],
}


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param(None, "", id="missing"),
        pytest.param({}, ";", id="empty"),
        pytest.param({"matchLabels": None, "matchExpressions": None}, ";", id="empty, written out"),
        pytest.param({"matchLabels": {"job": "t", "app": "a"}}, "app=a,job=t,;", id="labels by key"),
        pytest.param(WHOLE, "app=a,job=t,;app Exists ;tier In a,b;", id="mixed"),
    ],
)
def test_a_selector_is_written_as(selector: Any, text: str) -> None:
    assert selector_text(selector) == text


def test_expressions_are_ordered_by_key_operator_and_values() -> None:
    one, two = (
        {"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "a", "operator": "In", "values": ["b"]},
    )
    texts = {selector_text({"matchExpressions": list(order)}) for order in ((one, two), (two, one))}
    assert texts == {";a In b;a In x,y;"}
