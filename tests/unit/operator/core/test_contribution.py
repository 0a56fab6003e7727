"""What one CapacityRequest adds to the demand, and each kind of request that is left out."""

from typing import Any

import pytest

from bigfleet.kube.event_reasons import NOT_REPORTED
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.profile import Requirement, RequirementOperator, Spread
from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.operator.core.refusal import RequestRefusal
from bigfleet.operator.core.request_status import view_of
from bigfleet.operator.core.rollup import KeptDemand, RollupRow

META = {"name": "cr", "namespace": "shop"}
VALUES = [f"{number:063d}" for number in range(200)]


def good(metadata: dict[str, Any] | None = None, **spec: Any) -> Contribution:
    found = Contributions().of(metadata or META, {"priority": 1, "resources": {"cpu": "1"}, **spec})
    assert isinstance(found, Contribution), found
    return found


def refused(**spec: Any) -> RequestRefusal:
    found = Contributions().of(META, {"priority": 1, "resources": {"cpu": "1"}, **spec})
    assert isinstance(found, RequestRefusal)
    return found


def row(*specs: dict[str, Any]) -> RollupRow:
    makes, demand = Contributions(), KeptDemand()
    for number, spec in enumerate(specs):
        found = makes.of(META, {"priority": 1, **spec})
        assert isinstance(found, Contribution)
        demand.put(ObjectKey("shop", str(number)), view_of(META, None, found))
    ((_, only),) = demand.take_changed(10**6)
    assert only is not None
    return only


@pytest.mark.rule("operator#canonical-amounts")
@pytest.mark.parametrize(
    ("amount", "sent"),
    [("1.5", "1500m"), ("1.5Gi", "1536Mi"), (2, "2"), ("0.1", "100m"), ("1e3", "1k"), ("1000Ki", "1000Ki")],
    ids=str,
)
def test_amounts_are_sent_in_canonical_form(amount: str | int, sent: str) -> None:
    found = row({"resources": {"memory": amount}})
    assert found.total == {"memory": sent}
    assert found.unit == {"memory": sent}


@pytest.mark.rule("operator#canonical-amounts")
def test_sums_of_both_families_are_exact_and_decimal() -> None:
    found = row({"resources": {"memory": "1Gi"}}, {"resources": {"memory": "1G"}})
    assert found.total == {"memory": str(2**30 + 10**9)}
    assert found.unit == {"memory": str(2**30)}


@pytest.mark.rule("operator#contribution")
def test_requests_equal_but_for_their_amounts_share_one_row() -> None:
    found = row({"resources": {"cpu": "1", "memory": "4Gi"}}, {"resources": {"cpu": "3", "memory": "1Gi"}})
    assert found.total == {"cpu": "4", "memory": "5Gi"}
    assert found.unit == {"cpu": "3", "memory": "4Gi"}


@pytest.mark.rule("operator#aggregation")
def test_requests_that_differ_in_the_limit_are_different_rows() -> None:
    makes = Contributions()
    rows = []
    for limit in (None, 1, 2, 1):
        spec = {"priority": 1, "resources": {"cpu": "1"}, "maxPerMachine": limit}
        found = makes.of(META, spec)
        assert isinstance(found, Contribution)
        rows.append(found.row)
    assert [one.max_units for one in rows] == [0, 1, 2, 1]
    assert rows[1] is rows[3]
    assert len({one.order for one in rows}) == 3


def test_an_empty_request_is_a_row_with_empty_maps() -> None:
    found = row({"resources": {}})
    assert (found.total, found.unit) == ({}, {})


