"""Keeps the roll-up of the cluster up to date, and sends it when demand changed.

`follow` applies each change of a request to the kept demand, for the life of the process. `run` sends, for the life of one
session: after a short quiet time, at most so long after the first change, and in any case at each interval.
Must never: block the event loop for long, wait for a status write, send part of a list or of a change, or build from an
incomplete cache.
Rules: `operator#demand`; ADR-0027, ADR-0039, ADR-0205.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, NoReturn

import structlog

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.net import MAX_MESSAGE_BYTES
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.metrics import Metrics, timed
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.contribution import DemandRow
from bigfleet.operator.core.request_status import RequestView
from bigfleet.operator.core.rollup import KeptDemand, Requested, RollupRow, Surplus
from bigfleet.operator.refused_rollups import Named, RefusedRollups
from bigfleet.operator.session.uplink import PreparedRollup, Uplink
from bigfleet.wire.operator_frames import RollupWriter, encoded_row

_REQUESTS_PER_TURN: Final = 2_000
_ROWS_PER_TURN: Final = 250
_SHORTEST_SLEEP_S: Final = 0.001


class RollupTooLargeError(BigFleetError):
    """The demand does not fit into one frame; the shard keeps the last roll-up."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the roll-up has {size} bytes, allowed is {MAX_MESSAGE_BYTES}")
        self.size = size


@dataclass(frozen=True, slots=True)
class RollupCadence:
    """When a roll-up is sent, in seconds."""

    interval_s: float
    quiet_s: float
    max_delay_s: float


