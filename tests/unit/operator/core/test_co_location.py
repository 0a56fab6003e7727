"""26: after the scope the group text is the original's, for missing, empty and mixed selectors."""

from typing import Any

import pytest

from bigfleet.operator.core.co_location import group_text
from bigfleet.operator.core.refusal import RefusedRequestError

VECTORS: list[tuple[Any, str]] = [
    (None, ""),
    ({}, ";"),
    ({"matchLabels": {}}, ";"),
    ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2,;"),
    ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["z", "a"]}]}, ";k In a,z;"),
    ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, ";k Exists ;"),
    (
        {
            "matchLabels": {"app": "x"},
            "matchExpressions": [
                {"key": "t", "operator": "NotIn", "values": ["b"]},
                {"key": "t", "operator": "In", "values": ["c", "b"]},
                {"key": "s", "operator": "DoesNotExist"},
            ],
        },
        "app=x,;s DoesNotExist ;t In b,c;t NotIn b;",
    ),
]


@pytest.mark.rule("operator#group-text")
@pytest.mark.parametrize(("selector", "text"), VECTORS, ids=[text or "missing" for _, text in VECTORS])
def test_selector_text(selector: Any, text: str) -> None:
    assert group_text("shop", "rack", selector) == f"shop\0rack\0{text}"


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": ["a"]},
        {"matchExpressions": "a"},
        {"matchExpressions": ["a"]},
        {"matchExpressions": [{"key": "k", "operator": "In", "values": "a"}]},
        {"matchExpressions": [{"key": None, "operator": "In", "values": ["a"]}]},
        {"matchLabels": {"k": 5}},
    ],
    ids=str,
)
def test_a_selector_of_another_shape_is_refused(selector: Any) -> None:
    with pytest.raises(RefusedRequestError) as caught:
        group_text("shop", "rack", selector)
    assert caught.value.reason == "selector"
