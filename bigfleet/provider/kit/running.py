"""A running provider: its state writer, service, workers and background loops.

Must never: end a loop because of a transient error; a defect ends it, is logged, and the provider continues without it.
Rules: `providers#refresh`, `providers#restart`, `providers#backend`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.backoff import Backoff
from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import Rng
from bigfleet.model.errors import BigFleetError
from bigfleet.provider.contract import KIND_OF_TRANSITIONAL
from bigfleet.provider.errors import NoSuchMachineError
from bigfleet.provider.kit.admission import CallerRules
from bigfleet.provider.kit.backend import Backend, SubstrateEvent, Watches
from bigfleet.provider.kit.core.calls import CallRules
from bigfleet.provider.kit.core.changes import LowerMarks, PutMachine
from bigfleet.provider.kit.core.state import MachineEntry, ProviderState
from bigfleet.provider.kit.core.texts import one_line
from bigfleet.provider.kit.core.transitions import Lost, lose, reprice
from bigfleet.provider.kit.core.validation import RecordValidator
from bigfleet.provider.kit.core.values import DescribedMachine, Timestamp
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.observer import ProviderObserver
from bigfleet.provider.kit.refresh import Refreshed, Refresher
from bigfleet.provider.kit.service import ProviderService
from bigfleet.provider.kit.state_files import write_snapshot
from bigfleet.provider.kit.state_writer import NO_MACHINE, DecidedChanges, StateWriter
from bigfleet.provider.kit.store import StateStore
from bigfleet.provider.kit.workers import AcceptedOperation, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class KitDependencies:
    """What a running provider gets from the kit."""

    backend: Backend
    store: StateStore
    limits: Limits
    clock: Clock
    rng: Rng
    log: FilteringBoundLogger
    observer: ProviderObserver
    rules: CallRules
    now: Callable[[], Timestamp]
    synchronous: bool
    admission: CallerRules


class RunningProvider:
    """Everything of one provider between start and stop."""

    def __init__(self, dependencies: KitDependencies, state: ProviderState) -> None:
        self._dependencies = dependencies
        self._log, self._clock, self._limits = dependencies.log, dependencies.clock, dependencies.limits
        self.writer = StateWriter(
            state,
            dependencies.store,
            lambda changes, before: dependencies.observer.applied(state, changes, before),
        )
        self.workers = Workers(
            dependencies.backend,
            self.writer,
            limits=dependencies.limits,
            clock=dependencies.clock,
            jitter=dependencies.rng.stream("provider/retry"),
            log=dependencies.log,
            on_ended=dependencies.observer.operation_ended,
        )
        self.service = ProviderService(
            self.writer,
            rules=dependencies.rules,
            admission=dependencies.admission,
            begin=self.workers.begin,
            clock=dependencies.clock,
            now=dependencies.now,
            observer=dependencies.observer,
            max_message_bytes=dependencies.limits.max_message_bytes,
            synchronous=dependencies.synchronous,
        )
        self._refresher = Refresher(
            dependencies.backend,
            self.writer,
            limits=dependencies.limits,
            clock=dependencies.clock,
            now=dependencies.now,
            on_invalid=dependencies.observer.invalid,
        )
        self._loops: dict[asyncio.Task[None], None] = {}  # a set in the order of arrival
        self._looking = asyncio.Lock()

    @property
    def state(self) -> ProviderState:
        return self.writer.state

    async def settle(self, *, found: bool) -> None:
        """Bring the state up to date with the backend before serving."""
        if not found:
            await self._refresher.seed(self.state)
            self.state.opened(self.state.head)
            await write_snapshot(self._dependencies.store, self.state)
        else:
            await self._refresher.refresh(fatal=True)
        self._dependencies.observer.counted(self.state)

    def begin(self) -> None:
        """Resume operations in progress and start the background loops."""
        for machine_id in self.state.transitional():
            self._resume(machine_id)
        if self._limits.refresh:
            self._loop(self._keep_refreshed(), "refresh")
        self._loop(self._keep_house(), "housekeeping")
        if isinstance(self._dependencies.backend, Watches):
            self._loop(self._keep_watching(self._dependencies.backend), "watch")

    async def stop(self, grace_s: float) -> None:
        loops = list(self._loops)
        for task in loops:
            task.cancel()
        if loops:
            await asyncio.wait(loops)
        await self.workers.stop(grace_s)

    async def refresh(self) -> Refreshed:
        """Refresh from the backend, one refresh at a time."""
        async with self._looking:
            refreshed = await self._refresher.refresh()
        if refreshed != Refreshed():
            self._log.info(
                "refreshed",
                added=refreshed.added,
                changed=refreshed.changed,
                tombstones=refreshed.tombstones,
                invalid=refreshed.invalid,
            )
        return refreshed

    async def report_event(self, event: SubstrateEvent) -> bool:
        """Apply an event of one machine; False if it changes nothing or is invalid."""

        def decide(entry: MachineEntry) -> PutMachine | None:
            if isinstance(event, Lost):
                return lose(self.state, entry, event, self._dependencies.now())
            put = reprice(self.state, entry, event)
            faults = RecordValidator().faults(DescribedMachine(put.id, put.offer)) if put else ()
            self._dependencies.observer.invalid(faults)
            return None if faults else put

        try:
            return await self.change(event.machine_id, decide)
        except NoSuchMachineError:
            self._log.warning("event_for_unknown_machine", machine=event.machine_id)
            return False

    async def lower_marks(self, change: LowerMarks) -> int:
        """Lower the marks of a shard above an epoch; return how many there were."""
        fence = self.state.fence

        def decided() -> DecidedChanges[int]:
            above = fence.count_above(change)
            return above, (change,) if above else ()

        return await self.writer.decide(NO_MACHINE, decided)

    async def change(self, machine_id: str, decide: Callable[[MachineEntry], PutMachine | None]) -> bool:
        """Decide about one known machine and commit it; False if nothing changed."""

        def decided() -> DecidedChanges[bool]:
            entry = self.state.entry(machine_id)
            if entry is None:
                raise NoSuchMachineError("change", machine_id, "this provider knows no such machine")
            put = decide(entry)
            return put is not None, () if put is None else (put,)

        return await self.writer.decide(machine_id, decided)

    def _resume(self, machine_id: str) -> None:
        entry = self.state.entry(machine_id)
        if entry is None or entry.machine.state not in KIND_OF_TRANSITIONAL:
            return
        kind = KIND_OF_TRANSITIONAL[entry.machine.state]
        number = entry.operation(kind)
        grace_s = self.state.grace_left_s(machine_id, number, self._dependencies.now().seconds)
        operation_id = self.state.operation_id(number)
        self._log.info("operation_resumed", machine=machine_id, kind=kind.value, operation=operation_id)
        self.workers.begin(
            AcceptedOperation(entry.machine, kind, number, operation_id, grace_s=grace_s, resumed=True)
        )

    def _loop(self, forever: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(forever, name=f"provider {name}")
        self._loops[task] = None
        task.add_done_callback(lambda ended: self._on_loop_ended(ended, name))

    def _on_loop_ended(self, ended: "asyncio.Task[None]", name: str) -> None:
        self._loops.pop(ended, None)
        if not ended.cancelled() and ended.exception() is not None:
            self._log.error("provider_loop_died", loop=name, exc_info=ended.exception())

    async def _keep_refreshed(self) -> None:
        while True:
            await self._clock.sleep(self._limits.refresh)
            await self._attempt("refresh_failed", self.refresh)

    async def _keep_house(self) -> None:
        while True:
            await self._clock.sleep(self._limits.housekeeping)
            await self._attempt("tombstones_kept", self._refresher.forget_tombstones)
            if self._dependencies.store.wants_snapshot:
                await self._attempt(
                    "snapshot_failed", lambda: write_snapshot(self._dependencies.store, self.state)
                )

    async def _keep_watching(self, backend: Watches) -> None:
        backoff = Backoff(self._dependencies.rng.stream("provider/watch"), self._limits.retry)
        while True:
            try:
                async for event in backend.events():
                    backoff.reset()
                    await self.report_event(event)
            except Exception as problem:  # author code; the next watch may succeed
                wait_s = backoff.next_s()
                self._log.warning("watch_broke", why=_spell(problem), wait_s=round(wait_s, 3))
                await self._clock.sleep(wait_s)
            else:
                self._log.info("watch_ended", why="the backend has no more events")
                return

    async def _attempt(self, event: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            await work()
        except Exception as problem:  # author code or the disk; the next round may succeed
            self._log.warning(event, why=_spell(problem))


def _spell(problem: Exception) -> str:
    kind = "" if isinstance(problem, BigFleetError) else f"{type(problem).__name__}: "
    return one_line(f"{kind}{problem}")
