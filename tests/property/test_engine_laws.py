"""The production engine against the naive reference model: equal decisions, actions in order included."""

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigfleet.engine.cycle import decide_situation
from bigfleet.model.situation import Situation
from bigfleet.testing.situations import situations
from tests.reference.model import decide as reference


@given(situations())
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_production_and_reference_decide_alike(situation: Situation) -> None:
    assert decide_situation(situation) == reference(situation)


@pytest.mark.long
@given(situations())
@settings(max_examples=50_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_production_and_reference_decide_alike_at_length(situation: Situation) -> None:
    assert decide_situation(situation) == reference(situation)


@given(situations())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_labels_split_off_as_wide_change_no_decision(situation: Situation) -> None:
    plain = decide_situation(situation)
    with patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 1):
        assert decide_situation(situation) == plain


@given(situations())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_amounts_beyond_64_bits_change_no_decision(situation: Situation) -> None:
    plain = decide_situation(situation)
    with patch("bigfleet.engine.amounts._SAFE", 0):  # every sum is then taken for too large
        assert decide_situation(situation) == plain


@given(situations(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_order_of_machines_is_irrelevant(situation: Situation, rng: object) -> None:
    machines = list(situation.machines)
    rng.shuffle(machines)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    shuffled = Situation(
        situation.now,
        tuple(machines),
        situation.needs,
        situation.parked,
        situation.reported_clusters,
        situation.holds,
    )
    assert decide_situation(shuffled) == decide_situation(situation)
