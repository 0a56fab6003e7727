"""A shard, a fake provider and operators on virtual time and an in-memory network.

Why: every behaviour of a shard that does not need real sockets is tested here, in milliseconds, and twice alike.
Must never: reach into the shard to make something happen; a test does what a peer, a disk or a clock can do.

    async with VirtualFleet((pool(count=3),)) as world:
        operator = await world.operator("prod")
        await operator.demand(need("prod", cpu=4))
        await operator.until(lambda: operator.in_state(MachineState.CONFIGURED) == ["m-0"])
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import NANOSECONDS, timeout
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import PROVIDER_MAX_MESSAGE_BYTES, DialOptions, Server
from bigfleet.demo.session_peer import BlobAnswer, SessionPeer, good_blob
from bigfleet.model.machine import Machine, MachineState
from bigfleet.obs.audit import AuditFile
from bigfleet.obs.logs import build_logger
from bigfleet.obs.metric import Component
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.fake.inventory import Pool, slots_of
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.shard.epoch import DataDirectory, open_data_directory
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.shard import Shard
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.net.network import Network
from bigfleet.testing.process import VirtualProcess, virtual_process

SHARD_HOST, FAKE_HOST = "shard", "fake"
SHARD_PORT, FAKE_PORT = 7780, 9000
AUDIT = "/audit.log"
_POLL_S = 0.25


class ShardRun:
    """One life of a shard process: what a kill takes away."""

    def __init__(self, world: "VirtualFleet") -> None:
        self.process: VirtualProcess = virtual_process(
            f"{SHARD_HOST}-{world.lives}", image=world.image, **world.process_options
        )
        self.registry = CollectorRegistry()
        self.log = StringIO()
        self.data: DataDirectory = open_data_directory(self.process.disk, "/data")
        self.net = world.network.host(SHARD_HOST, Identity.shard(world.options.shard_id))
        seams = replace_host(self.process, world, self.net)
        self.client = ProviderClient(
            self.net.dial(
                f"{FAKE_HOST}:{FAKE_PORT}", DialOptions(max_message_bytes=PROVIDER_MAX_MESSAGE_BYTES)
            ),
            shard_id=world.options.shard_id,
            epoch=self.data.epoch,
        )
        logger = build_logger(
            level="debug",
            form="json",
            stream=self.log,
            now=lambda: datetime.fromtimestamp(self.process.clock.wall_ns() / NANOSECONDS, UTC),
        )
        self.shard = Shard(
            world.options,
            seams,
            provider=self.client,
            epoch=self.data.epoch,
            metrics=Metrics(Component.SHARD, self.registry, version="test", commit="test"),
            log=logger,
            audit=AuditFile(self.process.disk, AUDIT, now_ns=self.process.clock.wall_ns)
            if world.audited
            else None,
        )
        self.server: Server | None = None
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


def replace_host(
    process: VirtualProcess, world: "VirtualFleet", net: Any
) -> Any:  # Any: seams of either form
    """The seams of the process, with the world's host where it has one."""
    seams = process.seams(net)
    return seams if world.host is None else replace(seams, host=world.host)


class VirtualFleet:
    """Everything around one shard."""

    def __init__(
        self,
        pools: Sequence[Pool] = (),
        fake: FakeOptions | None = None,
        *,
        secured: bool = False,
        audited: bool = False,
        host: Any = None,  # Any: a stand-in for the host seam
        process_options: Mapping[str, Any] | None = None,
        **options: Any,  # Any: whatever ShardOptions takes
    ) -> None:
        self.network = Network(secured=secured)
        self.options = ShardOptions(**{"provider_address": f"{FAKE_HOST}:{FAKE_PORT}", **options})
        self.image, self.audited, self.host = DiskImage(), audited, host
        self.process_options = dict(process_options or {})
        self.lives = 0
        self._fake_process = virtual_process(FAKE_HOST)
        quiet = build_logger(
            level="error",
            form="json",
            stream=StringIO(),
            now=lambda: datetime.fromtimestamp(self.clock.wall_ns() / NANOSECONDS, UTC),
        )
        self.fake = FakeProvider(
            fake or FakeOptions(),
            lambda: slots_of(pools),
            clock=self._fake_process.clock,
            ids=self._fake_process.ids,
            net=self.network.host(FAKE_HOST),
            log=quiet,
        )
        self.clock = self._fake_process.clock
        self.life: ShardRun = ShardRun(self)
        self._peers: list[SessionPeer] = []

    async def __aenter__(self) -> Self:
        await self.fake.start()
        await self.fake.listen(f":{FAKE_PORT}")
        await self.life.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for peer in self._peers:
            await peer.close()
        await self.life.end(0)
        await self.fake.stop(0)

    @property
    def shard(self) -> Shard:
        return self.life.shard

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
        """End the shard as a power cut would: no call leaves it any more, what it knew is gone."""
        self.network.crash(SHARD_HOST)
        self.network.partition([SHARD_HOST], [FAKE_HOST])
        await self.life.end(0)
        self.network.heal()

    async def restart(self) -> None:
        """Kill the shard and start it again on its disk."""
        await self.kill()
        self.lives += 1
        self.life = ShardRun(self)
        await self.life.start()

    # Facts

    def machine(self, machine_id: str) -> Machine:
        """What the shard believes of a machine."""
        return self.shard.inventory.get(machine_id)

    def state(self, machine_id: str) -> MachineState | None:
        """The state the shard believes a machine to be in."""
        return self.shard.inventory.state_of(machine_id)

    def real(self, machine_id: str) -> MachineState:
        """The state a machine really is in."""
        found = self.fake.kit.machine(machine_id)
        if found is None:
            raise LookupError(f"the fake has no machine {machine_id}")
        return found.state

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series of the shard."""
        family = self.life.registry.restricted_registry([name])  # asking all of them is slow
        samples = (sample for metric in family.collect() for sample in metric.samples)
        return next((each.value for each in samples if (each.name, each.labels) == (name, labels)), 0.0)

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The log lines of this life, of one event or all."""
        found = [json.loads(line) for line in self.life.log.getvalue().splitlines()]
        return [line for line in found if event in ("", line["event"])]

    def audit(self) -> list[dict[str, Any]]:
        """The audit records."""
        return [json.loads(line) for line in self.life.process.disk.read(AUDIT).decode().splitlines()]

    async def until(self, fact: Callable[[], bool], within_s: float = 300.0) -> None:
        """Let virtual time pass until something is true."""
        async with timeout(self.clock, within_s):
            while not fact():
                await self.clock.sleep(_POLL_S)

    async def cycles(self, count: int = 1) -> None:
        """Let so many further cycles end."""
        wanted = self.shard.loop.number + count
        await self.until(lambda: (view := self.shard.last_cycle()) is not None and view.number >= wanted)

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time go by."""
        await self.clock.sleep(seconds)