@pytest.mark.rule("operator#penalty-buckets")
@pytest.mark.parametrize(
    ("dollars", "bucket"),
    [
        (None, 0),
        ("0", 1),
        (0, 1),
        ("-1", 1),
        ("250m", 2),
        ("500m", 2),
        ("0.5", 2),
        ("0.51", 3),
        ("1500m", 4),
        ("8000", 16),
        (8388608, 26),
        ("8388609", 27),
    ],
    ids=str,
)
def test_a_penalty_goes_into_its_bucket_each_by_itself(dollars: str | int | None, bucket: int) -> None:
    profile = good(interruptionPenalty=dollars).row.profile
    assert (profile.interruption_bucket, profile.reclamation_bucket) == (bucket, 0)
    profile = good(reclamationPenalty=dollars).row.profile
    assert (profile.interruption_bucket, profile.reclamation_bucket) == (0, bucket)


@pytest.mark.rule("operator#spread-kept")
def test_only_binding_spread_is_kept() -> None:
    terms = [
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        {"topologyKey": "row", "maxSkew": 0, "whenUnsatisfiable": "Sometimes"},
    ]
    assert good(topologySpread=terms).row.profile.spreads == (Spread("zone", 1),)


@pytest.mark.rule("operator#gang-rows")
def test_co_location_becomes_one_same_without_values_and_a_group() -> None:
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "train"}}}
    found = good(coLocation=term)
    assert found.row.profile.requirements == (Requirement("rack", RequirementOperator.SAME),)
    assert found.row.group == "shop\0rack\0app=train,;"


@pytest.mark.rule("operator#gang-rows")
@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param({}, True, id="equal terms"),
        pytest.param({"namespace": "lab"}, False, id="other namespace"),
        pytest.param({"selector": {"matchLabels": {"app": "b"}}}, False, id="other selector"),
        pytest.param({"key": "zone"}, False, id="other key"),
    ],
)
def test_equal_terms_are_one_row_and_others_are_not(change: dict[str, Any], same: bool) -> None:
    makes = Contributions()

    def of(namespace: str = "shop", selector: Any = None, key: str = "rack") -> Contribution:
        term = {"topologyKey": key, "labelSelector": selector or {"matchLabels": {"app": "a"}}}
        found = makes.of({"namespace": namespace}, {"priority": 1, "resources": {}, "coLocation": term})
        assert isinstance(found, Contribution)
        return found

    assert (of().row is of(**change).row) is same


def test_a_scope_annotation_replaces_the_namespace() -> None:
    noted = {"namespace": "shop", "annotations": {"bigfleet.lucy.sh/co-location-scope": "a,b;"}}
    assert good(noted, coLocation={"topologyKey": "rack"}).row.group == "a,b;\0rack\0"


def test_an_empty_topology_key_is_no_gang() -> None:
    found = good(coLocation={"topologyKey": "", "labelSelector": {}})
    assert (found.row.group, found.row.profile.requirements) == ("", ())


