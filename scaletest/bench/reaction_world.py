"""One cluster with everything real from the API server to the provider, and the time of every hop from pod to Create call.

Times come from outside of the processes wherever possible: the API server's audit log, and the bytes that operator, shard and provider
send each other through two proxies on loopback. All of it is on one machine, so that the clocks agree. The shard is asked once at the
end when its cycles were.
"""

import asyncio
import json
import os
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.insight.v1 import insight_pb2
from bigfleet.kube import resources
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.transport.shard_reading import LIST_CYCLES
from scaletest.bench.coordinator_load import processor_s
from tests.e2e.rights import CONTROLLER, OPERATOR, grant_roles
from tests.support.control_plane import flags
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import pod
from tests.support.control_plane.options import ClusterOptions, User
from tests.support.faulty_link import FaultyLink
from tests.support.program import RunningProgram
from tests.support.real_fleet import RealFleet, ShardProcess

CLUSTER: Final = "reaction-cluster"
NAMESPACE: Final = "shop"
TYPE: Final = "probe.large"
CPU: Final = 8
"""A pod and a machine are of the same size, so that every pod leads to a Create call of its own."""
OPTIONS: Final = ClusterOptions(
    scheduler=False, controllers=(), kwok=(), audit=True, users=(User(OPERATOR), User(CONTROLLER))
)
_CLUSTER_FIELD: Final = bytes([0x0A, len(CLUSTER)]) + CLUSTER.encode()
_MACHINE: Final = re.compile(rb"probe-\d+")
_POLL_S: Final = 0.01
_DEADLINE_S: Final = 120.0


def probe_pool(count: int) -> str:
    """Return the slots that pods are to be served from, as a row of an inventory."""
    size = f"{{cpu: {CPU}, memory: 32Gi}}"
    return f"  - {{name: probe, count: {count}, instance_type: {TYPE}, zones: [za], resources: {size}, price_per_hour: 1.0}}\n"


class ReactionWorld:
    """The processes, and what was seen of them."""

    def __init__(self, cluster: Cluster, fleet: RealFleet, shard: ShardProcess, client: KubeClient) -> None:
        self.cluster, self.fleet, self.shard, self.client = cluster, fleet, shard, client
        self.session = FaultyLink(shard.port, self._session_tap)
        self.rollups_s: list[float] = []
        self.accepted_s: list[float] = []
        self.operator: RunningProgram | None = None
        self.controller: RunningProgram | None = None

    def _session_tap(self, to_shard: bool, data: bytes) -> None:
        # Hello and roll-ups begin with the field `cluster_id`; acknowledgements of roll-ups have this echo.
        if to_shard and _CLUSTER_FIELD in data:
            self.rollups_s.append(time.time())
        elif not to_shard and b"rollup" in data:
            self.accepted_s.append(time.time())

    async def start_operator(self, *more: str) -> RunningProgram:
        """Start the operator, with the defaults of its flags plus any given ones, and wait for its first roll-up."""
        known = len(self.accepted_s)
        self.operator = self._run("bigfleet-operator", OPERATOR, f"--cluster-id={CLUSTER}", *more)
        await self.fleet.until("a roll-up is accepted", lambda: len(self.accepted_s) > known, 2 * _DEADLINE_S)
        return self.operator

    async def start_controller(self) -> None:
        """Start the pod controller with a budget for bursts (ADR-0206), otherwise with the defaults of its flags."""
        budget = ("--qps=200", "--burst=1000")
        self.controller = self._run("bigfleet-unschedulable-pod-controller", CONTROLLER, *budget)
        program = self.controller

        async def ready() -> bool:
            return (await asyncio.to_thread(program.http, "/readyz"))[0] == 200

        await self.fleet.until("the pod controller is ready", ready)

    def _run(self, program: str, user: str, *more: str) -> RunningProgram:
        shard = (f"--shard-addr=127.0.0.1:{self.session.port}",) if program == "bigfleet-operator" else ()
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.fleet.directory),
            "NO_PROXY": "127.0.0.1",
        }
        config = f"--kubeconfig={self.cluster.kubeconfig(user)}"
        return self.fleet.run(program, config, *shard, *more, environ=environ)

    async def add_pod(self, name: str) -> tuple[float, float]:
        """Create a pod; return when it was asked for and when the API server had answered."""
        body = pod(name, cpu=str(CPU), nodeSelector={"node.kubernetes.io/instance-type": TYPE})
        body["metadata"]["namespace"] = NAMESPACE
        began_s = time.time()
        await self.client.create(resources.PODS, body)
        return began_s, time.time()

    def requests_written(self) -> dict[str, tuple[float, float]]:
        """Return when the API server received and answered the creation of each pod's request, by name of the pod."""
        written = {}
        text = (self.cluster.directory / flags.AUDIT_LOG).read_text(encoding="utf-8")
        for line in text.splitlines(keepends=True):
            if '"capacityrequests"' not in line or '"verb":"create"' not in line or not line.endswith("\n"):
                continue
            record = json.loads(line)
            if record["user"]["username"] == CONTROLLER and record["responseStatus"]["code"] == 201:
                name = record["objectRef"]["name"].removeprefix("cr-pod-").partition("-")[0]
                written[name] = (
                    _unix_s(record["requestReceivedTimestamp"]),
                    _unix_s(record["stageTimestamp"]),
                )
        return written

    async def cycles_s(self) -> list[float]:
        """Return when each remembered cycle that decided something had been computed."""
        channel = self.fleet.net.dial(self.shard.address)
        asked = insight_pb2.ListCyclesRequest()
        async with channel.server_stream(LIST_CYCLES, asked, timeout_s=30) as frames:
            found = [frame async for frame in frames]
        await channel.close()
        return [frame.cycle.computed_at_unix_nanos / 1e9 for frame in found if sum(frame.actions.values())]


