"""A dashboard over real sockets in front of shards that serve reads and do nothing else."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.dashboard.service import Dashboard, DashboardOptions
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.shard.read.read_service import ReadService
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import StaticShard

GANG = Profile((Requirement("rack", RequirementOperator.SAME),), priority=1_000_000)
MACHINES = (
    *(
        machine(
            f"m-{n:02}", S.CONFIGURED, cluster="web", assigned=assigned(5000), shape=shape("m5", price=0.4)
        )
        for n in range(20)
    ),
    *(machine(f"i-{n}", S.IDLE, shape=shape("m5", price=0.4)) for n in range(5)),
    *(
        machine(f"s-{n}", S.SPECULATIVE, shape=shape("g8", labels={"rack": f"r{n % 2}"}, price=3.2))
        for n in range(6)
    ),
    machine("f-0", S.FAILED, shape=shape("m5"), last_error="the disk is gone"),
)
NEEDS = (
    Need("train", GANG, amounts(cpu=64), amounts(cpu=4), group="llm-7"),
    Need("web", Profile(priority=5000), amounts(cpu=60)),
    Need("batch", Profile(priority=100), amounts(cpu=400)),
)


def situation(machines: Sequence[Any] = MACHINES, needs: Sequence[Need] = NEEDS) -> Situation:
    """A small fleet in which one gang and one batch are short."""
    clusters = frozenset(need.cluster for need in needs)
    return Situation(time.time(), tuple(machines), tuple(needs), reported_clusters=clusters)


@dataclass(slots=True)
class World:
    """A running dashboard and the shards behind it."""

    url: str
    shards: Mapping[str, StaticShard]
    dashboard: Dashboard
    session: aiohttp.ClientSession
    ports: dict[str, int] = field(default_factory=dict)
    _servers: dict[str, Any] = field(default_factory=dict)
    _serve: Callable[[str, int], Awaitable[Any]] | None = None

    def complete(self, shard: str = "shard-0", given: Situation | None = None) -> None:
        """Complete one more cycle now."""
        self.shards[shard].complete(given or situation(), computed_at_ns=time.time_ns())

    async def get(self, path: str, **headers: str) -> tuple[int, str, Mapping[str, str]]:
        """Return status, text and headers of an answer."""
        async with self.session.get(f"{self.url}{path}", headers=headers) as answer:
            return answer.status, await answer.text(), answer.headers

    async def json(self, path: str) -> Any:
        """Return a good answer as JSON."""
        status, text, _ = await self.get(path)
        assert status == 200, (path, status, text)
        return json.loads(text)

    async def look(self) -> None:
        """Let the dashboard look at everything once more, now."""
        await self.dashboard.fleet.watcher.once()

    def port(self, shard: str) -> int:
        """Where a shard listens."""
        return int(self._servers[shard].port)

    async def lose(self, shard: str) -> None:
        """Stop a shard's server."""
        await self._servers[shard].stop(0)

    async def bring_back(self, shard: str) -> None:
        """Start a lost shard's server again, where it was."""
        assert self._serve is not None
        self._servers[shard] = await self._serve(shard, self._servers[shard].port)


@asynccontextmanager
async def dashboard_world(
    names: Sequence[str] = ("shard-0",),
    *,
    cycles: int = 1,
    insight: bool = True,
    service: type[InsightService] = InsightService,
    endpoints: Sequence[ScrapeTarget] = (),
    **options: Any,
) -> AsyncIterator[World]:
    """Run a dashboard in front of some shards; every shard has completed so many cycles.

    Without insight a shard serves no more than one of the original would; `service` is what it serves with.
    """
    clock, net = SystemClock(), GrpcNet()
    async with AsyncExitStack() as stack:
        shards = {name: StaticShard(name) for name in names}
        servers = {}

        async def serve(name: str, port: int) -> Any:  # Any: a server of the network
            shard = shards[name]
            watching = CycleFollower(shard, DecisionLog(), log=structlog.get_logger())
            following = asyncio.create_task(watching.follow())
            stack.callback(following.cancel)
            services = [ReadService(shard).bound()]
            if insight:
                services.append(service(shard, watching, StatusSources()).bound())
            server = await net.serve(f"127.0.0.1:{port}", services)
            stack.push_async_callback(server.stop, 0)
            return server

        for name, shard in shards.items():
            for _ in range(cycles):
                shard.complete(situation(), computed_at_ns=time.time_ns())
            servers[name] = await serve(name, 0)
        addresses = {name: f"127.0.0.1:{server.port}" for name, server in servers.items()}
        given = DashboardOptions(port=0, shards=addresses, endpoints=endpoints, **options)
        dashboard = Dashboard(given, clock=clock, net=net, resolve=system_resolve, disk=SystemDisk())
        await dashboard.start()
        stack.push_async_callback(dashboard.stop)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        world = World(
            f"http://127.0.0.1:{dashboard.port}",
            shards,
            dashboard,
            session,
            _servers=dict(servers),
            _serve=serve,
        )
        await world.look()
        yield world
