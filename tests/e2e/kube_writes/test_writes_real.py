"""Lease, eviction and events on the real API server."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient
from bigfleet.kube.events import EventRecorder, ObjectReference
from bigfleet.kube.eviction import EvictionVerdict, evict
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.lease import Lease, LeaseTimes
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, LEASES, NODES, PODS, ObjectKey
from bigfleet.kube.transport import Document
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import node, pod
from tests.support.kube_api.faults import Fault, FaultyTransport, Trouble
from tests.support.kube_api.objects import BUDGETS
from tests.support.kube_api.world import capacity_request

pytestmark = pytest.mark.asyncio

CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[tuple[KubeClient, FaultyTransport]]:
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(cluster.kubeconfig()))
    transport = FaultyTransport(HttpTransport(Login(target, SystemDisk(), CLOCK)), CLOCK)
    client = KubeClient(transport, RateLimiter(CLOCK, qps=1000, burst=1000))
    try:
        yield client, transport
    finally:
        await client.close()


async def until(what: str, condition: Callable[[], Awaitable[object]], seconds: float = 60.0) -> None:
    end_s = asyncio.get_running_loop().time() + seconds
    while not await condition():
        assert asyncio.get_running_loop().time() < end_s, f"not in time: {what}"
        await asyncio.sleep(0.02)


# ---- lease


@pytest.mark.rule("operator#u6")
async def test_two_candidates_take_turns_and_the_cut_off_one_stops_first(
    cluster: Cluster, namespace: str
) -> None:
    key = ObjectKey(namespace, "operator")
    times = LeaseTimes(duration_s=2, renew_deadline_s=1.2, retry_s=0.2)
    at_work: list[str] = []
    story: list[str] = []

    def work_of(name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            at_work.append(name)
            story.append(f"{name} begins with {len(at_work)}")
            try:
                await asyncio.Event().wait()
            finally:
                at_work.remove(name)
                story.append(f"{name} ends")

        return work

    async with connected(cluster) as (client_a, link_a), connected(cluster) as (client_b, _):
        leases = [
            Lease(client, key, name, clock=CLOCK, stream=SeededRng(1).stream(name), times=times)
            for client, name in ((client_a, "a"), (client_b, "b"))
        ]
        first = asyncio.ensure_future(leases[0].lead(work_of("a")))
        await until("a leads", lambda: holds(at_work, "a"))
        second = asyncio.ensure_future(leases[1].lead(work_of("b")))
        spec = (await client_b.get(LEASES, key))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("a", 0)
        link_a.add(Fault(Trouble.BREAK, times=10**6))
        assert await first is False
        await until("b leads", lambda: holds(at_work, "b"))
        second.cancel()
        await asyncio.wait({second})
        assert story == ["a begins with 1", "a ends", "b begins with 1", "b ends"]
        spec = (await client_b.get(LEASES, key))["spec"]
        assert (spec.get("holderIdentity", ""), spec["leaseTransitions"]) == ("", 1)


async def holds(at_work: list[str], name: str) -> bool:
    return at_work == [name]


# ---- eviction


def budget(name: str, namespace: str, app: str, least: int) -> Document:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_evictions_mean_what_the_real_server_says(
    cluster: Cluster, namespace: str, new_name: Callable[[], str]
) -> None:
    name = new_name()
    labels = {"test": name}
    async with connected(cluster) as (client, _):
        await client.create(NODES, node(name, labels=labels))
        pods: dict[str, Document] = {}
        for pod_name, app in (("web-0", "web"), ("web-1", "web"), ("two-0", "two"), ("free-0", "free")):
            document = pod(pod_name, labels={"app": app}, nodeSelector=labels)
            document["metadata"]["namespace"] = namespace
            pods[pod_name] = await client.create(PODS, document)
        await client.create(BUDGETS, budget("web", namespace, "web", 1))
        await client.create(BUDGETS, budget("two-a", namespace, "two", 1))
        await client.create(BUDGETS, budget("two-b", namespace, "two", 1))

        async def all_run() -> bool:
            found = [await client.get(PODS, ObjectKey(namespace, each)) for each in pods]
            return all((each.get("status") or {}).get("phase") == "Running" for each in found)

        async def budget_known() -> bool:
            status: dict[str, Any] = (await client.get(BUDGETS, ObjectKey(namespace, "web"))).get(
                "status"
            ) or {}
            return status.get("disruptionsAllowed") == 1

        await until("pods run", all_run)
        await until("the budget is known", budget_known)

        async def verdict(pod_name: str, uid: str = "") -> EvictionVerdict:
            key = ObjectKey(namespace, pod_name)
            answer = await evict(client, key, uid or pods[pod_name]["metadata"]["uid"])
            return answer.verdict

        # Not on a pod with a budget: the server spends it before it checks the uid.
        assert await verdict("free-0", uid="00000000-0000-4000-8000-000000000000") is EvictionVerdict.REPLACED
        assert await verdict("web-0") is EvictionVerdict.ACCEPTED
        assert await verdict("web-1") is EvictionVerdict.BUDGET
        assert await verdict("two-0") is EvictionVerdict.SEVERAL_BUDGETS
        assert await verdict("free-0") is EvictionVerdict.ACCEPTED

        async def is_gone() -> bool:
            return await verdict("free-0") is EvictionVerdict.GONE

        await until("the evicted pod is gone", is_gone)
        for each in ("web-1", "two-0"):
            await client.delete(PODS, ObjectKey(namespace, each))
        await client.delete(NODES, ObjectKey("", name))


# ---- events


async def test_events_are_accepted_counted_and_shown(cluster: Cluster, namespace: str) -> None:
    async with connected(cluster) as (client, _):
        made = await client.create(CAPACITY_REQUESTS, capacity_request("cr-1", namespace))
        recorder = EventRecorder(client, "bigfleet-operator", clock=CLOCK, host="pod-0")
        running = asyncio.ensure_future(recorder.run())
        about = ObjectReference(CAPACITY_REQUESTS, ObjectKey(namespace, "cr-1"), made["metadata"]["uid"])
        on_node = ObjectReference(NODES, ObjectKey("", "some-node"), "uid-of-a-node")
        recorder.record(on_node, "Normal", "ReclaimStarted", namespace)
        for _ in range(2):
            recorder.record(about, "Warning", "NotReported", "spec.resources: found 'x'")
            await until("written", lambda: idle(recorder))
        running.cancel()
        await asyncio.wait({running})
        assert recorder.dropped == 0
        (event,) = [
            item
            for item in cluster.admin.get(EVENTS.path(namespace=namespace))["items"]
            if item["reason"] == "NotReported"
        ]
        assert (event["count"], event["involvedObject"]["kind"]) == (2, "CapacityRequest")
        in_default = cluster.admin.get(EVENTS.path(namespace="default"))["items"]
        assert namespace in [item["message"] for item in in_default]
    described = await asyncio.to_thread(cluster.kubectl, "describe", "cr", "cr-1", "-n", namespace)
    assert "NotReported" in described


async def idle(recorder: EventRecorder) -> bool:
    return recorder.is_idle
