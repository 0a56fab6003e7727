"""A fake provider on virtual time with a caller beside it, in one line, and pools to fill it with.

Why: tests of shards, of the fake and of its faults all begin with "some machines, a provider, a client".
Must never: wait for anything real.
Rules: `providers#fake`.

    async with VirtualFake((pool(count=3), spot())) as world:
        await world.client.create("m-0")
        assert await world.settled("m-0") is MachineState.IDLE
"""

from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from io import StringIO
from types import TracebackType
from typing import Any, Self

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.obs.logs import build_logger
from bigfleet.provider.contract import KIND_OF_TRANSITIONAL
from bigfleet.provider.fake.inventory import Pool, slots_of
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.kit.store import StateStore
from bigfleet.providerkit.scripted import MemoryStore
from bigfleet.testing.net.network import Network
from bigfleet.testing.process import VirtualProcess, virtual_process

HOST = "fake"
PORT = 9000
_POLL_S = 0.05
_SIZE = {"cpu": "4", "memory": "16Gi"}


def pool(name: str = "m", count: int = 3, **fields: Any) -> Pool:  # Any: whatever a pool takes
    """Return on-demand slots in two zones."""
    usual: dict[str, Any] = {
        "instance_type": "m6i.large",
        "zones": ("zone-a", "zone-b"),
        "price_per_hour": 1.0,
        "resources": _SIZE,
    }
    return Pool(name=name, count=count, **{**usual, **fields})


def spot(name: str = "spot", count: int = 3, **fields: Any) -> Pool:  # Any: whatever a pool takes
    """Return spot slots."""
    usual = {"capacity_type": CapacityType.SPOT, "price_per_hour": 0.1, "interruption_probability": 0.2}
    return pool(name, count, **{**usual, **fields})


def bound(name: str = "bound", count: int = 3, **fields: Any) -> Pool:  # Any: whatever a pool takes
    """Return machines that serve cluster `prod` already."""
    usual = {"state": MachineState.CONFIGURED, "cluster": "prod", "shard_metadata": {"k": "v"}}
    return pool(name, count, **{**usual, **fields})


class MemoryState:
    """State in memory that outlives the kits of a fake, so that a restart finds it."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def open(self) -> StateStore:
        return self._store

    def forget(self) -> None:
        self._store = MemoryStore()

    @property
    def kept(self) -> bool:
        return next(self._store.open(), None) is not None


class VirtualFake:
    """One fake, its process and a caller; what `FakeProvider` may be given besides goes through as it is."""

    def __init__(
        self,
        pools: Sequence[Pool] = (),
        options: FakeOptions | None = None,
        *,
        process: VirtualProcess | None = None,
        **more: Any,  # Any: whatever FakeProvider takes
    ) -> None:
        self.process = process or virtual_process(HOST)
        self._network = Network()
        self._errors = StringIO()
        # What happens is in the fake's own log; of the process's only what should not happen is kept.
        quiet = build_logger(
            level="error",
            form="json",
            stream=self._errors,
            now=lambda: datetime.fromtimestamp(self.process.clock.wall_ns() / NANOSECONDS, UTC),
        )
        self.fake = FakeProvider(
            options,
            lambda: slots_of(pools),
            clock=self.process.clock,
            ids=self.process.ids,
            net=self._network.host(HOST),
            **{"log": quiet, **more},
        )
        self.client = self.another_client()

    @property
    def errors(self) -> str:
        """The error lines that the fake logged, one JSON object each."""
        return self._errors.getvalue()

    async def __aenter__(self) -> Self:
        await self.fake.start()
        await self.fake.listen(f":{PORT}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.fake.stop(0)

    def another_client(self, timeout_s: float = 30.0) -> RawProviderClient:
        """Return a client with a connection of its own."""
        return RawProviderClient(self._network.host("caller").dial(f"{HOST}:{PORT}"), timeout_s)

    def machine(self, machine_id: str) -> MachineRecord:
        """Return a record as it really is."""
        found = self.fake.kit.machine(machine_id)
        if found is None:
            raise LookupError(f"the fake has no machine {machine_id}")
        return found

    async def settled(self, machine_id: str) -> MachineState:
        """Wait, in virtual time, until the machine is not on its way, and return its state."""
        while self.machine(machine_id).state in KIND_OF_TRANSITIONAL:
            await self.pass_time(_POLL_S)
        return self.machine(machine_id).state

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time go by."""
        await self.process.clock.sleep(seconds)


async def code_of(call: Awaitable[object]) -> Code:
    """Return the code with which a call ended."""
    try:
        await call
    except RpcError as error:
        return error.code
    return Code.OK
