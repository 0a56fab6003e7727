"""Runs the probe hook for every Idle or Configured machine, and fails one after three failures in a row.

Must never: probe a machine that an operation works on, or fail one for a single failed probe.
Rules: `providers#hook-probe`, `providers#unasked-failure`, `shard#reported-failure`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.model.machine import MachineState
from bigfleet.provider.hook.core.exits import HookOutcome
from bigfleet.provider.hook.core.inventory import HookInventory, HookKind
from bigfleet.provider.hook.core.protocol import HookMachine, HookRequest
from bigfleet.provider.hook.hooks import HookRunner
from bigfleet.provider.hook.processes import SpawnError
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.core.transitions import Lost
from bigfleet.provider.kit.core.values import MachineRecord

INTERVAL_S: Final = 60.0
TIMEOUT_S: Final = 30.0
FAILURES: Final = 3
PROBED_STATES: Final = frozenset({MachineState.IDLE, MachineState.CONFIGURED})


class Prober:
    """Counts failed probes in a row, by machine."""

    def __init__(
        self,
        source: InventorySource,
        hooks: HookRunner,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        machines: Callable[[], Iterable[MachineRecord]],
        subject: Callable[[MachineRecord], HookMachine],
        report_event: Callable[[Lost], Awaitable[bool]],
        interval_s: float = INTERVAL_S,
        at_once: int = 4,
    ) -> None:
        self._source, self._hooks, self._clock, self._log = source, hooks, clock, log
        self._machines, self._subject, self._report_event = machines, subject, report_event
        self._interval_s = interval_s
        # Fewer than hooks may run at once, so that operations do not wait behind a round of probes.
        self._places = asyncio.Semaphore(at_once)
        self._failures: dict[str, int] = {}

    async def run(self) -> None:
        """Probe all machines at every interval until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            await self.round()

    async def round(self) -> None:
        """Probe every Idle or Configured machine once."""
        inventory = self._source.inventory
        if HookKind.PROBE not in inventory.hooks:
            self._failures.clear()
            return
        machines = [machine for machine in self._machines() if machine.state in PROBED_STATES]
        # Only machines probed in this round are counted: one that left and came back starts at 0.
        well = {machine.id for machine in machines}
        self._failures = {name: count for name, count in self._failures.items() if name in well}
        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(self._probe(inventory, machine))

    async def _probe(self, inventory: HookInventory, machine: MachineRecord) -> None:
        async with self._places:
            if self._hooks.is_busy(machine.id):
                return
            problem = await self._problem(inventory, machine)
        if problem is None:
            self._failures.pop(machine.id, None)
            return
        if not problem:
            return  # the hook cannot say yet
        count = self._failures[machine.id] = self._failures.get(machine.id, 0) + 1
        self._log.warning("probe_failed", machine=machine.id, in_a_row=count, why=problem)
        if count >= FAILURES:
            del self._failures[machine.id]
            await self._report_event(Lost(machine.id, f"probe: {problem}"))

    async def _problem(self, inventory: HookInventory, machine: MachineRecord) -> str | None:
        """Return what is wrong, None if nothing is, an empty text if the hook cannot say yet or did not run."""
        request = HookRequest(
            kind=HookKind.PROBE,
            subject=self._subject(machine),
            cluster=machine.cluster,
            deadline_seconds=int(TIMEOUT_S),
        )
        try:
            result = await self._hooks.call(inventory, request, timeout_s=TIMEOUT_S)
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:g} s"
        except SpawnError as error:
            # Not counted: a broken script would fail the whole fleet in three minutes.
            self._log.error("probe_not_run", machine=machine.id, why=str(error))
            return ""
        match result.outcome:
            case HookOutcome.DONE:
                return None
            case HookOutcome.NOT_YET:
                return ""
        return result.reason
