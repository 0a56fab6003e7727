"""The pod controller before the oldest Kubernetes that the testbed can play."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.login import Login, find_target
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import pod
from tests.support.control_plane.options import OLDEST_MINOR, ClusterOptions

pytestmark = [pytest.mark.asyncio, pytest.mark.long]


async def test_a_pods_life_on_the_oldest_minor(
    make_cluster: Callable[[ClusterOptions], Cluster], controller: Callable[..., Any]
) -> None:
    old = await asyncio.to_thread(make_cluster, ClusterOptions(minor=OLDEST_MINOR))
    namespace = await asyncio.to_thread(old.make_namespace, "shop")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    requests = f"/apis/bigfleet.lucy.sh/v1alpha1/namespaces/{namespace}/capacityrequests"
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(old.kubeconfig()))
    transport = HttpTransport(Login(target, SystemDisk(), SystemClock()))

    async def until(what: str, count: int) -> None:
        await asyncio.to_thread(old.wait, what, lambda: len(old.admin.get(requests)["items"]) == count)

    waits: Callable[..., Awaitable[Any]] = asyncio.to_thread
    async with controller(transport=transport):
        gated = pod("gated", schedulingGates=[{"name": "example.com/g"}], nodeSelector={"no": "node"})
        await waits(old.admin.post, pods, gated)
        await waits(old.admin.post, pods, pod("free", nodeSelector={"no": "node"}))
        await until("the free pod has a request", 1)
        await waits(old.admin.patch, f"{pods}/gated", {"spec": {"schedulingGates": None}})
        await until("both have one", 2)
        await waits(old.admin.patch, f"{pods}/free/status", {"status": {"phase": "Failed"}})
        await until("the failed one has none", 1)
        await waits(old.admin.delete, f"{pods}/gated")
        await until("the deleted one has none", 0)
