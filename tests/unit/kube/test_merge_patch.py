"""A merge patch names what differs, removals included, and nothing else."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bigfleet.kube.merge_patch import difference, quantities_by_value
from tests.support.kube_api.merge import merged

LEAVES = st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.lists(st.integers(), max_size=3))
NAMES = st.sampled_from(["a", "b", "c", "d"])
DOCUMENTS = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(LEAVES, inner), max_size=4),
    max_leaves=12,
)


@given(DOCUMENTS, DOCUMENTS)
def test_applying_the_difference_gives_what_was_wanted(
    stored: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert merged(stored, difference(stored, wanted)) == wanted


@given(DOCUMENTS)
def test_nothing_differs_from_itself(document: dict[str, Any]) -> None:
    assert difference(document, document) == {}


@given(DOCUMENTS, DOCUMENTS)
def test_neither_side_is_changed(stored: dict[str, Any], patch: dict[str, Any]) -> None:
    before = repr((stored, patch))
    merged(stored, patch)
    difference(stored, patch)
    assert repr((stored, patch)) == before


def test_a_key_that_is_gone_is_named_with_null() -> None:
    stored = {"spec": {"labels": {"a": "1", "b": "2"}, "taints": [1, 2]}}
    wanted = {"spec": {"labels": {"a": "1"}, "taints": [2]}}
    assert difference(stored, wanted) == {"spec": {"labels": {"b": None}, "taints": [2]}}


def test_true_is_not_one() -> None:
    assert difference({"a": 1}, {"a": True}) == {"a": True}


def test_amounts_are_compared_by_value_where_asked_for() -> None:
    same = quantities_by_value(("spec", "resources"))
    stored = {"spec": {"resources": {"cpu": "1500m", "memory": "1024Mi", "odd": "x"}, "note": "1500m"}}
    wanted = {"spec": {"resources": {"cpu": "1.5", "memory": "1Gi", "odd": "x"}, "note": "1.5"}}
    assert difference(stored, wanted, same) == {"spec": {"note": "1.5"}}


def test_one_amount_may_be_compared_by_value_too() -> None:
    same = quantities_by_value(("spec", "cost"))
    assert difference({"spec": {"cost": 3}}, {"spec": {"cost": "3.0"}}, same) == {}
    assert difference({"spec": {"cost": 3}}, {"spec": {"cost": "3.01"}}, same) == {"spec": {"cost": "3.01"}}
