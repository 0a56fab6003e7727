"""A real cluster that records every call, and the pod controller in it under exactly its role."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.transport import ApiTransport
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.controller import PodController, PodControllerOptions
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS, PenaltyDefaults
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from tests.e2e.rights import CONTROLLER as UPC
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import ApiRefusedError

CRS = "/apis/bigfleet.lucy.sh/v1alpha1"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def audited(audited_cluster: Cluster) -> Cluster:
    """The cluster with a record of all calls, and a user with exactly the rights of the pod controller."""
    return audited_cluster


class Shop:
    """One namespace of one test: its pods and their requests."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.pods_path = f"/api/v1/namespaces/{name}/pods"
        self.crs_path = f"{CRS}/namespaces/{name}/capacityrequests"

    def pods(self) -> list[Any]:
        return list(self.cluster.admin.get(self.pods_path)["items"])

    def requests(self) -> list[Any]:
        return list(self.cluster.admin.get(self.crs_path)["items"])

    def request_of(self, pod: str) -> Any:
        """Return the request of a pod by the pod's name; None if there is not exactly one."""
        uid = self.cluster.admin.get(f"{self.pods_path}/{pod}")["metadata"]["uid"]
        found = [item for item in self.requests() if label(item) == uid]
        return found[0] if len(found) == 1 else None

    def one_each(self) -> bool:
        """Whether every live pod has exactly one request with a phase, and there is no other request."""
        live = sorted(
            pod["metadata"]["uid"]
            for pod in self.pods()
            if pod["status"]["phase"] not in ("Succeeded", "Failed")
            and not pod["spec"].get("schedulingGates")
        )
        requests = self.requests()
        return sorted(map(label, requests)) == live and all("status" in item for item in requests)

    def acknowledge(self, request: Any) -> None:
        """Acknowledge a request as the operator does."""
        status = {"phase": "Acknowledged", "acknowledgedAt": "2026-11-17T12:00:00Z"}
        self.cluster.admin.patch(f"{self.crs_path}/{request['metadata']['name']}/status", {"status": status})

    def events(self, pod: str) -> list[Any]:
        path = f"/api/v1/namespaces/{self.name}/events?fieldSelector=involvedObject.name={pod}"
        items = self.cluster.admin.get(path)["items"]
        return [
            item
            for item in items
            if item["source"].get("component") == "bigfleet-unschedulable-pod-controller"
        ]


def label(request: Any) -> str:
    return str(request["metadata"].get("labels", {}).get("bigfleet.lucy.sh/owned-by-pod", ""))


@pytest.fixture
def shop(audited: Cluster, new_name: Callable[[], str]) -> Iterator[Shop]:
    """A namespace of this test alone in the audited cluster."""
    name = audited.make_namespace(new_name())
    yield Shop(audited, name)
    try:
        audited.admin.delete(f"/api/v1/namespaces/{name}")
    except ApiRefusedError as gone:
        assert gone.status in (404, 409)  # noqa: PT017  a test may have deleted it itself


@pytest.fixture
def transport_to(audited: Cluster) -> Callable[..., HttpTransport]:
    """Return new transports to the audited cluster, with the login of a program."""

    def make(user: str = UPC) -> HttpTransport:
        target = find_target(os.environ, SystemDisk(), kubeconfig=str(audited.kubeconfig(user)))
        return HttpTransport(Login(target, SystemDisk(), SystemClock()))

    return make


@asynccontextmanager
async def _controller(
    transport: ApiTransport, options: PodControllerOptions | None, defaults: PenaltyDefaults
) -> AsyncIterator[PodController]:
    clock = SystemClock()
    client = KubeClient(transport, RateLimiter(clock, qps=1000, burst=1000))
    options = options or PodControllerOptions(stamp_after_s=0.1)
    metrics = Metrics(POD_CONTROLLER_METRICS, CollectorRegistry(), version="0", commit="0")
    controller = PodController(
        client,
        clock=clock,
        rng=SeededRng(1),
        metrics=metrics,
        options=options,
        defaults=defaults,
    )
    tasks = {asyncio.ensure_future(controller.keep_caches()), asyncio.ensure_future(controller.work())}
    try:
        yield controller
        for task in tasks:
            assert not task.done(), task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await client.close()


@pytest.fixture
def controller(transport_to: Callable[..., HttpTransport]) -> Callable[..., Any]:
    """Run a controller in this process: `async with controller() as running`."""

    # Any: an async context manager of PodController, which tests cannot import from here.
    def run(
        *,
        transport: ApiTransport | None = None,
        options: PodControllerOptions | None = None,
        defaults: PenaltyDefaults = NO_DEFAULTS,
    ) -> Any:
        return _controller(transport or transport_to(), options, defaults)

    return run


@pytest.fixture
def until(audited: Cluster) -> Callable[..., Awaitable[Any]]:
    """Wait for a condition without blocking the event loop of the controller."""

    async def wait(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
        return await asyncio.to_thread(audited.wait, what, condition, seconds)

    return wait
