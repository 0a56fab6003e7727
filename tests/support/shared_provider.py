"""Several shards on one fake provider, with a coordinator, on virtual time.

Why: what partition mode promises holds between shards, so it is seen only where several of them run with their clients.
Must never: change a shard or the coordinator from inside; only what an administrator, a disk or the network can do.

    async with SharedProvider((pool(count=4, state=S.IDLE),), shards=2) as world:
        await world.assign("zone-a", "shard-0")
        await world.until(lambda: world.owned("shard-0") == {"m-0", "m-2"})
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from io import StringIO
from pathlib import PurePosixPath
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import NANOSECONDS, timeout
from bigfleet.aio.disk import DiskCause, DiskError, atomic_write
from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.coordlink.link import CoordinatorLink
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.model.machine import MachineState
from bigfleet.model.ownership import Ownership
from bigfleet.model.profile import ZONE_KEY
from bigfleet.obs.logs import build_logger
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.fake.inventory import Pool, slots_of
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.shard.core.ownership_text import read_ownership
from bigfleet.shard.epoch import open_data_directory
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.ownership_file import NAME, OwnershipFile
from bigfleet.shard.shard import Shard
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import Operation
from bigfleet.testing.process import virtual_process
from tests.unit.coordinator.harness import HOST as COORDINATOR
from tests.unit.coordinator.harness import World, make_world

FAKE = "fake"
DATA = PurePosixPath("/data")
_POLL_S = 0.25


async def _no_names(_host: str, _port: int) -> tuple[str, ...]:
    return ()


class ShardRun:
    """One run of one shard process with its coordinator client."""

    def __init__(self, world: "SharedProvider", shard_id: str) -> None:
        self.shard_id, self.world = shard_id, world
        process = virtual_process(f"{shard_id}-{world.starts[shard_id]}", image=world.images[shard_id])
        self.process, clock = process, process.clock
        self.data = open_data_directory(process.disk, str(DATA))
        self.net = world.coordinator.network.host(shard_id, Identity.shard(shard_id))
        self.registry, self.log = CollectorRegistry(), StringIO()
        metrics = Metrics(SHARD_METRICS, self.registry, version="test", commit="test")
        log = build_logger(
            level="debug",
            form="json",
            stream=self.log,
            now=lambda: datetime.fromtimestamp(clock.wall_ns() / NANOSECONDS, UTC),
        )
        self.client = ProviderClient(self.net.dial(f"{FAKE}:9000"), shard_id=shard_id, epoch=self.data.epoch)
        shares = world.shares[shard_id]
        self.shard = Shard(
            ShardOptions(
                shard_id=shard_id,
                provider_address=f"{FAKE}:9000",
                advertise_address=f"{shard_id}:7780",
                cycle_interval_s=1.0,
            ),
            process.seams(self.net),
            provider=self.client,
            epoch=self.data.epoch,
            metrics=metrics,
            log=log,
            ownership=OwnershipFile(process.disk, DATA, world.key) if shares else None,
        )
        self.link = CoordinatorLink(
            self.shard,
            self.shard.term,
            f"{COORDINATOR}:7790",
            data_dir=DATA,
            net=self.net,
            resolve=_no_names,
            clock=clock,
            disk=process.disk,
            metrics=metrics,
            log=log,
            shared=self.shard.ownership,
        )
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        server = await self.net.serve(":7780", self.shard.services())
        self._stack.push_async_callback(server.stop, 0)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.shard.run()), loop.create_task(self.link.run())]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.shard.stop(0)
        await self._stack.aclose()
        await self.client.close()
        self.data.close()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


class SharedProvider:
    """The shards, the coordinator and the provider."""

    def __init__(
        self,
        pools: Sequence[Pool],
        *,
        shards: int = 2,
        key: str = ZONE_KEY,
        fake: FakeOptions | None = None,
        unshared: Sequence[str] = (),
    ) -> None:
        self.ids = [f"shard-{number}" for number in range(shards)]
        self.pools, self.key, self._fake_options = pools, key, fake or FakeOptions(sync=True)
        self.images = {shard: DiskImage() for shard in self.ids}
        self.starts = dict.fromkeys(self.ids, 0)
        self.shares = {shard: shard not in unshared for shard in self.ids}
        self.runs: dict[str, ShardRun] = {}
        self._stack = AsyncExitStack()
        self._peers: list[SessionPeer] = []

    async def __aenter__(self) -> Self:
        self.coordinator: World = await self._stack.enter_async_context(make_world())
        process = virtual_process(FAKE)
        self.clock = process.clock
        self.fake = FakeProvider(
            self._fake_options,
            lambda: slots_of(self.pools),
            clock=process.clock,
            ids=process.ids,
            net=self.coordinator.network.host(FAKE, ADMIN),
            log=build_logger(level="error", form="json", stream=StringIO(), now=lambda: datetime.now(UTC)),
        )
        await self.fake.start()
        self._stack.push_async_callback(self.fake.stop, 0)
        await self.fake.listen(":9000")
        for shard in self.ids:
            await self.start(shard)
        await self.until(lambda: all(run.link.status.last_answer_ns for run in self.runs.values()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for peer in self._peers:
            await peer.close()
        for shard in list(self.runs):
            await self.runs.pop(shard).end()
        await self._stack.aclose()

    # What administrators, disks and networks do

    async def start(self, shard: str) -> None:
        run = ShardRun(self, shard)
        self.runs[shard] = run
        await run.start()

    async def kill(self, shard: str) -> None:
        self.coordinator.network.crash(shard)
        await self.runs.pop(shard).end()
        self.starts[shard] += 1

    async def restart(self, shard: str) -> None:
        await self.kill(shard)
        await self.start(shard)

    async def lose_file(self, shard: str) -> None:
        """Restart a shard without its ownership file."""
        disk = self.runs[shard].process.disk
        await self.kill(shard)
        disk.remove(DATA / NAME)
        disk.fsync_directory(DATA)
        await self.start(shard)

    async def damage_file(self, shard: str) -> None:
        """Restart a shard whose ownership file was changed behind its back."""
        disk = self.runs[shard].process.disk
        await self.kill(shard)
        text = disk.read(DATA / NAME).decode().replace("zone-a", "zone-b")
        atomic_write(disk, DATA / NAME, text.encode())
        await self.start(shard)

    def fill_disk(self, shard: str, *, full: bool = True) -> None:
        """Let the ownership file of a shard be impossible to write, or possible again."""

        def refuse(operation: Operation) -> None:
            if NAME in operation.path:
                raise DiskError(operation.kind, operation.path, DiskCause.FULL)

        self.runs[shard].process.disk.hook = refuse if full else None

    def cut(self, shard: str) -> None:
        """Cut a shard off from the coordinator, not from the provider."""
        self.coordinator.network.partition([shard], [COORDINATOR])

    def heal(self) -> None:
        self.coordinator.network.heal()

    async def assign(self, value: str, shard: str) -> None:
        await self.coordinator.assign(self.key, value, shard)

    async def move(self, value: str, shard: str) -> None:
        """Give a domain to another shard."""
        await self.coordinator.unassign(self.key, value)
        await self.assign(value, shard)

    async def operator(self, cluster: str, shard: str) -> SessionPeer:
        net = self.coordinator.network.host(f"operator-{cluster}", Identity.cluster(cluster))
        peer = SessionPeer(net.dial(f"{shard}:7780"), cluster, self.clock)
        self._peers.append(peer)
        await peer.connect()
        return peer

    # What can be seen

    def shard(self, shard: str) -> Shard:
        return self.runs[shard].shard

    def owned(self, shard: str) -> set[str]:
        """The machines in the inventory of a shard."""
        snapshot = self.shard(shard).inventory.snapshot()
        return {machine.id for machine in snapshot.machines()}

    def states(self, shard: str) -> dict[str, MachineState]:
        snapshot = self.shard(shard).inventory.snapshot()
        return {machine.id: machine.state for machine in snapshot.machines()}

    def stored(self, shard: str) -> Ownership:
        """What the file of a shard says."""
        return read_ownership(self.runs[shard].process.disk.read(DATA / NAME).decode())

    def settled(self, *shards: str) -> bool:
        keepers = [self.shard(shard).ownership for shard in shards or self.runs]
        return all(keeper is not None and keeper.settled for keeper in keepers)

    def check(self) -> None:
        """No machine has two owners, as far as running shards believe."""
        seen: dict[str, str] = {}
        for shard in self.runs:
            for machine_id in self.owned(shard):
                assert machine_id not in seen, f"{machine_id} is owned by {seen[machine_id]} and {shard}"
                seen[machine_id] = shard

    async def until(self, fact: Callable[[], bool], within_s: float = 600.0) -> None:
        """Let time pass until something is true; at each look no machine has two owners."""
        async with timeout(self.clock, within_s):
            while not fact():
                self.check()
                await self.clock.sleep(_POLL_S)
        self.check()

    async def seconds(self, count: float) -> None:
        """Let time pass, looking all the while."""
        for _ in range(int(count / _POLL_S)):
            self.check()
            await self.clock.sleep(_POLL_S)


Story = Callable[[], Awaitable[None]]
