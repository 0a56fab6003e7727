"""Good and bad objects of our kinds on the real API server: what it accepts, and the message of each refusal."""

from collections.abc import Callable
from typing import Any

import pytest

from bigfleet.kube.crds.upcoming_node import PHASES as NODE_PHASES
from bigfleet.kube.event_reasons import NOT_REPORTED
from tests.support.control_plane.client import MERGE_PATCH
from tests.support.control_plane.cluster import Cluster

API = "/apis/bigfleet.lucy.sh/v1alpha1"
BASE = {"priority": 100, "resources": {"cpu": "500m"}}
SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
NO_QUANTITY = "should match '^"
NEGATIVE = "a resource amount must not be negative"
OPERATOR = "operator must be In, NotIn, Exists or DoesNotExist"
NEEDS_VALUES = "operator In and NotIn need at least one value"
NO_VALUES = "operator Exists and DoesNotExist take no values"


def requirement(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def request(**spec: Any) -> dict[str, Any]:
    return {**BASE, **spec}


def needs(*requirements: dict[str, Any]) -> dict[str, Any]:
    return request(requirements=list(requirements))


def spread(**changes: Any) -> dict[str, Any]:
    return request(topologySpread=[{**SPREAD, **changes}])


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


GOOD_REQUESTS = {
    "the least": {"priority": 0, "resources": {}},
    "negative priority": request(priority=-10),
    "largest priority": request(priority=2_147_483_647),
    "amounts as numbers": request(resources={"cpu": 4, "nvidia.com/gpu": 8}),
    "every suffix": request(resources={f"r{n}": f"1{s}" for n, s in enumerate((*"numkMGTPE", *BINARY))}),
    "fractions and exponents": request(resources={"a": "1.5", "b": ".5", "c": "1e3", "d": "2E-3", "e": "+7"}),
    "zero": request(resources={"cpu": 0, "memory": "0"}),
    "64 resources": request(resources={f"example.com/r{n}": "1" for n in range(64)}),
    "longest resource name": request(resources={"r" * 317: "1"}),
    "all four operators": needs(
        requirement("In", "a", "b"),
        requirement("NotIn", "c"),
        requirement("Exists"),
        requirement("DoesNotExist"),
    ),
    "an empty list of values where none are taken": needs({**requirement("Exists"), "values": []}),
    "an empty label value": needs(requirement("In", "")),
    "no requirements": needs(),
    "64 requirements": needs(*[requirement("Exists", key=f"k{n}") for n in range(64)]),
    "256 values": needs(requirement("In", *[f"v{n}" for n in range(256)])),
    "longest key and value": needs(requirement("In", "v" * 63, key="k" * 317)),
    "both words of spread": request(
        topologySpread=[SPREAD, {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]
    ),
    "16 spread terms": request(topologySpread=[{**SPREAD, "topologyKey": f"k{n}"} for n in range(16)]),
    "co-location without a selector": request(coLocation={"topologyKey": "rack"}),
    "co-location with a whole selector": request(
        coLocation={
            "topologyKey": "rack",
            "labelSelector": {
                "matchLabels": {"job": "t"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
            },
        }
    ),
    "penalties as text and number": request(interruptionPenalty="0.5", reclamationPenalty=4096),
    "no penalty at all but zero": request(interruptionPenalty=0, reclamationPenalty="0"),
}

BAD_REQUESTS: dict[str, tuple[Any, str, str]] = {
    "no priority": (without(BASE, "priority"), "spec.priority", "Required value"),
    "no resources": (without(BASE, "resources"), "spec.resources", "Required value"),
    "priority as text": (request(priority="high"), "spec.priority", "must be of type integer"),
    "priority beyond 32 bits": (request(priority=2**31), "<nil>", "format int32 in spec.priority"),
    "the quickstart's old shape": ({"count": 3, "profile": {}}, "spec.priority", "Required value"),
    "resources as a list": (request(resources=[]), "spec.resources", "must be of type object"),
    "negative amount": (request(resources={"cpu": "-1"}), "spec.resources[cpu]", NEGATIVE),
    "negative amount as a number": (request(resources={"cpu": -1}), "spec.resources[cpu]", NEGATIVE),
    "negative amount with a suffix": (
        request(resources={"memory": "-5Gi"}),
        "spec.resources[memory]",
        NEGATIVE,
    ),
    "amount of no grammar": (request(resources={"cpu": "much"}), "spec.resources.cpu", NO_QUANTITY),
    "amount that is not a number": (request(resources={"cpu": "NaN"}), "spec.resources.cpu", NO_QUANTITY),
    "infinite amount": (request(resources={"cpu": "Infinity"}), "spec.resources.cpu", NO_QUANTITY),
    "amount with underscores": (request(resources={"cpu": "1_000"}), "spec.resources.cpu", NO_QUANTITY),
    "amount with a blank": (request(resources={"cpu": " 1"}), "spec.resources.cpu", NO_QUANTITY),
    "empty amount": (request(resources={"cpu": ""}), "spec.resources.cpu", NO_QUANTITY),
    "amount as a truth": (
        request(resources={"cpu": True}),
        "spec.resources.cpu",
        "must be of type integer,string",
    ),
    "amount as a fraction": (
        request(resources={"cpu": 1.5}),
        "spec.resources.cpu",
        "must be of type integer,string",
    ),
    "absurdly long amount": (
        request(resources={"cpu": "1" * 65}),
        "spec.resources.cpu",
        "may not be more than 64",
    ),
    "65 resources": (request(resources={f"r{n}": "1" for n in range(65)}), "spec.resources", "at most 64"),
    "empty resource name": (request(resources={"": "1"}), "spec.resources", "1 to 317 characters"),
    "overlong resource name": (request(resources={"r" * 318: "1"}), "spec.resources", "1 to 317 characters"),
    "operator Same": (needs(requirement("Same")), "spec.requirements[0].operator", OPERATOR),
    "operator Gt": (needs(requirement("Gt", "3")), "spec.requirements[0].operator", OPERATOR),
    "operator Lt": (needs(requirement("Lt", "3")), "spec.requirements[0].operator", OPERATOR),
    "operator in lower case": (needs(requirement("in", "a")), "spec.requirements[0].operator", OPERATOR),
    "empty operator": (needs(requirement("")), "spec.requirements[0].operator", OPERATOR),
    "nonsense as operator": (needs(requirement("Maybe")), "spec.requirements[0].operator", OPERATOR),
    "In without values": (needs(requirement("In")), "spec.requirements[0]", NEEDS_VALUES),
    "NotIn without values": (needs(requirement("NotIn")), "spec.requirements[0]", NEEDS_VALUES),
    "In with an empty list": (
        needs({**requirement("In"), "values": []}),
        "spec.requirements[0]",
        NEEDS_VALUES,
    ),
    "Exists with values": (needs(requirement("Exists", "a")), "spec.requirements[0]", NO_VALUES),
    "DoesNotExist with values": (needs(requirement("DoesNotExist", "a")), "spec.requirements[0]", NO_VALUES),
    "requirement without key": (needs({"operator": "Exists"}), "spec.requirements[0].key", "Required value"),
    "requirement without operator": (needs({"key": "a"}), "spec.requirements[0].operator", "Required value"),
    "empty key": (needs(requirement("Exists", key="")), "spec.requirements[0].key", "key must not be empty"),
    "overlong key": (
        needs(requirement("Exists", key="k" * 318)),
        "spec.requirements[0].key",
        "may not be more than 317",
    ),
    "overlong value": (
        needs(requirement("In", "v" * 64)),
        "spec.requirements[0].values[0]",
        "may not be more than 63",
    ),
    "65 requirements": (
        needs(*[requirement("Exists", key=f"k{n}") for n in range(65)]),
        "spec.requirements",
        "must have at most 64 items",
    ),
    "10,000 requirements": (
        needs(*[requirement("Exists", key=f"k{n}") for n in range(10_000)]),
        "spec.requirements",
        "must have at most 64 items",
    ),
    "257 values": (
        needs(requirement("In", *[f"v{n}" for n in range(257)])),
        "spec.requirements[0].values",
        "must have at most 256 items",
    ),
    "the second requirement is named": (
        needs(requirement("Exists"), requirement("Same")),
        "spec.requirements[1].operator",
        OPERATOR,
    ),
    "skew of zero": (spread(maxSkew=0), "spec.topologySpread[0].maxSkew", "maxSkew must be at least 1"),
    "negative skew": (spread(maxSkew=-3), "spec.topologySpread[0].maxSkew", "maxSkew must be at least 1"),
    "unknown word of spread": (
        spread(whenUnsatisfiable="Sometimes"),
        "spec.topologySpread[0].whenUnsatisfiable",
        "whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway",
    ),
    "spread over nothing": (
        spread(topologyKey=""),
        "spec.topologySpread[0].topologyKey",
        "topologyKey must not be empty",
    ),
    "spread without its parts": (
        request(topologySpread=[{"topologyKey": "zone"}]),
        "spec.topologySpread[0].maxSkew",
        "Required value",
    ),
    "17 spread terms": (
        request(topologySpread=[SPREAD] * 17),
        "spec.topologySpread",
        "must have at most 16 items",
    ),
    "limit of zero": (request(maxPerMachine=0), "spec.maxPerMachine", "maxPerMachine must be at least 1"),
    "negative limit": (request(maxPerMachine=-2), "spec.maxPerMachine", "maxPerMachine must be at least 1"),
    "limit on nothing": (
        request(maxPerMachine=1, resources={}),
        "spec.maxPerMachine",
        "maxPerMachine needs resources",
    ),
    "co-location over nothing": (
        request(coLocation={"topologyKey": ""}),
        "spec.coLocation.topologyKey",
        "coLocation.topologyKey must not be empty",
    ),
    "co-location without a key": (
        request(coLocation={"labelSelector": {}}),
        "spec.coLocation.topologyKey",
        "Required value",
    ),
    "selector expression without operator": (
        request(coLocation={"topologyKey": "r", "labelSelector": {"matchExpressions": [{"key": "a"}]}}),
        "spec.coLocation.labelSelector.matchExpressions[0].operator",
        "Required value",
    ),
    "negative interruption penalty": (
        request(interruptionPenalty="-0.5"),
        "spec.interruptionPenalty",
        "interruptionPenalty must not be negative",
    ),
    "negative reclamation penalty": (
        request(reclamationPenalty=-1),
        "spec.reclamationPenalty",
        "reclamationPenalty must not be negative",
    ),
    "penalty of no grammar": (request(interruptionPenalty="$5"), "spec.interruptionPenalty", NO_QUANTITY),
}


def condition(**changes: Any) -> dict[str, Any]:
    whole = {
        "type": "Reported",
        "status": "True",
        "reason": "InRollUp",
        "message": "",
        "lastTransitionTime": "2026-11-16T12:00:00Z",
        "observedGeneration": 1,
    }
    return {**whole, **changes}


GOOD_STATUSES: dict[str, dict[str, Any]] = {
    "pending": {"phase": "Pending"},
    "acknowledged, the operator's patch": {
        "phase": "Acknowledged",
        "acknowledgedAt": "2026-11-16T12:00:00Z",
        "conditions": [condition()],
    },
    **{
        f"not reported, {reason}": {
            "phase": "Pending",
            "conditions": [condition(status="False", reason=reason, message="spec.x: found y, allowed is z")],
        }
        for reason in NOT_REPORTED.values()
    },
}

BAD_STATUSES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a third phase": ({"phase": "Shortfall"}, "status.phase", 'Unsupported value: "Shortfall"'),
    "an empty phase": ({"phase": ""}, "status.phase", 'Unsupported value: ""'),
    "a condition without a phase": ({"conditions": [condition()]}, "status.phase", "Required value"),
    "no time": ({"phase": "Acknowledged", "acknowledgedAt": "now"}, "status.acknowledgedAt", "date-time"),
    "a condition of no status": (
        {"phase": "Pending", "conditions": [condition(status="Yes")]},
        "status.conditions[0].status",
        'Unsupported value: "Yes"',
    ),
    "a reason that is a sentence": (
        {"phase": "Pending", "conditions": [condition(reason="it is wrong")]},
        "status.conditions[0].reason",
        "should match",
    ),
    "the same condition twice": (
        {"phase": "Pending", "conditions": [condition(), condition()]},
        "status.conditions[1]",
        "Duplicate value",
    ),
}

NODE = {"resources": {"cpu": "8"}}
GOOD_NODES: dict[str, dict[str, Any]] = {
    "empty shape": {"resources": {}},
    "whole shape": {
        "labels": {"a": "b"},
        "resources": {"cpu": 8, "memory": "32Gi"},
        "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoExecute"}],
    },
}
BAD_NODES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no resources": ({"labels": {}}, "spec.resources", "Required value"),
    "a taint without effect": (
        {**NODE, "taints": [{"key": "k"}]},
        "spec.taints[0].effect",
        "Required value",
    ),
    "a label that is a number": ({**NODE, "labels": {"a": 1}}, "spec.labels.a", "must be of type string"),
    "an amount of no grammar": ({"resources": {"cpu": "x"}}, "spec.resources.cpu", NO_QUANTITY),
}

