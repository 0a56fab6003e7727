"""Every verb of the role is needed: without any one of them the pod controller is denied something (`operator#roles`).

An administrator impersonates an account that has the role without one verb.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.lease import Lease
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import ObjectKey
from bigfleet.kube.roles import LEADER_ELECT, POD_CONTROLLER, POD_EVENTS
from tests.e2e.rights import Denied, bind, less, rights
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import pod

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

FLAGS = frozenset({POD_EVENTS, LEADER_ELECT})
WAITS: dict[str, Any] = {"nodeSelector": {"no": "node"}}
Until = Callable[..., Awaitable[Any]]
Shop = Any


RIGHTS = rights(POD_CONTROLLER)


@pytest.mark.rule("operator#roles", "packaging#roles")
@pytest.mark.parametrize("right", RIGHTS, ids=[f"{name} {verb}" for name, verb in RIGHTS])
async def test_without_one_verb_something_is_denied(
    controller: Callable[..., Any], shop: Shop, audited: Cluster, until: Until, right: tuple[str, str]
) -> None:
    resource, verb = right
    name = f"upc-{resource.replace('/', '-')}-{verb}"
    bind(audited, replace(less(POD_CONTROLLER, resource, verb), name=name), name, FLAGS)
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(audited.kubeconfig()))
    login = Login(replace(target, impersonate=name), SystemDisk(), SystemClock())
    transport = Denied(HttpTransport(login))

    taken = audited.admin.post(shop.pods_path, pod("taken", **WAITS))["metadata"]["uid"]
    foreign = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": f"cr-pod-taken-{taken[:13]}"},
        "spec": {"priority": 1, "resources": {}},
    }
    audited.admin.post(shop.crs_path, foreign)
    note = {"bigfleet.lucy.sh/interruption-penalty": "much"}
    noted = audited.admin.post(shop.pods_path, pod("noted", annotations=note, **WAITS))["metadata"]["uid"]
    done = audited.admin.post(shop.pods_path, pod("done", **WAITS))["metadata"]["uid"]
    # What an earlier process left: a request of a pod that has finished, and one that no longer fits its pod.
    for owner, uid in (("done", done), ("noted", noted)):
        left = {
            **foreign,
            "metadata": {"name": f"left-{owner}", "labels": {"bigfleet.lucy.sh/owned-by-pod": uid}},
        }
        audited.admin.post(shop.crs_path, left)
    audited.admin.patch(f"{shop.pods_path}/done/status", {"status": {"phase": "Succeeded"}})

    client = KubeClient(transport, RateLimiter(SystemClock(), qps=500, burst=500))
    key = ObjectKey("default", f"lease-{name.replace('.', '-')}")
    lease = Lease(client, key, "me", clock=SystemClock(), stream=SeededRng(1).stream("lease"))
    leading = asyncio.ensure_future(lease.lead(asyncio.Event().wait))  # type: ignore[arg-type]  # waits for ever
    try:
        async with controller(transport=transport):
            if right == ("events", "patch"):
                await until("the event is written", lambda: shop.events("noted"))
                await asyncio.to_thread(audited.admin.delete, f"{shop.crs_path}/left-noted")
            await until(f"{verb} on {resource} is denied", lambda: right in transport.denied)
            assert transport.denied == {right}
            # The transport is closed with the controller, so its other users end first.
            leading.cancel()
            await asyncio.wait({leading})
    finally:
        leading.cancel()
