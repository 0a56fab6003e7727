"""The hook provider: the kit on its backend, and the loops that watch files and probe machines.

Must never: end a loop because a file, a hook or the disk failed; only a defect does, and then the program ends.
Rules: `providers#hook`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.aio.disk import Disk
from bigfleet.model.errors import BigFleetError
from bigfleet.provider.hook.backend import HookBackend, NodeReadiness
from bigfleet.provider.hook.core.errors import InventoryError
from bigfleet.provider.hook.core.inventory import InventoryMode, warnings_of
from bigfleet.provider.hook.hooks import DEFAULT_PARALLEL, HookRunner
from bigfleet.provider.hook.host_labels import HostLabels
from bigfleet.provider.hook.probing import INTERVAL_S, Prober
from bigfleet.provider.hook.processes import Processes
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.kit import STOP_GRACE_S, ProviderKit

WATCH_S: Final = 5.0


class HookProvider:
    """One provider: `start`, `run` as a background task, `stop`."""

    def __init__(
        self,
        source: InventorySource,
        processes: Processes,
        *,
        environ: Mapping[str, str],
        disk: Disk,
        clock: Clock,
        log: FilteringBoundLogger,
        blob_directory: str,
        state_directory: str = "",
        readiness: NodeReadiness | None = None,
        parallel: int = DEFAULT_PARALLEL,
        watch_s: float = WATCH_S,
        probe_s: float = INTERVAL_S,
        **kit: Any,  # Any: whatever ProviderKit takes besides
    ) -> None:
        """The source must be loaded; name and mode of its inventory are fixed for this provider."""
        inventory = source.inventory
        self._source, self._clock, self._log, self._watch_s = source, clock, log, watch_s
        self._host_labels = HostLabels(disk, state_directory)
        self._refresh_wanted = asyncio.Event()
        self._hooks = HookRunner(
            processes,
            environ=environ,
            disk=disk,
            blob_directory=blob_directory,
            clock=clock,
            log=log,
            parallel=parallel,
        )
        self.backend = HookBackend(
            source,
            self._hooks,
            clock=clock,
            readiness=readiness,
            host_labels=self._host_labels,
            on_labels_changed=self._refresh_wanted.set,
        )
        self.kit = ProviderKit(
            self.backend,
            name=inventory.name,
            clock=clock,
            log=log,
            offer_delete=inventory.mode is InventoryMode.POWER_MANAGED,
            **kit,
        )
        self._prober = Prober(
            source,
            self._hooks,
            clock=clock,
            log=log,
            machines=lambda: list(self._machines()),
            subject=self.backend.subject,
            report_event=self.kit.report_event,
            interval_s=probe_s,
            at_once=max(1, parallel // 4),
        )

    async def start(self) -> None:
        """Prepare the hooks and start the kit; afterwards calls can be served."""
        self._hooks.prepare()
        self._host_labels.open()
        inventory = self._source.inventory
        for warning in warnings_of(inventory):
            self._log.warning("inventory_warning", why=warning)
        await self.kit.start()
        self._log.info("hooks_ready", mode=inventory.mode.value, hooks=sorted(inventory.hooks))

    async def run(self) -> None:
        """Watch files and probe machines until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_watching())
            group.create_task(self._keep_refreshing())
            group.create_task(self._prober.run())

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Finish running calls, terminate the hooks, close the store."""
        await self.kit.stop(grace_s)

    async def reload(self) -> bool:
        """Read the inventory again; False if it is invalid, and the old one stays in use."""
        try:
            inventory = self._source.load()
        except InventoryError as error:
            self._log.error("inventory_refused", faults=list(error.faults), kept=self._source.inventory.name)
            return False
        for warning in warnings_of(inventory):
            self._log.warning("inventory_warning", why=warning)
        await self._refresh()
        # Logged last: a reader of this line may rely on the machines that it counts.
        self._log.info("inventory_loaded", machines=len(inventory.entries))
        return True

    async def _keep_watching(self) -> None:
        while True:
            await self._clock.sleep(self._watch_s)
            if await asyncio.to_thread(self._source.has_changed):
                await self.reload()

    async def _keep_refreshing(self) -> None:
        while True:
            await self._refresh_wanted.wait()
            self._refresh_wanted.clear()
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self.kit.refresh()
        except BigFleetError as error:
            self._log.warning("refresh_failed", why=str(error))

    def _machines(self) -> Iterator[MachineRecord]:
        for machine_id in sorted(self.kit.state.table.ids()):
            machine = self.kit.machine(machine_id)
            if machine is not None:
                yield machine
