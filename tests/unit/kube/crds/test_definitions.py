"""The definitions are the original's shape with our additions: names, columns, required fields, limits."""

from typing import Any

import pytest

from bigfleet.kube.crds.available_capacity import AVAILABLE_CAPACITY
from bigfleet.kube.crds.capacity_request import CAPACITY_REQUEST
from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.crds.schema import QUANTITY_PATTERN
from bigfleet.kube.crds.upcoming_node import UPCOMING_NODE


@pytest.mark.parametrize(
    ("definition", "plural", "short", "scope", "columns"),
    [
        (
            CAPACITY_REQUEST,
            "capacityrequests",
            ["cr", "crs"],
            "Namespaced",
            ["Phase", "Reason", "Priority", "Age"],
        ),
        (
            AVAILABLE_CAPACITY,
            "availablecapacities",
            ["avc"],
            "Cluster",
            ["Availability", "Available", "Cost"],
        ),
        (UPCOMING_NODE, "upcomingnodes", ["upn"], "Cluster", ["Phase", "Node", "Age"]),
    ],
)
def test_names_and_columns(
    definition: Definition, plural: str, short: list[str], scope: str, columns: list[str]
) -> None:
    manifest = definition.manifest()
    spec = manifest["spec"]
    assert manifest["metadata"]["name"] == f"{plural}.bigfleet.lucy.sh"
    assert (spec["names"]["plural"], spec["names"]["shortNames"], spec["scope"]) == (plural, short, scope)
    assert spec["names"]["categories"] == ["fleet"]
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}
    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns


def test_only_the_phase_of_a_request_is_selectable() -> None:
    selectable = {d.kind: d.manifest()["spec"]["versions"][0].get("selectableFields") for d in DEFINITIONS}
    assert selectable == {
        "CapacityRequest": [{"jsonPath": ".status.phase"}],
        "AvailableCapacity": None,
        "UpcomingNode": None,
    }


@pytest.mark.parametrize(
    ("definition", "spec", "status"),
    [
        (CAPACITY_REQUEST, ["priority", "resources"], ["phase"]),
        (UPCOMING_NODE, ["resources"], ["phase"]),
        (AVAILABLE_CAPACITY, ["availability", "availableCount", "cost", "resources"], None),
    ],
)
def test_required_fields(definition: Definition, spec: list[str], status: list[str] | None) -> None:
    assert definition.schema()["required"] == ["spec"]
    assert definition.spec["required"] == spec
    assert definition.status.get("required") == status


def test_limits_of_a_request() -> None:
    spec: dict[str, Any] = CAPACITY_REQUEST.spec["properties"]
    assert spec["requirements"]["maxItems"] == 64
    assert spec["requirements"]["items"]["properties"]["values"]["maxItems"] == 256
    assert spec["requirements"]["items"]["properties"]["key"]["maxLength"] == 317
    assert spec["requirements"]["items"]["properties"]["values"]["items"]["maxLength"] == 63
    assert spec["resources"]["maxProperties"] == 64
    assert spec["topologySpread"]["maxItems"] == 16


def test_every_rule_has_a_sentence_and_every_field_a_description() -> None:
    def walk(schema: dict[str, Any], path: str) -> None:
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule["message"], path
            assert not rule["message"].endswith("."), path
        for name, inner in schema.get("properties", {}).items():
            assert inner.get("description") or (path, name) == ("", "metadata"), f"{path}.{name}"
            walk(inner, f"{path}.{name}")
        if "items" in schema:
            walk(schema["items"], f"{path}[]")
        if isinstance(schema.get("additionalProperties"), dict):
            walk(schema["additionalProperties"], f"{path}.*")

    for definition in DEFINITIONS:
        walk(definition.schema(), "")


def test_a_quantity_is_what_the_original_takes_for_one() -> None:
    assert UPCOMING_NODE.spec["properties"]["resources"]["additionalProperties"] == {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    }
