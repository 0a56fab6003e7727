"""Laws of the roll-up: the order of requests never shows, and nothing is lost or added."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.quantity import parse_quantity
from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.operator.core.rollup import RollupBuilder, RollupRow

KEYS = st.sampled_from(["zone", "rack", "a.example/type"])
VALUES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)
REQUIREMENTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": VALUES}),
        st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    ),
    max_size=3,
)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]),
    st.sampled_from(["1", "500m", "1Gi", "1G", "0", "1536Mi"]),
    max_size=3,
)
SELECTORS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "matchLabels": st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"])),
            "matchExpressions": st.lists(
                st.fixed_dictionaries({"key": KEYS, "operator": st.just("In"), "values": VALUES}), max_size=2
            ),
        }
    ),
)
SPECS = st.fixed_dictionaries(
    {"priority": st.integers(0, 2), "resources": AMOUNTS, "requirements": REQUIREMENTS},
    optional={
        "coLocation": st.fixed_dictionaries({"topologyKey": KEYS, "labelSelector": SELECTORS}),
        "interruptionPenalty": st.sampled_from(["0", "250m", 7]),
    },
)


def rows(specs: list[dict[str, Any]]) -> list[RollupRow]:
    makes, builder = Contributions(), RollupBuilder()
    for spec in specs:
        found = makes.of({"namespace": "shop"}, spec)
        assert isinstance(found, Contribution), found
        builder.add(found)
    return list(builder.rows())


def shuffled(value: Any, random: Random) -> Any:
    """Return the same demand in another order."""
    if isinstance(value, dict):
        entries = [(name, shuffled(inner, random)) for name, inner in value.items()]
        random.shuffle(entries)
        return dict(entries)
    if isinstance(value, list):
        items = [shuffled(inner, random) for inner in value]
        random.shuffle(items)
        return items
    return value


@pytest.mark.rule("operator#equal-bytes")
@given(st.lists(SPECS, max_size=8), st.randoms(use_true_random=False))
def test_no_order_of_requests_labels_values_or_expressions_shows(
    specs: list[dict[str, Any]], random: Random
) -> None:
    assert rows(specs) == rows(shuffled(specs, random))


@given(st.lists(SPECS, max_size=8))
def test_the_total_of_all_rows_is_the_total_of_all_requests(specs: list[dict[str, Any]]) -> None:
    for name in ("cpu", "memory", "gpu"):
        asked = sum(parse_quantity(spec["resources"].get(name, "0")) for spec in specs)
        assert sum(parse_quantity(row.total.get(name, "0")) for row in rows(specs)) == asked
        largest = max((parse_quantity(spec["resources"].get(name, "0")) for spec in specs), default=0)
        assert max((parse_quantity(row.unit.get(name, "0")) for row in rows(specs)), default=0) == largest


@given(st.lists(SPECS, max_size=8))
def test_rows_are_distinct(specs: list[dict[str, Any]]) -> None:
    identities = [(row.profile.fingerprint, row.group) for row in rows(specs)]
    assert len(set(identities)) == len(identities)
