"""A bare control plane for the tests of this folder, to be broken at will, and a reflector over its CapacityRequests."""

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.backoff import BackoffPolicy
from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.errors import KubeError
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.reflector import Reflector, ReflectorPolicy
from bigfleet.kube.resources import CAPACITY_REQUESTS, version_of
from bigfleet.kube.store import Store
from bigfleet.kube.transport import ApiTransport
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.options import ClusterOptions
from tests.support.kube_api.faults import FaultyTransport
from tests.support.kube_api.world import capacity_request

QUICK = ReflectorPolicy(backoff=BackoffPolicy(first_s=0.02, ceiling_s=0.1, healthy_after_s=1.0))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(autouse=True)
def figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Report what each case costs this process, both sides of the client; `pytest -rP` shows it."""
    began_s = time.process_time()
    yield
    cpu_s = time.process_time() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"figures: {request.node.name}: {cpu_s:.2f} s CPU, peak memory of the run so far {peak_mib:.0f} MiB"
    )


@pytest.fixture(scope="module")
def bare(testbed_binary: Path) -> Iterator[Cluster]:
    """An API server with its etcd and nothing else; a namespace object is not needed for custom resources here."""
    flags = ("--etcd-compaction-interval=1s", "--disable-admission-plugins=NamespaceLifecycle")
    options = ClusterOptions(scheduler=False, controllers=(), kwok=(), api_server_flags=flags)
    with Cluster(testbed_binary, options) as cluster:
        cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
        yield cluster


def transport_to(cluster: Cluster) -> HttpTransport:
    """Return a transport that logs in as a program would, by a kubeconfig."""
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(cluster.kubeconfig()))
    return HttpTransport(Login(target, SystemDisk(), SystemClock()))


@dataclass
class Watched:
    """A store that a reflector keeps, and a second, undisturbed way to the same server."""

    namespace: str
    client: KubeClient
    faults: FaultyTransport
    store: Store[int]
    reflector: Reflector[int]

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
        """Return once the condition holds; fail when the time has run out."""
        end_s = asyncio.get_running_loop().time() + seconds
        while not await condition():
            assert asyncio.get_running_loop().time() < end_s, f"not in time: {what}; {self.reflector.counts}"
            await asyncio.sleep(0.02)

    async def fresh(self) -> dict[str, int]:
        """Return what a list says now."""
        selection = Selection(CAPACITY_REQUESTS, namespace=self.namespace)
        return {item["metadata"]["name"]: version_of(item) for item in await self.client.list_all(selection)}

    async def equal(self) -> bool:
        """Return whether the store holds exactly what a fresh list shows, version by version."""
        seen = {key.name: version for key, version in self.store.snapshot().items()}
        try:
            return self.store.synced and seen == await self.fresh()
        except KubeError:
            return False  # a server that has just been started does not serve everything at once

    async def becomes_equal(self, seconds: float = 60.0) -> None:
        """Wait until the store equals a fresh list."""
        await self.until("store equals a fresh list", self.equal, seconds)

    async def create(self, names: Iterable[str], **spec: Any) -> None:
        """Create requests, twenty at a time."""
        await at_once(
            self.client.create(CAPACITY_REQUESTS, capacity_request(name, self.namespace, **spec))
            for name in names
        )


async def at_once(calls: Iterable[Awaitable[object]], width: int = 20) -> None:
    """Await many calls, so many at a time."""
    gate = asyncio.Semaphore(width)

    async def one(call: Awaitable[object]) -> None:
        async with gate:
            await call

    await asyncio.gather(*(one(call) for call in calls))


@asynccontextmanager
async def watched(
    cluster: Cluster,
    namespace: str,
    *,
    transport: ApiTransport | None = None,
    policy: ReflectorPolicy = QUICK,
    **changes: Any,
) -> AsyncIterator[Watched]:
    """Run a reflector over one namespace, through the given transport or one of its own."""
    clock, rng = SystemClock(), SeededRng(1)
    direct = KubeClient(transport_to(cluster), RateLimiter(clock, qps=5000, burst=5000))
    faults = FaultyTransport(transport or transport_to(cluster), clock)
    store: Store[int] = Store(version_of, clock=clock)
    reflector = Reflector(
        KubeClient(faults, RateLimiter(clock, qps=5000, burst=5000)),
        Selection(CAPACITY_REQUESTS, namespace=namespace),
        store,
        clock=clock,
        stream=rng.stream("reflector"),
        policy=replace(policy, **changes),
    )
    running = asyncio.ensure_future(reflector.run())
    try:
        yield Watched(namespace, direct, faults, store, reflector)
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})
        await faults.close()
        await direct.close()


WatchedIn = Callable[..., Any]


@pytest.fixture
def watch(bare: Cluster, new_name: Callable[[], str]) -> WatchedIn:
    """Return `watched` over a namespace of this test alone."""
    namespace = new_name()

    # Any: an async context manager of Watched, which tests cannot import from here.
    def open_one(*, cluster: Cluster = bare, **options: Any) -> Any:
        return watched(cluster, namespace, **options)

    return open_one


@pytest.fixture
def admin_link(bare: Cluster) -> Callable[[], HttpTransport]:
    """Return fresh links to the bare cluster."""
    return lambda: transport_to(bare)
