"""The plan for a pod, from every state that may be left half done (`operator#request-life`)."""

from dataclasses import replace
from typing import Any

import pytest

from bigfleet.kube.resources import ObjectKey
from bigfleet.podcontroller.core.request_plan import (
    RequestPlan,
    request_document,
    request_names,
    request_plan,
)
from bigfleet.podcontroller.core.views import OwnedRequest, PodState, PodView, text_of

UID = "5f0c7a1e-93b2-4c1d-9a70-0123456789ab"
SPEC: dict[str, Any] = {"priority": 0, "requirements": [], "resources": {"cpu": "1500m"}}
POD = PodView(
    ObjectKey("shop", "cart-0"), UID, PodState.LIVE, False, "2026-11-17T12:00:00Z", text_of(SPEC), ""
)


def request(
    name: str = "cr-pod-cart-0-5f0c7a1e-93b2", *, phase: str = "Pending", spec: Any = None, scope: str = ""
) -> OwnedRequest:
    return OwnedRequest(ObjectKey("shop", name), f"uid-{name}", UID, 7, text_of(spec or SPEC), scope, phase)


GOOD = request()


@pytest.mark.parametrize(
    ("pod", "requests", "wanted"),
    [
        pytest.param(POD, (), RequestPlan("cr_created", create=True), id="a live pod gets its request"),
        pytest.param(POD, (GOOD,), RequestPlan("cr_exists", keep=GOOD), id="has it"),
        pytest.param(
            None, (GOOD,), RequestPlan("pod_gone"), id="a pod that is gone is the garbage collector's"
        ),
        pytest.param(
            replace(POD, state=PodState.FINISHED),
            (GOOD,),
            RequestPlan("pod_terminal", drop=(GOOD,)),
            id="a finished pod loses its request",
        ),
        pytest.param(
            replace(POD, state=PodState.FINISHED),
            (),
            RequestPlan("pod_terminal"),
            id="finished when first seen: nothing",
        ),
        pytest.param(
            replace(POD, state=PodState.GATED),
            (),
            RequestPlan("pod_gated"),
            id="a gated pod asks for nothing yet",
        ),
        pytest.param(
            replace(POD, state=PodState.GATED),
            (GOOD,),
            RequestPlan("pod_gated", drop=(GOOD,)),
            id="a gated pod counted by the original no longer counts",
        ),
        pytest.param(
            replace(POD, state=PodState.TERMINATING),
            (),
            RequestPlan("pod_gone"),
            id="terminating: nothing new",
        ),
        pytest.param(
            replace(POD, state=PodState.TERMINATING),
            (GOOD,),
            RequestPlan("cr_exists", keep=GOOD),
            id="terminating: the request stays until the pod is gone",
        ),
    ],
)
def test_a_pod_needs(pod: PodView | None, requests: tuple[OwnedRequest, ...], wanted: RequestPlan) -> None:
    assert request_plan(pod, requests) == wanted
    assert wanted.is_nothing == (not wanted.create and not wanted.drop)


def test_a_request_without_a_phase_is_stamped() -> None:
    bare = request(phase="")
    assert request_plan(POD, (bare,)) == RequestPlan("cr_exists", keep=bare, stamp=True)


def test_a_resized_pod_changes_the_spec_and_nothing_else() -> None:
    small = request(spec={**SPEC, "resources": {"cpu": "1", "memory": "1Gi"}}, phase="Acknowledged")
    found = request_plan(POD, (small,))
    assert (found.outcome, found.keep, found.stamp) == ("cr_updated", small, False)
    assert found.patch == {"spec": {"resources": {"cpu": "1500m", "memory": None}}}


@pytest.mark.parametrize("amount", ["1.5", "1500m", "1500000u"])
def test_an_amount_written_otherwise_is_no_difference(amount: str) -> None:
    same = request(spec={**SPEC, "resources": {"cpu": amount}})
    assert request_plan(POD, (same,)) == RequestPlan("cr_exists", keep=same)


def test_a_scope_is_added_and_removed_as_the_pod_says() -> None:
    scoped = replace(POD, scope="a,b;")
    key = "bigfleet.lucy.sh/co-location-scope"
    assert request_plan(scoped, (GOOD,)).patch == {"metadata": {"annotations": {key: "a,b;"}}}
    assert request_plan(POD, (request(scope="x;"),)).patch == {"metadata": {"annotations": {key: None}}}


def test_of_several_requests_the_acknowledged_one_stays_then_the_one_of_our_name() -> None:
    old, older = request("cr-pod-cart-0-x7k2p", phase="Acknowledged"), request("cr-pod-cart-0-b")
    assert request_plan(POD, (older, GOOD, old)).keep == old
    assert request_plan(POD, (older, GOOD, old)).drop == (older, GOOD)
    assert request_plan(POD, (older, GOOD)).keep == GOOD
    assert request_plan(POD, (older, GOOD)).drop == (older,)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("cart-0", "cart-0"),
        ("a" * 253, "a" * 200),
        ("a" * 198 + "-.b", "a" * 198),
    ],
)
def test_the_name_follows_from_pod_name_and_uid(name: str, short: str) -> None:
    first, second = request_names(replace(POD, key=ObjectKey("shop", name)))
    assert first == f"cr-pod-{short}-5f0c7a1e-93b2"
    assert second == f"cr-pod-{short}-{UID}"
    assert len(second) <= 253


def test_a_request_is_owned_by_its_pod_and_labelled() -> None:
    document = request_document(replace(POD, scope="x;"), "cr-pod-cart-0-5f0c7a1e-93b2")
    assert document["metadata"] == {
        "name": "cr-pod-cart-0-5f0c7a1e-93b2",
        "namespace": "shop",
        "labels": {"bigfleet.lucy.sh/owned-by-pod": UID},
        "annotations": {"bigfleet.lucy.sh/co-location-scope": "x;"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "cart-0", "uid": UID, "controller": True}
        ],
    }
    assert document["spec"] == SPEC
