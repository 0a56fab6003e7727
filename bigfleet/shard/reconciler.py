"""Brings the inventory up to date with the provider: lists, compares, applies, removes.

Why: the provider owns the machines, so its reports correct the inventory.
Must never: touch a machine that has had an action since the listing was requested; take a refused record for a missing
machine; or block the event loop while it reads a large listing.
Rules: `shard#reconcile`, `shard#reported-failure`, `shard#disputed-states`, `shard#listing-guard`,
`shard#large-listings`, `shard#provider-calls`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bigfleet.aio.clock import monotonic_s, timeout
from bigfleet.model.errors import InvalidFieldError, UnknownMachineError
from bigfleet.model.inventory import Inventory, Rows
from bigfleet.model.machine import Machine, MachineState
from bigfleet.provider.errors import NoSuchMachineError, ProviderError
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.listing_guard import ListingGuard
from bigfleet.shard.core.reconcile import Disputes, RecordChange, is_progress, judge, vanished
from bigfleet.shard.dispatcher import ActionDispatcher
from bigfleet.shard.labels_left_out import LabelsLeftOutLog
from bigfleet.shard.listing_fetcher import FetchedListing, ListingFetcher
from bigfleet.shard.provider_link import ProviderLink
from bigfleet.shard.session.sessions import Sessions
from bigfleet.shard.skipped_metadata import SkippedMetadataLog
from bigfleet.wire.foreign_records import Claims
from bigfleet.wire.listing import ListingReader, MachineListing, RejectedRecord
from bigfleet.wire.machines import rejection_reason

_SLICE = 100  # records applied between two turns of the event loop
_READ_ASIDE_BYTES = 64 * 1024
_READ_AT_ONCE = 32
_LOGGED = 5  # refused records of one listing that are logged one by one


@dataclass(slots=True)
class Polled:
    """What came of an answer between two ticks."""

    revision: bytes = b""
    size: int = 0
    changed: bool = False
    decidable: bool = False
    """Whether the next cycle may decide otherwise because of it; it does not for a machine that became Configured."""
    skipped: bool = False
    """Whether a report was left out since an action may have overtaken it."""


async def _nothing() -> None:
    pass


class Reconciler:
    """Reconciles the inventory with one provider."""

    def __init__(
        self,
        context: ShardContext,
        *,
        provider: ProviderLink,
        dispatcher: ActionDispatcher,
        sessions: Sessions,
        configured: Callable[[Machine], None],
        on_late: Callable[[], None],
        claims: Claims | None = None,
    ) -> None:
        """`configured` is called for machines that became Configured at an asynchronous provider.

        `on_late` is called when a listing came for which no cycle waited any longer. `claims` are given where the provider
        is shared with other shards.
        """
        self._options, self._guarded = context.options, context.guarded
        self._clock, self._steady = context.clock, context.steady
        self._metrics, self._log = context.metrics, context.log
        self._setbacks = context.setbacks
        self._provider, self._dispatcher, self._sessions = provider, dispatcher, sessions
        self._configured, self._on_late = configured, on_late
        self._fetcher = ListingFetcher(context, provider)
        self._reader, self._shared = ListingReader(context.guarded.inventory, claims), claims is not None
        self._disputes, self._guard = Disputes(), ListingGuard(context.options.listing_guard_window_s)
        self._metadata = SkippedMetadataLog(context.metrics, context.log)
        self._labels = LabelsLeftOutLog(context.metrics, context.log)
        self.cursor = b""
        """The revision of the last listing of a tick; empty if the provider gives none."""
        self.listings = 0
        """How many listings of ticks were applied."""
        self.before_listing: Callable[[], Awaitable[None]] = _nothing
        """Awaited before a listing is requested; what it stops must not be in flight beside a listing."""
        self._busy = False
        self._again: set[str] = set()
        self._fetching: asyncio.Task[FetchedListing] | None = None
        self._listed_s = self._steady.now_s()
        context.metrics.gauge("bigfleet_shard_last_reconcile_age_seconds").set_function(
            lambda: self._steady.now_s() - self._listed_s
        )
        self.done_once = False
        """Whether a listing of the provider was applied once; never becomes false again."""
        self._applied_s: float | None = None

    @property
    def listing(self) -> bool:
        """Whether a listing is requested or being applied."""
        return self._busy or self._fetching is not None

    async def reconcile(self) -> bool:
        """List, wait for at most a cycle interval, apply; return whether a listing was applied.

        A listing that takes longer continues, and a later cycle applies it. None begins while the provider is unreachable.
        """
        self._busy = True
        try:
            return await self._reconcile()
        finally:
            self._busy = False

    async def _reconcile(self) -> bool:
        if self._fetching is None:
            if not self._provider.reachable:
                return False
            await self.before_listing()
            self._dispatcher.watch()
            since = self.cursor if self._options.incremental_reconcile else b""
            self._fetching = asyncio.get_running_loop().create_task(
                self._fetcher.fetch(since), name="provider listing"
            )
        try:
            async with timeout(self._clock, self._options.cycle_interval_s):
                fetched = await asyncio.shield(self._fetching)
            self._fetching = None
            await self._apply(fetched)
        except TimeoutError:
            self._log.warning("listing_slow", waited_s=self._options.cycle_interval_s)
            if self._fetching is not None:
                self._fetching.add_done_callback(self._came_late)
            return False
        except Exception as error:
            self._fetching = None  # the next cycle lists again
            if not isinstance(error, ProviderError | InvalidFieldError):
                raise
            self._log.warning("reconcile_failed", problem=str(error))
            return False
        self.listings += 1
        self._listed_s = self._steady.now_s()
        self._metrics.gauge("bigfleet_shard_last_reconcile_success_timestamp_seconds").set(self._listed_s)
        self._applied_s = monotonic_s(self._clock)
        if not self.done_once:
            self.done_once = True
            self._log.info("first_reconcile", machines=len(self._guarded.inventory))
            await self._sessions.resync_all()
        return True

    def _came_late(self, fetching: "asyncio.Task[FetchedListing]") -> None:
        if not fetching.cancelled() and fetching is self._fetching:
            self._on_late()

    @property
    def doubted(self) -> tuple[float, int] | None:
        """For how long listings have been doubted, and how many machines the last one lacked; None when none is."""
        since_s = self._guard.since_s
        return None if since_s is None else (monotonic_s(self._clock) - since_s, self._guard.missing)

    def listing_age_s(self) -> float | None:
        """How long ago a listing was applied last; None before the first."""
        return None if self._applied_s is None else monotonic_s(self._clock) - self._applied_s

    async def stop(self) -> None:
        """Cancel a listing in flight."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    # Applying

    async def _apply(self, fetched: FetchedListing) -> None:
        known = len(self._guarded.inventory)
        seen: list[Rows] = []
        disputed: list[str] = []
        foreign = without_domain = 0
        for place, data in enumerate(fetched.parts):
            listing = await self._read(data, whole=fetched.full and not fetched.by_state)
            if place == 0:
                self.cursor = (
                    listing.revision
                )  # the oldest of several, so that no change between them is missed
            self._report_rejected(listing.rejected)
            self._metadata.report(listing.skipped)
            self._labels.report(listing.labels_left_out)
            foreign += listing.foreign
            without_domain += listing.without_domain
            await self._send_new(listing)
            disputed += await self._apply_changed(listing.changed)
            seen += [listing.seen, _rows_of(listing)]
        if self._shared:
            self._metrics.gauge("bigfleet_shard_foreign_machines").set(foreign)
            self._metrics.gauge("bigfleet_shard_machines_without_domain").set(without_domain)
        if self._options.incremental_reconcile:
            await self._read_again()
            return
        self._again = set()  # the next full listing covers all of them
        self._disputes.settle_all_but(disputed)
        for machine_id in self._dispatcher.unsettled:
            if not self._dispatcher.touched(machine_id) and machine_id not in self._disputes:
                self._dispatcher.settle(machine_id)
        await self._remove_missing(known, np.concatenate(seen), check=fetched.by_state)

    async def _read(self, data: bytes, *, whole: bool) -> MachineListing:
        now = self._steady.now_s()

        def work(inventory: Inventory) -> MachineListing:
            listing = self._reader.read(data, full=whole)
            inventory.insert_rows(listing.new, now)
            return listing

        if len(data) > _READ_ASIDE_BYTES:
            return await self._guarded.exclusively(work)
        await self._guarded.available()
        return work(self._guarded.inventory)

    def _report_rejected(self, rejected: Sequence[RejectedRecord]) -> None:
        counted = 0
        for record in rejected:
            if self._is_known_configuring(record):
                continue
            counted += 1
            field = record.error.field.rpartition(".")[2]
            reason = rejection_reason(type(record.error)(field, record.error.found, record.error.allowed))
            self._metrics.counter("bigfleet_shard_machines_rejected_total", reason=reason).inc()
            if counted <= _LOGGED:
                self._log.warning(
                    "record_rejected", machine=record.machine_id, problem=str(record.error), reason=reason
                )
        if counted > _LOGGED:
            self._log.warning("records_rejected", count=counted)

    def _is_known_configuring(self, record: RejectedRecord) -> bool:
        """Whether it is a Configuring record without a cluster, whose cluster the inventory knows (`providers#states`)."""
        if not record.error.field.endswith(".cluster"):
            return False
        return self._guarded.inventory.state_of(record.machine_id) is MachineState.CONFIGURING

    async def _send_new(self, listing: MachineListing) -> None:
        """Send the node states of machines that appeared bound; after the first listing the resync does so."""
        if not self.done_once:
            return
        bound = np.flatnonzero(np.frombuffer(listing.new.clusters, dtype=np.int32))
        rows = _rows_of(listing)[bound]
        for start in range(0, rows.size, _SLICE):
            await self._guarded.available()
            for machine in self._guarded.inventory.records(rows[start : start + _SLICE]):
                self._sessions.send_node_state(machine)
            await self._clock.sleep(0)

    async def _apply_changed(self, changed: Sequence[tuple[Machine, int]]) -> list[str]:
        """Apply records that changed; return the disputed machines."""
        disputed: list[str] = []
        for start in range(0, len(changed), _SLICE):
            await self._guarded.available()
            same: list[tuple[str, int]] = []
            for reported, source_hash in changed[start : start + _SLICE]:
                if self._dispatcher.touched(reported.id):
                    # A report of the state we have needs no second look; the provider lists any later change again.
                    if self._guarded.inventory.state_of(reported.id) is not reported.state:
                        self._again.add(reported.id)
                elif self._apply_record(reported):
                    same.append((reported.id, source_hash))
                elif reported.id in self._disputes:
                    disputed.append(reported.id)
            if same:
                inventory = self._guarded.inventory
                rows = inventory.rows_of([machine_id for machine_id, _ in same])
                inventory.note_sources(rows, np.array([number for _, number in same], dtype=np.int64))
            if start + _SLICE < len(changed):
                await self._clock.sleep(0)
        return disputed

    async def apply_changes(self, data: bytes) -> Polled:
        """Apply the answer to a request for changes between two ticks.

        The next tick does what is left out here: refused records, reports that are no progress and may be outdated, and machines
        whose report an action may have overtaken.
        """
        listing = await self._read(data, whole=False)
        polled = Polled(listing.revision, listing.size, changed=bool(len(listing.new)))
        polled.decidable = polled.changed
        self._metadata.report(listing.skipped)
        self._labels.report(listing.labels_left_out)
        await self._send_new(listing)
        changed = listing.changed
        for start in range(0, len(changed), _SLICE):
            await self._guarded.available()
            for reported, source_hash in changed[start : start + _SLICE]:
                if self._apply_progress(reported, polled):
                    inventory = self._guarded.inventory
                    hashes = np.array([source_hash], dtype=np.int64)
                    inventory.note_sources(inventory.rows_of([reported.id]), hashes)
            await self._clock.sleep(0)
        return polled

    async def apply_polled(self, reported: Machine) -> Polled:
        """Apply the record of a machine that was read between two ticks."""
        await self._guarded.available()
        polled = Polled()
        self._apply_progress(reported, polled)
        return polled

    def _apply_progress(self, reported: Machine, polled: Polled) -> bool:
        """Apply a report unless a tick has to look at it; return whether the state is the known one already."""
        known = self._guarded.inventory.state_of(reported.id)
        if known is reported.state and not self._dispatcher.touched(reported.id):
            return True
        if self._dispatcher.touched(reported.id):
            polled.skipped |= known is not reported.state
        elif known is not None and is_progress(known, reported.state):
            self._apply_record(reported)
            polled.changed = True
            polled.decidable |= reported.state is not MachineState.CONFIGURED
        return False

    def _apply_record(self, reported: Machine) -> bool:
        """Apply one record of a known machine; return whether its state is the known one."""
        inventory = self._guarded.inventory
        try:
            local = inventory.get(reported.id)
        except UnknownMachineError:
            return False  # removed meanwhile; the next listing inserts it again
        change = judge(local, reported, self._disputes)
        if change is not None:
            self._write(local, change)
            return False
        if local.state is reported.state:
            return True
        self._metrics.counter("bigfleet_shard_disputed_reports_total").inc()
        self._log.warning(
            "report_disputed", machine=local.id, known=local.state.label, reported=reported.state.label
        )
        return False

    def reported(self, record: Machine) -> None:
        """Apply the record of a machine that was read for another purpose."""
        self._apply_record(record)

    def _write(self, local: Machine, change: RecordChange) -> None:
        inventory, after, now = self._guarded.inventory, change.machine, self._steady.now_s()
        if change.adopted:
            inventory.adopt(after, now)
            self._metrics.counter("bigfleet_shard_adopted_reports_total").inc()
            self._log.warning(
                "report_adopted",
                machine=after.id,
                known=local.state.label,
                reported=after.state.label,
                error=after.last_error,
            )
        else:
            inventory.apply(after, now)
        self._setbacks.changed(local, after, now)
        if after.state is MachineState.CONFIGURED and local.state is MachineState.CONFIGURING:
            self._configured(after)
        self._sessions.send_node_state(after, local.cluster)

    # Machines that a listing lacks

    async def _remove_missing(self, known: int, seen: Rows, *, check: bool) -> None:
        await self._guarded.available()
        missing = self._guarded.inventory.missing_from(seen)
        believed = self._guard.believes(known, len(missing), monotonic_s(self._clock))
        self._metrics.gauge("bigfleet_shard_listings_held").set(self._guard.held)
        self._metrics.gauge("bigfleet_shard_listing_doubted").set(not believed)
        if not believed:
            self._log.error("listing_held", known=known, missing=len(missing), held=self._guard.held)
            return
        gone = [machine_id for machine_id in missing if not self._dispatcher.touched(machine_id)]
        if check:
            await self._read_each(gone)
            return
        for place, machine_id in enumerate(gone, start=1):
            await self._guarded.available()
            self._remove(machine_id)
            if not place % _SLICE:
                await self._clock.sleep(0)

    def _remove(self, machine_id: str) -> None:
        inventory = self._guarded.inventory
        local = inventory.get(machine_id)
        inventory.remove(machine_id)
        self._dispatcher.settle(machine_id)
        self._disputes.settle(machine_id)
        self._log.info("machine_removed", machine=machine_id, state=local.state.label, cluster=local.cluster)
        if local.cluster:
            self._sessions.send_node_state(vanished(local))

    def forget(self, machine_id: str) -> None:
        """Forget a free machine that belongs to another shard from now on; its provider still lists it."""
        self._guarded.inventory.remove(machine_id)
        self._dispatcher.settle(machine_id)
        self._disputes.settle(machine_id)
        self._log.info("machine_let_go", machine=machine_id)

    async def _read_again(self) -> None:
        """Get machines one by one that no later delta will contain (`shard#disputed-states`)."""
        again = {*self._disputes.machine_ids, *self._again, *self._dispatcher.unsettled}
        self._again = set()
        await self._read_each(sorted(again))

    async def _read_each(self, machine_ids: Sequence[str]) -> None:
        self._dispatcher.watch()
        for start in range(0, len(machine_ids), _READ_AT_ONCE):
            some = machine_ids[start : start + _READ_AT_ONCE]
            await asyncio.gather(*(self._read_one(machine_id) for machine_id in some))

    async def _read_one(self, machine_id: str) -> None:
        if self._dispatcher.is_pending(machine_id):
            self._again.add(machine_id)
            return
        try:
            reported = await self._provider.get(machine_id)
        except NoSuchMachineError:
            await self._guarded.available()
            if machine_id in self._guarded.inventory and not self._dispatcher.touched(machine_id):
                self._remove(machine_id)
            return
        except ProviderError as error:
            self._log.warning("get_failed", machine=machine_id, problem=str(error))
            self._again.add(machine_id)
            return
        await self._guarded.available()
        if self._dispatcher.touched(machine_id):
            self._again.add(machine_id)
            return
        self._apply_record(reported)
        if machine_id not in self._disputes:
            self._dispatcher.settle(machine_id)


def _rows_of(listing: MachineListing) -> Rows:
    """The rows of the new machines of a listing."""
    first = listing.new.placement.first_row
    return np.arange(0 if first is None else len(listing.new)) + (first or 0)
