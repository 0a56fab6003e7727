"""Paths are made from parts, with a namespace exactly where the kind has one."""

import pytest

from bigfleet.kube.resources import CAPACITY_REQUESTS, NODES, PODS, UPCOMING_NODES, ObjectKey, key_of
from bigfleet.model.errors import InvalidFieldError


def test_paths() -> None:
    ours = "/apis/bigfleet.lucy.sh/v1alpha1"
    key = ObjectKey("shop", "cr-1")
    assert CAPACITY_REQUESTS.path() == f"{ours}/capacityrequests"
    assert CAPACITY_REQUESTS.path(namespace="shop") == f"{ours}/namespaces/shop/capacityrequests"
    assert (
        CAPACITY_REQUESTS.path(key, subresource="status")
        == f"{ours}/namespaces/shop/capacityrequests/cr-1/status"
    )
    assert NODES.path(ObjectKey("", "n1")) == "/api/v1/nodes/n1"
    assert PODS.path(ObjectKey("a", "b"), subresource="eviction") == "/api/v1/namespaces/a/pods/b/eviction"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert NODES.path(ObjectKey("", "../pods")) == "/api/v1/nodes/..%2Fpods"


def test_a_kind_without_namespace_takes_none_and_the_others_need_one() -> None:
    with pytest.raises(InvalidFieldError, match="no namespace for upcomingnodes"):
        UPCOMING_NODES.path(ObjectKey("shop", "x"))
    with pytest.raises(InvalidFieldError, match="a namespace for pods"):
        PODS.path(ObjectKey("", "x"))


def test_keys_read_well() -> None:
    assert str(ObjectKey("shop", "x")) == "shop/x"
    assert str(ObjectKey("", "n1")) == "n1"
    assert key_of({"metadata": {"name": "n1"}}) == ObjectKey("", "n1")
