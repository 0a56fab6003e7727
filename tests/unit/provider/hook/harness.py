"""A whole hook provider on virtual time: files in memory, hooks that are scripted, a client."""

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from types import TracebackType
from typing import Any, Self

from bigfleet.aio.backoff import BackoffPolicy
from bigfleet.aio.clock import NANOSECONDS
from bigfleet.aio.disk import OpenMode, ensure_directory
from bigfleet.obs.logs import build_logger
from bigfleet.provider.contract import KIND_OF_TRANSITIONAL
from bigfleet.provider.hook.backend import NodeReadiness
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.provider import HookProvider
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.providerkit.scripted import MemoryStore
from bigfleet.testing.net.network import Network
from bigfleet.testing.process import virtual_process
from tests.support.scripted_hooks import ScriptedProcesses

FOLDER = "/etc/bf"
FILE = f"{FOLDER}/inventory.yaml"
BLOBS = "/run/bf"
STATE = "/state"
LIMITS = Limits(
    create=60,
    configure=60,
    drain=60,
    delete=60,
    workers=16,
    refresh=0,
    retry=BackoffPolicy(first_s=1.0, ceiling_s=30.0, jitter=0.0),
)
FREE_POOL = ("configure", "drain")
POWER_MANAGED = ("create", "configure", "drain", "delete")


def machine_line(machine_id: str, more: str = "") -> str:
    """Return one machine of an inventory file."""
    return (
        f"  - {{id: {machine_id}, ref: host-{machine_id}, instance_type: gen11, zone: hall-7, "
        f'capacity_type: on-demand, price_per_hour: 0.5, resources: {{cpu: "8"}}{more}}}\n'
    )


def inventory(machines: Sequence[str], hooks: Sequence[str] = FREE_POOL, more: str = "") -> str:
    """Return an inventory file."""
    named = ", ".join(f"{kind}: ./{kind}" for kind in hooks)
    lines = "".join(map(machine_line, machines)) if machines else "  []\n"
    return f"name: hall-7\nhooks: {{{named}}}\n{more}machines:\n{lines}"


class World:
    """To be used inside `run_virtual`."""

    def __init__(self, text: str, *, readiness: NodeReadiness | None = None, **options: Any) -> None:
        self.process = virtual_process("provider")
        self.disk, self.clock = self.process.disk, self.process.clock
        ensure_directory(self.disk, FOLDER)
        ensure_directory(self.disk, "/run")
        ensure_directory(self.disk, STATE)
        for kind in HookKind:
            with self.disk.open(f"{FOLDER}/{kind}", OpenMode.CREATE, permissions=0o755):
                pass
        self.write(FILE, text)
        self.hooks = ScriptedProcesses(self.clock)
        self.store = MemoryStore()
        self._readiness, self._options = readiness, options
        self._log = StringIO()
        self._network = Network()
        self.provider = self._made()
        self.client = RawProviderClient(self._network.host("caller").dial("provider:9000"))

    async def __aenter__(self) -> Self:
        await self.provider.start()
        await self.provider.kit.listen(":9000")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.provider.stop(0)

    async def restart(self) -> None:
        """End the provider in good order and start another one on the same state."""
        await self.provider.stop(0)
        self.provider = self._made()
        await self.__aenter__()

    def write(self, path: str, text: str) -> None:
        """Replace the content of a file."""
        if self.disk.exists(path):
            self.disk.remove(path)
        with self.disk.open(path, OpenMode.CREATE, permissions=0o644) as file:
            file.pwrite(0, text.encode())

    def machine(self, machine_id: str) -> MachineRecord:
        """Return a record that must be there."""
        found = self.provider.kit.machine(machine_id)
        assert found is not None
        return found

    async def settled(self, machine_id: str) -> MachineRecord:
        """Wait, in virtual time, until the machine is not on its way."""
        while self.machine(machine_id).state in KIND_OF_TRANSITIONAL:
            await self.clock.sleep(0.25)
        return self.machine(machine_id)

    async def configured(
        self, machine_id: str, cluster: str = "prod", blob: bytes = b"join me"
    ) -> MachineRecord:
        """Configure a machine and wait."""
        await self.client.configure(machine_id, cluster, blob=blob, metadata={"k": "v"})
        return await self.settled(machine_id)

    @property
    def log_text(self) -> str:
        return self._log.getvalue()

    def seconds(self) -> float:
        """Return the virtual time."""
        return self.clock.monotonic_ns() / NANOSECONDS

    def _made(self) -> HookProvider:
        source = InventorySource(self.disk, [FOLDER], {})
        source.load()
        return HookProvider(
            source,
            self.hooks,
            environ={"PATH": "/bin", "HOME": "/root", "LANG": "C", "SECRET": "s3cret", "PROXY": "p"},
            disk=self.disk,
            clock=self.clock,
            log=build_logger(
                level="debug",
                form="json",
                stream=self._log,
                now=lambda: datetime.fromtimestamp(self.clock.wall_ns() / NANOSECONDS, UTC),
            ),
            blob_directory=BLOBS,
            state_directory=STATE,
            readiness=self._readiness,
            store=self.store,
            rng=self.process.rng,
            ids=self.process.ids,
            net=self._network.host("provider"),
            **{"limits": LIMITS, **self._options},
        )