@pytest.mark.rule("operator#left-out-requests")
@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"requirements": [{"key": "a", "operator": "Same"}]}, "operator", "spec.requirements[0].operator"),
        ({"requirements": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, "operator", "'Gt'"),
        ({"requirements": [{"key": "a"}]}, "operator", "In, NotIn"),
        ({"requirements": [{"key": "a", "operator": "In"}]}, "requirement", "at least one"),
        ({"requirements": [{"key": "a;b", "operator": "Exists"}]}, "requirement", "'a;b'"),
        ({"requirements": [{"key": "", "operator": "Exists"}]}, "requirement", "key"),
        ({"requirements": [{"key": "a", "operator": "In", "values": ["x|y"]}]}, "requirement", "x|y"),
        ({"requirements": [{"key": "a", "operator": "In", "values": [7]}]}, "requirement", "label value"),
        ({"requirements": [{"key": "a", "operator": "Exists"}] * 10_000}, "requirement", "10000 entries"),
        ({"requirements": "all"}, "requirement", "spec.requirements"),
        (
            {"requirements": [{"key": f"k{n}", "operator": "In", "values": VALUES} for n in range(2)]},
            "requirement",
            "at most 16384",
        ),
        ({"resources": {"cpu": "12x"}}, "quantity", "spec.resources[cpu]"),
        ({"resources": {"cpu": "-1"}}, "quantity", "not negative"),
        ({"resources": {"cpu": "NaN"}}, "quantity", "NaN"),
        ({"resources": {"cpu": "1" * 80}}, "quantity", "spec.resources[cpu]"),
        ({"resources": {"cpu": "1e99"}}, "quantity", "exponent"),
        ({"resources": {"cpu": 1.5}}, "quantity", "1.5"),
        ({"resources": None}, "quantity", "spec.resources"),
        ({"resources": {f"r{n}": "1" for n in range(65)}}, "quantity", "at most 64"),
        ({"maxPerMachine": 0}, "quantity", "spec.maxPerMachine: found 0, allowed is 1 or more"),
        ({"maxPerMachine": -1}, "quantity", "1 or more"),
        ({"maxPerMachine": 2**31}, "quantity", "32 bits"),
        ({"maxPerMachine": "1"}, "quantity", "spec.maxPerMachine"),
        ({"maxPerMachine": True}, "quantity", "spec.maxPerMachine"),
        ({"maxPerMachine": 1, "resources": {}}, "quantity", "beside resources"),
        ({"maxPerMachine": 1, "resources": {"cpu": "0"}}, "quantity", "beside resources"),
        ({"interruptionPenalty": "lots"}, "quantity", "spec.interruptionPenalty"),
        ({"priority": 2**31}, "quantity", "spec.priority"),
        ({"priority": None}, "quantity", "spec.priority"),
        ({"priority": True}, "quantity", "spec.priority"),
        (
            {"topologySpread": [{"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]},
            "spread",
            "1 or more",
        ),
        (
            {"topologySpread": [{"topologyKey": "a b", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            "spread",
            "a b",
        ),
        ({"coLocation": {"topologyKey": "a b"}}, "selector", "topologyKey"),
        (
            {"coLocation": {"topologyKey": "a", "labelSelector": {"matchLabels": {"x": "y\0z"}}}},
            "selector",
            "matchLabels",
        ),
        (
            {
                "coLocation": {
                    "topologyKey": "a",
                    "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Like", "values": []}]},
                }
            },
            "selector",
            "Like",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_bad_request_is_left_out_with_field_and_reason(
    spec: dict[str, Any], reason: str, message: str
) -> None:
    found = refused(**spec)
    assert found.reason == reason
    assert message in found.message
    assert found.condition_reason == NOT_REPORTED[reason]
    assert len(found.message) < 400


@pytest.mark.parametrize("spec", [None, 7, "text", [], {"priority": {}}, {"resources": []}], ids=str)
def test_no_shape_of_a_spec_raises(spec: object) -> None:
    assert isinstance(Contributions().of(META, spec), RequestRefusal)


def test_values_of_exists_and_doubles_do_not_split_rows() -> None:
    makes = Contributions()
    one = {"requirements": [{"key": "a", "operator": "Exists"}] * 2, "priority": 1, "resources": {}}
    two = {
        "requirements": [{"key": "a", "operator": "Exists", "values": ["x"]}],
        "priority": 1,
        "resources": {},
    }
    first, second = makes.of(META, one), makes.of(META, two)
    assert isinstance(first, Contribution)
    assert isinstance(second, Contribution)
    assert first.row is second.row


def test_a_row_that_no_request_has_any_more_is_forgotten() -> None:
    makes = Contributions()
    kept = [makes.of(META, {"priority": n, "resources": {"cpu": n}}) for n in range(1, 1000)]
    assert len(makes._rows) == len(makes._amounts) == 999
    del kept
    assert len(makes._rows) == len(makes._amounts) == 0


def test_a_huge_selector_costs_no_more_than_a_hash() -> None:
    labels = {f"k{n}": "v" * 60 for n in range(2000)}
    group = good(coLocation={"topologyKey": "rack", "labelSelector": {"matchLabels": labels}}).row.group
    assert len(group) < 100
    assert group.startswith("shop\0rack\0sha256:")