HINT = {"availability": "High", "availableCount": 3, "cost": "3.06", "resources": {}}
GOOD_HINTS: dict[str, dict[str, Any]] = {
    "empty resources": HINT,
    "no cost": {**HINT, "cost": 0},
    "a profile with an operator of the wire": {**HINT, "requirements": [{"key": "rack", "operator": "Same"}]},
    **{f"availability {word}": {**HINT, "availability": word} for word in ("None", "Low", "Medium")},
}
BAD_HINTS: dict[str, tuple[dict[str, Any], str, str]] = {
    **{f"no {name}": (without(HINT, name), f"spec.{name}", "Required value") for name in HINT},
    "an unknown confidence": ({**HINT, "availability": "Some"}, "spec.availability", "Unsupported value"),
    "a cost of no grammar": ({**HINT, "cost": "free"}, "spec.cost", NO_QUANTITY),
}


def send(cluster: Cluster, path: str, kind: str, name: str, spec: Any) -> tuple[int, Any]:
    body = {"apiVersion": "bigfleet.lucy.sh/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    answer = cluster.admin.call("POST", path, body)
    return answer.status, answer.body


def refused(answer: tuple[int, Any], field: str, sentence: str) -> None:
    status, body = answer
    assert status == 422, body
    causes = [f"{cause['field']}: {cause['message']}" for cause in body["details"]["causes"]]
    assert any(line.startswith(f"{field}: ") and sentence in line for line in causes), causes


def requests_path(namespace: str) -> str:
    return f"{API}/namespaces/{namespace}/capacityrequests"


@pytest.mark.parametrize("case", GOOD_REQUESTS)
def test_a_good_request_is_stored_as_sent(cluster: Cluster, case: str) -> None:
    status, body = send(
        cluster, requests_path("default") + "?dryRun=All", "CapacityRequest", "x", GOOD_REQUESTS[case]
    )
    assert status == 201, body
    assert body["spec"] == GOOD_REQUESTS[case]


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_is_refused_with_its_sentence(cluster: Cluster, case: str) -> None:
    spec, field, sentence = BAD_REQUESTS[case]
    refused(send(cluster, requests_path("default"), "CapacityRequest", "x", spec), field, sentence)


@pytest.mark.parametrize("case", GOOD_NODES)
def test_a_good_node_is_stored_as_sent(cluster: Cluster, case: str) -> None:
    status, body = send(cluster, f"{API}/upcomingnodes?dryRun=All", "UpcomingNode", "un-x", GOOD_NODES[case])
    assert (status, body.get("spec")) == (201, GOOD_NODES[case])


@pytest.mark.parametrize("case", BAD_NODES)
def test_a_bad_node_is_refused_with_its_sentence(cluster: Cluster, case: str) -> None:
    spec, field, sentence = BAD_NODES[case]
    refused(send(cluster, f"{API}/upcomingnodes", "UpcomingNode", "un-x", spec), field, sentence)


@pytest.mark.parametrize("case", GOOD_HINTS)
def test_a_good_hint_is_stored_as_sent(cluster: Cluster, case: str) -> None:
    path = f"{API}/availablecapacities?dryRun=All"
    status, body = send(cluster, path, "AvailableCapacity", "ac-x", GOOD_HINTS[case])
    assert (status, body.get("spec")) == (201, GOOD_HINTS[case])


@pytest.mark.parametrize("case", BAD_HINTS)
def test_a_bad_hint_is_refused_with_its_sentence(cluster: Cluster, case: str) -> None:
    spec, field, sentence = BAD_HINTS[case]
    path = f"{API}/availablecapacities"
    refused(send(cluster, path, "AvailableCapacity", "ac-x", spec), field, sentence)


def test_every_good_status_of_a_request_is_taken_and_every_bad_one_refused(
    cluster: Cluster, namespace: str
) -> None:
    path = requests_path(namespace)
    assert send(cluster, path, "CapacityRequest", "x", BASE)[0] == 201
    for case, status in GOOD_STATUSES.items():
        answer = cluster.admin.call("PATCH", f"{path}/x/status", {"status": status}, content_type=MERGE_PATCH)
        assert answer.status == 200, (case, answer.body)
    before = cluster.admin.get(f"{path}/x")
    for status, field, sentence in BAD_STATUSES.values():
        # Unlike a merge, a replacement keeps nothing of the good status before.
        answer = cluster.admin.call("PUT", f"{path}/x/status", {**before, "status": status})
        refused((answer.status, answer.body), field, sentence)
    assert cluster.admin.get(f"{path}/x") == before


def test_every_phase_of_a_node_is_taken_and_no_other(cluster: Cluster, new_name: Callable[[], str]) -> None:
    name = f"un-{new_name()}"
    path = f"{API}/upcomingnodes"
    assert send(cluster, path, "UpcomingNode", name, NODE)[0] == 201
    for phase in NODE_PHASES:
        status = {
            "phase": phase,
            "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"},
            "providerID": "fake://1",
            "provisioningStartTime": "2026-11-16T12:00:00Z",
            "lastError": "x" if phase == "Failed" else None,
        }
        cluster.admin.patch(f"{path}/{name}/status", {"status": status})
    answer = cluster.admin.call(
        "PATCH", f"{path}/{name}/status", {"status": {"phase": "Gone"}}, content_type=MERGE_PATCH
    )
    refused((answer.status, answer.body), "status.phase", 'Unsupported value: "Gone"')
    cluster.admin.delete(f"{path}/{name}")


def test_the_table_is_as_long_as_promised() -> None:
    good = (GOOD_REQUESTS, GOOD_STATUSES, GOOD_NODES, GOOD_HINTS)
    bad = (BAD_REQUESTS, BAD_STATUSES, BAD_NODES, BAD_HINTS)
    assert sum(map(len, good)) + sum(map(len, bad)) >= 60
