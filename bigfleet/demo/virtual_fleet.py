"""A shard, a fake provider and operators on virtual time and an in-memory network.

Why: demos and tests run the production shard in milliseconds, and every run is the same.
Must never: change the shard from inside; it does only what a peer, a disk or a clock can do.

    async with VirtualFleet((pool(count=3),)) as fleet:
        operator = await fleet.operator("prod")
        await operator.demand(need("prod", cpu=4))
        await operator.until(lambda: operator.in_state(MachineState.CONFIGURED) == ["m-0"])
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import NANOSECONDS, Clock, timeout
from bigfleet.aio.host import Host
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import PROVIDER_MAX_MESSAGE_BYTES, PROVIDER_REDIAL, DialOptions, RpcServer
from bigfleet.demo.session_peer import BlobAnswer, SessionPeer, good_blob
from bigfleet.obs.audit import AuditFile
from bigfleet.obs.logs import build_logger
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.fake.inventory import Pool, slots_of
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.shard.epoch import DataDirectory, open_data_directory
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.shard import Shard
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.net.network import Network
from bigfleet.testing.process import VirtualProcess, virtual_process

SHARD_HOST, FAKE_HOST = "shard", "fake"
SHARD_PORT, FAKE_PORT = 7780, 9000
AUDIT = "/audit.log"
_POLL_S = 0.25


def _wall(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.wall_ns() / NANOSECONDS, UTC)


class ShardRun:
    """One run of the shard process: everything that a kill takes away."""

    def __init__(self, fleet: "VirtualFleet") -> None:
        self.process: VirtualProcess = virtual_process(
            f"{SHARD_HOST}-{fleet.restarts}", image=fleet.image, **fleet.process_options
        )
        clock, disk = self.process.clock, self.process.disk
        self.registry = CollectorRegistry()
        self.log = StringIO()
        self.data: DataDirectory = open_data_directory(disk, "/data")
        self.net = fleet.network.host(SHARD_HOST, Identity.shard(fleet.options.shard_id))
        seams = self.process.seams(self.net)
        self.client = ProviderClient(
            self.net.dial(
                f"{FAKE_HOST}:{FAKE_PORT}",
                DialOptions(max_message_bytes=PROVIDER_MAX_MESSAGE_BYTES, redial=PROVIDER_REDIAL),
            ),
            shard_id=fleet.options.shard_id,
            epoch=self.data.epoch,
        )
        self.shard = Shard(
            fleet.options,
            seams if fleet.host is None else replace(seams, host=fleet.host),
            provider=self.client,
            epoch=self.data.epoch,
            metrics=Metrics(SHARD_METRICS, self.registry, version="test", commit="test"),
            log=build_logger(level="debug", form="json", stream=self.log, now=lambda: _wall(clock)),
            audit=AuditFile(disk, AUDIT, now_ns=clock.wall_ns) if fleet.audited else None,
        )
        self.server: RpcServer | None = None
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.server = await self.net.serve(f":{SHARD_PORT}", self.shard.services())
        self.task = asyncio.get_running_loop().create_task(self.shard.run(), name="shard")

    async def end(self, grace_s: float) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        await self.shard.stop(grace_s)
        if self.server is not None:
            await self.server.stop(0)
        await self.client.close()
        self.data.close()


class VirtualFleet:
    """One shard, its provider, and the operators that connect to it."""

    def __init__(
        self,
        pools: Sequence[Pool] = (),
        fake: FakeOptions | None = None,
        *,
        secured: bool = False,
        audited: bool = False,
        host: Host | None = None,
        process_options: Mapping[str, Any] | None = None,
        **options: Any,  # Any: the fields of ShardOptions
    ) -> None:
        self.network = Network(secured=secured)
        self.options = ShardOptions(**{"provider_address": f"{FAKE_HOST}:{FAKE_PORT}", **options})
        self.image, self.audited, self.host = DiskImage(), audited, host
        self.process_options = dict(process_options or {})
        self.restarts = 0
        process = virtual_process(FAKE_HOST)
        self.clock = clock = process.clock
        self.fake = FakeProvider(
            fake or FakeOptions(),
            lambda: slots_of(pools),
            clock=clock,
            ids=process.ids,
            net=self.network.host(FAKE_HOST),
            log=build_logger(level="error", form="json", stream=StringIO(), now=lambda: _wall(clock)),
        )
        self.run = ShardRun(self)
        self._peers: list[SessionPeer] = []

    async def __aenter__(self) -> Self:
        await self.fake.start()
        await self.fake.listen(f":{FAKE_PORT}")
        await self.run.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for peer in self._peers:
            await peer.close()
        await self.run.end(0)
        await self.fake.stop(0)

    @property
    def shard(self) -> Shard:
        return self.run.shard

    async def operator(
        self, cluster: str = "prod", *, answer: BlobAnswer = good_blob, reads: bool = True, host: str = ""
    ) -> SessionPeer:
        """Connect an operator."""
        identity = Identity.cluster(cluster) if cluster else None
        net = self.network.host(host or f"operator-{cluster}", identity)
        peer = SessionPeer(
            net.dial(f"{SHARD_HOST}:{SHARD_PORT}"), cluster, self.clock, answer=answer, reads=reads
        )
        self._peers.append(peer)
        await peer.connect()
        return peer

    async def kill(self) -> None:
        """End the shard as a power cut would: no further call leaves it, and its memory is lost."""
        self.network.crash(SHARD_HOST)
        self.network.partition([SHARD_HOST], [FAKE_HOST])
        await self.run.end(0)
        self.network.heal()

    async def restart(self) -> None:
        """Kill the shard and start it again on its disk."""
        await self.kill()
        self.restarts += 1
        self.run = ShardRun(self)
        await self.run.start()

    async def until(self, fact: Callable[[], bool], within_s: float = 300.0) -> None:
        """Let virtual time pass until something is true."""
        async with timeout(self.clock, within_s):
            while not fact():
                await self.clock.sleep(_POLL_S)

    async def cycles(self, count: int = 1) -> None:
        """Wait until this many further cycles have ended."""
        wanted = self.shard.loop.number + count
        await self.until(lambda: (view := self.shard.last_cycle()) is not None and view.number >= wanted)
