"""A provider at work: its desk, service, workers and the loops that look after it.

Why: what exists only between start and stop is one object, so that nothing can be used before or after.
Must never: end a loop because of an error that may pass; a defect ends it, is logged, and the provider goes on without.
Rules: providers 4.1 (refresh, tombstones, restart, snapshots), 4.2 (Watches).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.backoff import Backoff
from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import Rng
from bigfleet.model.errors import BigFleetError
from bigfleet.provider.contract import KIND_OF_TRANSITIONAL
from bigfleet.provider.errors import NoSuchMachineError
from bigfleet.provider.kit.backend import Backend, Resumes, SubstrateEvent, Watches
from bigfleet.provider.kit.core.calls import CallRules
from bigfleet.provider.kit.core.changes import PutMachine, StateChange
from bigfleet.provider.kit.core.state import MachineEntry, ProviderState
from bigfleet.provider.kit.core.texts import one_line
from bigfleet.provider.kit.core.transitions import Lost, interrupt, lose, reprice
from bigfleet.provider.kit.core.validation import RecordValidator
from bigfleet.provider.kit.core.values import DescribedMachine, Timestamp
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.observer import ProviderObserver
from bigfleet.provider.kit.refresh import Refreshed, Refresher
from bigfleet.provider.kit.service import ProviderService, ShardOnlyService
from bigfleet.provider.kit.state_files import write_snapshot
from bigfleet.provider.kit.state_writer import DecidedChanges, StateWriter
from bigfleet.provider.kit.store import StateStore
from bigfleet.provider.kit.workers import AcceptedOperation, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class KitDependencies:
    """What a running provider needs from outside."""

    backend: Backend
    store: StateStore
    limits: Limits
    clock: Clock
    rng: Rng
    log: FilteringBoundLogger
    observations: ProviderObserver
    rules: CallRules
    now: Callable[[], Timestamp]
    synchronous: bool
    require_shard_san: bool


class RunningProvider:
    """Everything of one provider between start and stop."""

    def __init__(self, around: KitDependencies, book: ProviderState) -> None:
        self._around = around
        self._log, self._clock, self._limits = around.log, around.clock, around.limits
        self.desk = StateWriter(
            book, around.store, lambda changes, before: around.observations.applied(book, changes, before)
        )
        self.workers = Workers(
            around.backend,
            self.desk,
            limits=around.limits,
            clock=around.clock,
            jitter=around.rng.stream("provider/retry"),
            log=around.log,
            on_ended=around.observations.ended,
        )
        self.service = (ShardOnlyService if around.require_shard_san else ProviderService)(
            self.desk,
            rules=around.rules,
            begin=self.workers.begin,
            clock=around.clock,
            observer=around.observations,
            max_message_bytes=around.limits.max_message_bytes,
            synchronous=around.synchronous,
        )
        self._refresher = Refresher(
            around.backend,
            self.desk,
            limits=around.limits,
            clock=around.clock,
            now=around.now,
            on_invalid=around.observations.invalid,
        )
        self._loops: dict[asyncio.Task[None], None] = {}  # a set in the order of arrival
        self._looking = asyncio.Lock()

    @property
    def book(self) -> ProviderState:
        return self.desk.book

    async def settle(self, *, found: bool) -> None:
        """Bring the state up to date before anybody sees it: what the end of the last process cut off, then the substrate."""
        if not found:
            await self._refresher.seed(self.book)
            self.book.opened(self.book.head)
            await write_snapshot(self._around.store, self.book)
        else:
            cut_off = self.book.transitional()
            if cut_off and not isinstance(self._around.backend, Resumes):
                await self.desk.commit_many(cut_off, lambda: _interrupted(self.book, cut_off))
            await self._refresher.refresh(fatal=True)
        self._around.observations.counted(self.book)

    def begin(self) -> None:
        """Take up what was under way, and look after the provider from now on."""
        for machine_id in self.book.transitional():
            self._resume(machine_id)
        if self._limits.refresh:
            self._loop(self._keep_refreshed(), "refresh")
        self._loop(self._keep_house(), "housekeeping")
        if isinstance(self._around.backend, Watches):
            self._loop(self._keep_watching(self._around.backend), "watch")

    async def stop(self, grace_s: float) -> None:
        """End the loops and the work."""
        loops = list(self._loops)
        for task in loops:
            task.cancel()
        if loops:
            await asyncio.wait(loops)
        await self.workers.stop(grace_s)

    async def refresh(self) -> Refreshed:
        """Look at the substrate now, one look at a time."""
        async with self._looking:
            refreshed = await self._refresher.refresh()
        if refreshed != Refreshed():
            self._log.info(
                "refreshed",
                added=refreshed.added,
                changed=refreshed.changed,
                buried=refreshed.buried,
                invalid=refreshed.invalid,
            )
        return refreshed

    async def happened(self, event: SubstrateEvent) -> bool:
        """Take news of the substrate about one machine; False if they change nothing or cannot be true."""

        def decide(entry: MachineEntry) -> PutMachine | None:
            if isinstance(event, Lost):
                return lose(self.book, entry, event, self._around.now())
            put = reprice(self.book, entry, event)
            faults = RecordValidator().faults(DescribedMachine(put.id, put.offer)) if put else ()
            self._around.observations.invalid(faults)
            return None if faults else put

        try:
            return await self.change(event.machine_id, decide)
        except NoSuchMachineError:
            self._log.warning("event_for_unknown_machine", machine=event.machine_id)
            return False

    async def change(self, machine_id: str, decide: Callable[[MachineEntry], PutMachine | None]) -> bool:
        """Decide about one known machine and carry it out; False if nothing changed."""

        def decided() -> DecidedChanges[bool]:
            entry = self.book.entry(machine_id)
            if entry is None:
                raise NoSuchMachineError("change", machine_id, "this provider knows no such machine")
            put = decide(entry)
            return put is not None, () if put is None else (put,)

        return await self.desk.decide(machine_id, decided)

    def _resume(self, machine_id: str) -> None:
        entry = self.book.entry(machine_id)
        if entry is None or entry.machine.state not in KIND_OF_TRANSITIONAL:
            return
        kind = KIND_OF_TRANSITIONAL[entry.machine.state]
        number = entry.operation(kind)
        self.workers.begin(
            AcceptedOperation(entry.machine, kind, number, self.book.operation_id(number), resumed=True)
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
            if self._around.store.wants_snapshot:
                await self._attempt("snapshot_failed", lambda: write_snapshot(self._around.store, self.book))

    async def _keep_watching(self, backend: Watches) -> None:
        backoff = Backoff(self._around.rng.stream("provider/watch"), self._limits.retry)
        while True:
            try:
                async for event in backend.events():
                    backoff.reset()
                    await self.happened(event)
            except Exception as problem:  # author code; whatever it is, the next watch may do better
                wait_s = backoff.next_s()
                self._log.warning("watch_broke", why=_spell(problem), wait_s=round(wait_s, 3))
                await self._clock.sleep(wait_s)
            else:
                self._log.info("watch_ended", why="the backend has no more events to tell")
                return

    async def _attempt(self, event: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            await work()
        except Exception as problem:  # author code or the disk; the next round may do better
            self._log.warning(event, why=_spell(problem))


def _interrupted(book: ProviderState, machine_ids: Sequence[str]) -> Sequence[StateChange]:
    entries = (book.entry(machine_id) for machine_id in machine_ids)
    puts = (interrupt(book, entry) for entry in entries if entry is not None)
    return [put for put in puts if put is not None]


def _spell(problem: Exception) -> str:
    kind = "" if isinstance(problem, BigFleetError) else f"{type(problem).__name__}: "
    return one_line(f"{kind}{problem}")
