"""A provider on virtual time with network, store, clock and a client, for tests inside `run_virtual`.

Rules: `providers#backend`, `providers#new-provider`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from io import StringIO
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Channel
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.logs import build_logger
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.contract import KIND_OF_TRANSITIONAL
from bigfleet.provider.kit.backend import Backend
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.kit.store import StateStore
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.providerkit.scripted import MemoryStore
from bigfleet.testing.net.network import Network
from bigfleet.testing.process import VirtualProcess, virtual_process

HOST = "provider"
PORT = 9000
_POLL_S = 0.05


class VirtualProvider:
    """One provider and one client of it; further options are passed to the kit."""

    def __init__(
        self,
        backend: Backend,
        *,
        store: StateStore | None = None,
        process: VirtualProcess | None = None,
        identity: Identity | None = None,
        **options: Any,  # Any: whatever ProviderKit takes
    ) -> None:
        self.backend = backend
        self.process = process or virtual_process("provider")
        self.store: StateStore = store or MemoryStore()
        self._options = options
        self._network = Network(secured=identity is not None)
        self._net = self._network.host(HOST, Identity.shard(HOST))
        self._caller = self._network.host("caller", identity)
        self._log = StringIO()
        self._registry = CollectorRegistry()
        self._metrics = Metrics(PROVIDER_METRICS, self._registry, version="test", commit="test")
        self.kit = self._kit()
        self.client = self.another_client()

    async def __aenter__(self) -> Self:
        await self.kit.start()
        await self.kit.listen(f":{PORT}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.kit.stop(0)

    async def restart(self, store: StateStore | None = None) -> None:
        """Stop the provider and start another one on the same store, or on the one given."""
        await self.kit.stop(0)
        self.store = store or self.store
        self.kit = self._kit()
        await self.__aenter__()

    def another_client(self) -> RawProviderClient:
        return RawProviderClient(self.another_channel())

    def another_channel(self) -> Channel:
        """Return a connection, for calls that the client does not offer."""
        return self._caller.dial(f"{HOST}:{PORT}")

    async def settled(self, *machine_ids: str) -> list[MachineRecord]:
        """Wait until none of the machines is transitional, and return them."""
        while any(self.machine(machine_id).state in KIND_OF_TRANSITIONAL for machine_id in machine_ids):
            await self.process.clock.sleep(_POLL_S)
        return [self.machine(machine_id) for machine_id in machine_ids]

    def machine(self, machine_id: str) -> MachineRecord:
        found = self.kit.machine(machine_id)
        if found is None:
            raise LookupError(f"the provider has no machine {machine_id}")
        return found

    async def pass_time(self, seconds: float) -> None:
        await self.process.clock.sleep(seconds)

    @property
    def log_text(self) -> str:
        """Everything the provider logged so far, one JSON object per line."""
        return self._log.getvalue()

    @property
    def metrics_text(self) -> str:
        return metrics_text(self._registry)("")[0].decode()

    def samples(self, name: str) -> Iterable[tuple[dict[str, str], float]]:
        """Return labels and value of every series of one metric."""
        return [
            (sample.labels, sample.value)
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == name
        ]

    def _kit(self) -> ProviderKit:
        process = self.process
        log = build_logger(
            level="debug",
            form="json",
            stream=self._log,
            now=lambda: datetime.fromtimestamp(process.clock.wall_ns() / NANOSECONDS, UTC),
        )
        return ProviderKit(
            self.backend,
            store=self.store,
            name="acme",
            clock=process.clock,
            rng=process.rng,
            ids=process.ids,
            net=self._net,
            metrics=self._metrics,
            log=log,
            **self._options,
        )
