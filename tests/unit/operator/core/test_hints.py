"""54: the AvailableCapacity of a hint."""

import math

import pytest

from bigfleet.model.frames import CapacityHint
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.profile import Requirement, RequirementOperator
from bigfleet.operator.core.hints import hint_spec, plain_dollars


@pytest.mark.rule("operator#available-capacity")
@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0.0, "0"),
        (0.096, "0.096"),
        (1e-7, "0"),
        (1.5e-5, "0.000015"),
        (12.0, "12"),
        (1e15, "1000000000000000"),
        (math.nan, "0"),
        (math.inf, "0"),
        (-1.0, "0"),
    ],
)
def test_a_price_is_a_plain_decimal(dollars: float, text: str) -> None:
    assert plain_dollars(dollars) == text


def test_a_hint_with_everything() -> None:
    hint = CapacityHint(
        key="available:x",
        requirements=(
            Requirement("zone", RequirementOperator.IN, ("b", "a")),
            Requirement("rack", RequirementOperator.SAME),
        ),
        resources=FrozenMap({"cpu": "8"}),
        available=7,
        confidence="High",
        cost_per_hour=0.5,
    )
    assert hint_spec(hint) == {
        "availability": "High",
        "availableCount": 7,
        "cost": "0.5",
        "resources": {"cpu": "8"},
        "requirements": [
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "rack", "operator": "Same"},
        ],
    }


def test_a_hint_with_nothing_is_written_all_the_same() -> None:
    spec = hint_spec(CapacityHint("available:x", confidence="Surely"))
    assert spec == {"availability": "None", "availableCount": 0, "cost": "0", "resources": {}}