class CreateCalls:
    """When the shard first named each machine to the provider: its Create call."""

    def __init__(self) -> None:
        self.first_s: dict[bytes, float] = {}

    def __call__(self, to_provider: bool, data: bytes) -> None:
        if to_provider:
            for machine in _MACHINE.findall(data):
                self.first_s.setdefault(machine, time.time())

    async def reach(self, count: int, seconds: float = _DEADLINE_S) -> float:
        """Wait until so many machines were named; return when the last of them was."""
        end_s = time.time() + seconds
        while len(self.first_s) < count:
            if time.time() > end_s:
                raise AssertionError(f"{len(self.first_s)} of {count} Create calls in {seconds:g} s")
            await asyncio.sleep(_POLL_S)
        return max(self.first_s.values())


class ProcessorShare:
    """How much of a core a process used since this was made."""

    def __init__(self, program: RunningProgram) -> None:
        self._pid, self._used_s, self._began_s = program.pid, processor_s(program.pid), time.monotonic()

    def percent(self) -> float:
        return 100 * (processor_s(self._pid) - self._used_s) / (time.monotonic() - self._began_s)


@asynccontextmanager
async def reaction_world(
    binary: Path, directory: Path, pools: str, creates: CreateCalls
) -> AsyncIterator[ReactionWorld]:
    """A cluster, a provider and a shard; operator and pod controller are not started yet."""
    cluster = Cluster(binary, OPTIONS)
    try:
        await asyncio.to_thread(cluster.start, grant_roles)
        await asyncio.to_thread(_prepare, cluster)
        async with RealFleet(directory, f"pools:\n{pools}", linked=True, tap=creates) as fleet:
            await fleet.start_provider()
            shard = await fleet.start_shard("--execute-concurrency=64")
            async with _client(cluster) as client:
                world = ReactionWorld(cluster, fleet, shard, client)
                await world.session.start()
                try:
                    yield world
                finally:
                    await world.session.stop()
    finally:
        cluster.stop()


def _prepare(cluster: Cluster) -> None:
    cluster.make_namespace(NAMESPACE)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    cluster.admin.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)


@asynccontextmanager
async def _client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    disk, clock = SystemDisk(), SystemClock()
    transport = HttpTransport(Login(find_target({}, disk, kubeconfig=str(cluster.kubeconfig())), disk, clock))
    client = KubeClient(transport, RateLimiter(clock, qps=1e6, burst=1000))
    try:
        yield client
    finally:
        await client.close()


class Hops:
    """The way of one pod, in seconds for each hop; a hop that was not seen is left out."""

    NAMES: Final = ("api_server", "controller", "request_write", "operator", "accept", "decide", "act")

    def __init__(self, asked_s: float, answered_s: float, called_s: float) -> None:
        self.total_s = called_s - asked_s
        self._asked_s, self._answered_s, self._called_s = asked_s, answered_s, called_s

    def parts(
        self, written: tuple[float, float] | None, world: ReactionWorld, cycles_s: list[float]
    ) -> dict[str, float]:
        """Return the seconds of each hop, from the creation of the pod to the Create call."""
        if written is None:
            return {}
        received_s, stored_s = written
        rollup_s = _first_after(world.rollups_s, stored_s)
        accepted_s = _first_after(world.accepted_s, rollup_s or stored_s)
        # The shard remembers most cycles and not all: one before the roll-up is not the one that decided.
        since, until = bisect_left(cycles_s, accepted_s or stored_s), bisect_right(cycles_s, self._called_s)
        decided_s = cycles_s[until - 1] if since < until else None
        points = (
            self._asked_s,
            self._answered_s,
            received_s,
            stored_s,
            rollup_s,
            accepted_s,
            decided_s,
            self._called_s,
        )
        return {
            name: after - before
            for name, before, after in zip(self.NAMES, points, points[1:], strict=False)
            if before is not None and after is not None
        }

    @classmethod
    def document(cls) -> dict[str, str]:
        """Return what each hop is."""
        return dict(
            zip(
                cls.NAMES,
                (
                    "pod asked for to pod created: API server",
                    "pod created to request asked for: watch and pod controller",
                    "request asked for to request stored: API server",
                    "request stored to roll-up sent: watch and operator",
                    "roll-up sent to roll-up acknowledged: shard",
                    "roll-up acknowledged to cycle decided: shard",
                    "cycle decided to Create call: shard",
                ),
                strict=True,
            )
        )


def _first_after(times_s: list[float], moment_s: float) -> float | None:
    place = bisect_right(times_s, moment_s)
    return times_s[place] if place < len(times_s) else None


def _unix_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
