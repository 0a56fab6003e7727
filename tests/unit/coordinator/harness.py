"""A replica on the log in memory, served on the network in memory, in virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger

from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Code, Hooks, Metadata, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.assembly import CoordinatorParts, assemble, serve_options
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.obs.metric import Component
from bigfleet.obs.metrics import Metrics
from bigfleet.testing.net.network import MemoryNet, Network
from bigfleet.testing.process import VirtualProcess, virtual_process
from bigfleet.transport.coordinator import (
    ASSIGN_DOMAIN,
    LIST_SHARD_REPORTS,
    LIST_SHARDS,
    REMOVE_SHARD,
    REPORT_SHARD,
    UNASSIGN_DOMAIN,
)
from bigfleet.transport.dispatch import log_hooks
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.local_log import LocalLog

T = TypeVar("T")
HOST = "coordinator-0"


@dataclass
class World:
    """One coordinator and whoever calls it."""

    process: VirtualProcess
    network: Network
    state_machine: CoordinatorStateMachine
    log: LocalLog
    replica: CoordinatorParts
    metrics: Metrics
    registry: CollectorRegistry
    logged: CapturingLogger
    trailing: Metadata = ()
    callers: dict[str, MemoryNet] = field(default_factory=dict)

    async def call(
        self, method: UnaryMethod[Any, T], request: object, identity: Identity | None = None, **options: Any
    ) -> T:
        """Call as an identity, an admin unless said otherwise; the trailing metadata is kept."""
        caller = identity or ADMIN
        net = self.callers.setdefault(str(caller), self.network.host(f"of-{len(self.callers)}", caller))
        channel = net.dial(f"{HOST}:7790")
        try:
            reply = await channel.unary(method, request, timeout_s=options.get("timeout_s", 10.0))
        except RpcError as error:
            self.trailing = error.trailing
            raise
        finally:
            await channel.close()
        self.trailing = reply.trailing
        return reply.message

    async def report(self, shard: str = "s-1", cycle: int = 1, **fields: Any) -> pb.ReportAck:
        """Report as a shard."""
        fields.setdefault("shard_epoch", 1)
        fields.setdefault("shard_address", f"{shard}:7780")
        message = pb.ShardReport(shard_id=shard, cycle=cycle, **fields)
        return await self.call(REPORT_SHARD, message, Identity.shard(shard))

    async def assign(self, key: str, value: str, shard: str) -> None:
        request = pb.AssignDomainRequest(topology_key=key, topology_value=value, shard_id=shard)
        await self.call(ASSIGN_DOMAIN, request)

    async def unassign(self, key: str, value: str) -> None:
        await self.call(UNASSIGN_DOMAIN, pb.UnassignDomainRequest(topology_key=key, topology_value=value))

    async def remove(self, shard: str, *, destroyed: bool = False) -> None:
        await self.call(REMOVE_SHARD, pb.RemoveShardRequest(shard_id=shard, destroyed=destroyed))

    async def shards(self) -> list[pb.ShardRegistryEntry]:
        return list((await self.call(LIST_SHARDS, pb.ListShardsRequest(), READONLY)).shards)

    async def reports(self, only: str = "") -> list[pb.ShardReportSnapshot]:
        request = pb.ListShardReportsRequest(shard_id=only)
        return list((await self.call(LIST_SHARD_REPORTS, request, READONLY)).reports)

    def said(self, key: str) -> str | None:
        """What the last answer's trailing metadata said."""
        value = dict(self.trailing).get(key)
        return value if isinstance(value, str) else None

    def sample(self, name: str, **labels: str) -> float | None:
        """A series as the next scrape would show it."""
        self.replica.state_metrics.refresh()
        return self.registry.get_sample_value(f"bigfleet_coordinator_{name}", labels)

    def events(self) -> list[str]:
        """The names of everything logged so far."""
        return [str(call.args[0]) if call.args else str(call.kwargs["event"]) for call in self.logged.calls]


Worlds = Callable[..., AbstractAsyncContextManager[World]]


@asynccontextmanager
async def make_world(*, secured: bool = True) -> AsyncIterator[World]:
    """Make a world inside a virtual-time run; `secured` is mutual TLS."""
    process = virtual_process("coordinator")
    registry = CollectorRegistry()
    metrics = Metrics(Component.COORDINATOR, registry, version="0", commit="none")
    logged = CapturingLogger()
    logger = structlog.wrap_logger(logged, processors=[lambda _logger, _name, event: event])
    state_machine = CoordinatorStateMachine()
    log = LocalLog(state_machine)
    replica = assemble(
        log, state_machine, clock=process.clock, ids=process.ids, metrics=metrics, logger=logger
    )
    network = Network(secured=secured)

    def refused(path: str, _peer: object, _why: str) -> None:
        rpc = path.rpartition("/")[2]
        metrics.counter("bigfleet_coordinator_identity_rejected_total", rpc=rpc).inc()

    hooks = Hooks(on_identity_refused=refused, on_defect=log_hooks().on_defect)
    server = await network.host(HOST, ADMIN, hooks).serve(":7790", [replica.bound()], serve_options())
    await log.start()
    yield World(process, network, state_machine, log, replica, metrics, registry, logged)
    await server.stop(0)


async def code_of(call: Awaitable[Any]) -> Code:
    """The status a call is refused with."""
    with pytest.raises(RpcError) as refused:
        await call
    return refused.value.code
