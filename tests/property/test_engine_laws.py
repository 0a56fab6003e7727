"""The production engine against the naive reference model: equal decisions, actions in order included.

Situations come from seeds, which is ten times as quick as drawing each choice; one law draws them, so that a failure is
made as small as can be.
"""

from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.engine.cycle import decide_situation
from bigfleet.model.situation import Situation
from tests.reference.model import decide as reference
from tests.support.situations import CROWDED, Kind, situation_of, situations

PARTS = range(2)  # side by side


def agree(seed: int, kind: Kind | None = None) -> None:
    situation = situation_of(Random(seed).choice, kind)
    # Small situations are looked at rank by rank every other time, as those with many needs of one rank are.
    with patch("bigfleet.engine.phase1.acquire._WORTH_A_PART", seed % 2 * 64):
        assert decide_situation(situation) == reference(situation)


@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1000)
def test_production_and_reference_decide_alike(part: int, seed: int) -> None:
    agree(seed * len(PARTS) + part)


@given(situations())
@settings(max_examples=50)
def test_production_and_reference_decide_alike_where_a_failure_is_made_small(situation: Situation) -> None:
    assert decide_situation(situation) == reference(situation)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**62))
@settings(max_examples=25_000)
def test_production_and_reference_decide_alike_at_length(part: int, seed: int) -> None:
    agree(seed * len(PARTS) + part)


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_labels_split_off_as_wide_change_no_decision(seed: int) -> None:
    with patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 1):
        agree(seed)


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_amounts_beyond_64_bits_change_no_decision(seed: int) -> None:
    # Every sum is then taken for too large, where amounts are kept and where domains are compared.
    with patch("bigfleet.engine.amounts._SAFE", 0), patch("bigfleet.engine.phase1.domains._SAFE", 0):
        agree(seed)


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_spread_over_many_values_is_decided_as_spread_over_few(seed: int) -> None:
    with patch("bigfleet.engine.phase1.acquire.FEW_VALUES", 0):
        agree(seed)


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_what_gangs_count_on_is_taken_off_at_once_as_it_is_one_by_one(seed: int) -> None:
    with patch("bigfleet.engine.phase1.gang_supply._A_FEW", 0):
        agree(seed)


@pytest.mark.rule("engine#open-demand")
@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=500)
def test_many_open_needs_of_few_sorts_are_decided_as_one_by_one(part: int, seed: int) -> None:
    agree(seed * len(PARTS) + part, CROWDED[seed % len(CROWDED)])


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**62))
@settings(max_examples=25_000)
def test_many_open_needs_of_few_sorts_are_decided_as_one_by_one_at_length(part: int, seed: int) -> None:
    agree(seed * len(PARTS) + part, CROWDED[seed % len(CROWDED)])


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_many_open_needs_with_labels_split_off_as_wide_are_decided_alike(seed: int) -> None:
    with patch("bigfleet.model.inventory.wide_labels.MANY_VALUES", 1):
        agree(seed, CROWDED[seed % len(CROWDED)])


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_many_open_needs_of_amounts_beyond_64_bits_are_decided_alike(seed: int) -> None:
    with patch("bigfleet.engine.amounts._SAFE", 0), patch("bigfleet.engine.phase1.domains._SAFE", 0):
        agree(seed, CROWDED[seed % len(CROWDED)])