class RollupLoop:
    """Keeps, builds and sends the roll-ups of one cluster."""

    def __init__(
        self,
        cluster: str,
        caches: OperatorCaches,
        acknowledger: Acknowledger,
        refusals: RefusedRollups,
        *,
        clock: Clock,
        metrics: Metrics,
        cadence: RollupCadence,
    ) -> None:
        self._cluster, self._acknowledger, self._refusals = cluster, acknowledger, refusals
        self._clock, self._metrics, self._cadence = clock, metrics, cadence
        self._requests = caches.requests
        self._changes = caches.requests.subscribe()
        self._demand = KeptDemand()
        self._encoded: dict[DemandRow, bytes] = {}
        self._building = asyncio.Lock()
        self._changed = asyncio.Event()
        self._first_change_s = self._last_change_s = 0.0  # since the last build
        self.fingerprints: frozenset[str] = frozenset()
        """The profiles of the newest roll-up; hints for other profiles are of no use."""
        self._fingerprints_of: object = None
        self._log = structlog.get_logger("bigfleet.operator")

    # ---- for the life of the process

    async def follow(self) -> NoReturn:
        """Apply the changes of requests until cancelled."""
        while True:
            await self._changes.wait()
            # Not while a roll-up is built: it would hold one change in one row and not in another.
            async with self._building:
                is_done = self._apply_some()
            if not is_done:
                await self._clock.sleep(0)

    def _apply_some(self) -> bool:
        """Apply queued changes for one turn of the event loop; return whether none is left."""
        for change in self._changes.take_some(_REQUESTS_PER_TURN):
            if self._demand.put(change.key, change.after):
                self._note_change()
            if change.after is not None and change.after.wants_refusal:
                self._acknowledger.refuse(change.key, change.after)
        return not len(self._changes)

    def _note_change(self) -> None:
        self._last_change_s = monotonic_s(self._clock)
        if not self._changed.is_set():
            self._first_change_s = self._last_change_s
            self._changed.set()

    async def put_surplus(self, surplus: Surplus) -> None:
        """Replace the whole surplus; it is sent as a change of demand is."""
        async with self._building:
            if self._demand.put_surplus(surplus):
                self._note_change()

    async def take_touched(self) -> list[tuple[DemandRow, Requested | None]]:
        """Return the rows whose requests changed since the last call, None for a row that is gone; all rows at the first."""
        async with self._building:
            await self._catch_up()
            return self._demand.take_touched()

    def added_up(self, row: DemandRow) -> RollupRow | None:
        """Return what a row asks for now, in a roll-up that may not be sent yet; None for a row that is gone."""
        return self._demand.added_up(row)

    @property
    def requested(self) -> Mapping[str, int]:
        """What the requests of the cluster add up to, by resource, in units of 10⁻⁹, the surplus not counted."""
        return self._demand.requested

    # ---- for the life of a session

    async def run(self, uplink: Uplink) -> NoReturn:
        """Send a roll-up now and whenever one is due; a failed one is logged and the next replaces it."""
        first = True
        while True:
            began_s = monotonic_s(self._clock)
            try:
                await self._tick(uplink, first=first)
                first = False
            except BigFleetError as error:
                self._log.error("rollup_failed", error=str(error))
                if isinstance(error, RollupTooLargeError):
                    self.refused(str(error))
                # A demand that is too large stays so; it is not built again for each change.
                await self._sleep_until(began_s + self._cadence.interval_s)
            else:
                await self._until_due(began_s + self._cadence.interval_s)

    def accepted(self) -> None:
        """The shard accepted a roll-up."""
        self._refusals.accepted()

    def refused(self, problem: str) -> None:
        """The shard refused a roll-up as a whole, and keeps the last one that it accepted."""
        self._refusals.refused(problem, self._requests_of)

    def _requests_of(self, place: int | None, most: int) -> Named:
        row = None if place is None else next(islice(self._demand.order(), place, None), None)
        return self._demand.requests_of(row, most)

    async def _until_due(self, regular_s: float) -> None:
        """Wait for the regular time, or for the end of a change if that is sooner."""
        if not self._changed.is_set():
            try:
                async with timeout(self._clock, max(regular_s - monotonic_s(self._clock), 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                return
        while (due_s := self._due_s(regular_s)) > monotonic_s(self._clock):
            await self._sleep_until(due_s)

    def _due_s(self, regular_s: float) -> float:
        quiet_s = self._last_change_s + self._cadence.quiet_s
        return min(quiet_s, self._first_change_s + self._cadence.max_delay_s, regular_s)

    async def _sleep_until(self, due_s: float) -> None:
        # Never zero: rounding could leave the time slightly short and spin.
        await self._clock.sleep(max(due_s - monotonic_s(self._clock), _SHORTEST_SLEEP_S))

    async def _tick(self, uplink: Uplink, *, first: bool) -> None:
        with timed(self._clock, self._metrics.histogram("bigfleet_operator_rollup_duration_seconds")):
            async with self._building:
                with self._phase("list"):
                    await self._catch_up()
                with self._phase("build"):
                    prepared = await self._build(first=first)
            with self._phase("enqueue"):
                uplink.offer_rollup(prepared)

    def _phase(self, name: str) -> AbstractContextManager[None]:
        return timed(
            self._clock,
            self._metrics.histogram("bigfleet_operator_rollup_phase_duration_seconds", phase=name),
        )

    async def _catch_up(self) -> None:
        """Apply everything that the cache holds, a full list as a whole."""
        while not self._apply_some() or self._requests.queues_a_list:
            await self._clock.sleep(0)

    async def _build(self, *, first: bool) -> PreparedRollup:
        changed_s = self._first_change_s if self._changed.is_set() and not first else None
        self._changed.clear()
        while changed := self._demand.take_changed(_ROWS_PER_TURN):
            # No await before all of these are encoded: the session may end at any of them.
            for row, added_up in changed:
                if added_up is None:
                    self._encoded.pop(row, None)
                else:
                    self._encoded[row] = encoded_row(
                        row.profile,
                        added_up.total,
                        added_up.unit,
                        row.group,
                        max_units=row.max_units,
                        for_fragments=row.for_fragments,
                    )
            await self._clock.sleep(0)
        order = self._demand.order()
        if order is not self._fingerprints_of:
            self._fingerprints_of = order
            self.fingerprints = frozenset(row.profile.fingerprint for row in order)
        for key, view in self._demand.unmarked.items():
            self._acknowledger.refuse(key, view)
        for reason, count in self._demand.skipped.items():
            self._metrics.gauge("bigfleet_operator_capacity_requests_skipped", reason=reason).set(count)
        writer = RollupWriter(self._cluster, self._clock.wall_ns())
        writer.add_encoded(map(self._encoded.__getitem__, order))
        frame = writer.frame()
        if len(frame) > MAX_MESSAGE_BYTES:
            # If sent, it would end this session and every later one.
            raise RollupTooLargeError(len(frame))
        pending = dict(self._demand.pending)
        return PreparedRollup(frame, len(order), lambda: self._sent(pending), changed_s)

    def _sent(self, pending: dict[ObjectKey, RequestView]) -> None:
        if (
            not self._refusals.is_refused
        ):  # else the shard may refuse this one too, and then nothing of it counts
            self._acknowledger.acknowledge(pending)
