"""Co-location from required pod affinity, and binding spread.

Rules: `operator#pod-requirements`, `operator#pod-affinity`; ADR-0024.
"""

from typing import Any

import pytest

from bigfleet.podcontroller.core.affinity import co_location_of, spread_of

SELECTOR = {"matchLabels": {"job": "t"}}
TERM = {"topologyKey": "rack", "labelSelector": SELECTOR}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def together(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


@pytest.mark.rule("operator#pod-affinity")
@pytest.mark.parametrize(
    ("spec", "found", "scope"),
    [
        pytest.param(
            together(TERM), {"topologyKey": "rack", "labelSelector": SELECTOR}, "", id="80 required"
        ),
        pytest.param(
            together(TERM, {**TERM, "topologyKey": "zone"}),
            {"topologyKey": "rack", "labelSelector": SELECTOR},
            "",
            id="80 the first term alone",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}}},
            None,
            "",
            id="80 preferred is not read",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, None, "", id="80 anti-affinity is not read"
        ),
        pytest.param(
            together({**TERM, "namespaces": ["b", "a"]}),
            {"topologyKey": "rack", "labelSelector": SELECTOR},
            "a,b;",
            id="80 namespaces set the scope",
        ),
        pytest.param(
            together({**TERM, "namespaceSelector": {"matchLabels": {"team": "x"}}}),
            {"topologyKey": "rack", "labelSelector": SELECTOR},
            ";team=x,;",
            id="80 a namespace selector sets the scope",
        ),
        pytest.param(
            together({**TERM, "namespaceSelector": {}}),
            {"topologyKey": "rack", "labelSelector": SELECTOR},
            ";;",
            id="an empty namespace selector is all namespaces",
        ),
        pytest.param(together({"topologyKey": "rack"}), {"topologyKey": "rack"}, "", id="no selector"),
        pytest.param(
            together({"topologyKey": "rack", "labelSelector": {}}),
            {"topologyKey": "rack", "labelSelector": {}},
            "",
            id="a selector of everything stays one",
        ),
        pytest.param({}, None, "", id="no affinity"),
    ],
)
def test_co_location(spec: dict[str, Any], found: dict[str, Any] | None, scope: str) -> None:
    assert co_location_of(spec) == (found, scope)


def constraint(word: str, key: str = "zone") -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": 2, "whenUnsatisfiable": word, "labelSelector": SELECTOR}


@pytest.mark.rule("operator#e16")
def test_soft_spread_is_left_out_and_binding_spread_copied() -> None:
    spec = {"topologySpreadConstraints": [constraint("ScheduleAnyway"), constraint("DoNotSchedule", "rack")]}
    assert spread_of(spec) == (
        [{"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}],
        [],
    )


def test_more_spread_than_the_schema_takes_is_cut_and_told() -> None:
    terms, warnings = spread_of(
        {"topologySpreadConstraints": [constraint("DoNotSchedule", f"k{n}") for n in range(17)]}
    )
    assert len(terms) == 16
    assert warnings == ["17 spread constraints, only the first 16 count"]
