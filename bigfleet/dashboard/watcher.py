"""Polls the fleet, keeps the newest picture of it, and notifies open pages of changes.

Why: every page shows the same picture, so the watcher makes it once, on a timer and after each cycle. The number of open
browsers does not change the number of calls.
Must never: wait for one silent shard longer than its deadline, poll a shard more often than every two seconds, or announce
a cycle before it has polled: a notified page reloads at once and must not get the old picture.
Rules: `dashboard#sources`, `dashboard#budgets`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, Protocol

import structlog

from bigfleet.aio.clock import Clock, SteadyWall, timeout
from bigfleet.dashboard.coordinator_reader import CoordinatorReader
from bigfleet.dashboard.core.fleet_events import FleetEvents
from bigfleet.dashboard.core.observed import CoordinatorPlace, FleetPicture, ShardPlace
from bigfleet.dashboard.shard_addresses import ShardAddresses
from bigfleet.dashboard.shard_reader import ShardReader, look
from bigfleet.dashboard.sources import SourceError, SourceProblem

EVERY_S: Final = 10.0
LEAST_S: Final = 2.0
_AGAIN_S: Final = 5.0


def _nothing(*_given: object) -> None:
    return None


class MakeReader(Protocol):
    """Makes a reader of a shard."""

    def __call__(self, shard_id: str, address: str) -> ShardReader: ...


class Watcher:
    """Keeps the picture of the fleet."""

    def __init__(
        self,
        clock: Clock,
        *,
        shards: Mapping[str, str],
        coordinator: tuple[str, CoordinatorReader] | None,
        make_reader: MakeReader,
        addresses: ShardAddresses | None = None,
    ) -> None:
        self._clock, self._given, self._make_reader = clock, dict(shards), make_reader
        self._coordinator, self._steady = coordinator, SteadyWall(clock)
        self._addresses = addresses or ShardAddresses()
        self.refused: Mapping[str, tuple[str, str]] = {}
        """Address and problem of each shard whose registered address is not used, by id."""
        self._readers: dict[str, ShardReader] = {}
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._polling = asyncio.Lock()
        self._moved: set[str] = set()
        """Shards that have ended a cycle which is not announced yet."""
        self._waiting: dict[asyncio.Queue[tuple[str, str]], None] = {}  # an ordered set
        self._log = structlog.get_logger("bigfleet.dashboard")
        self.events = FleetEvents()
        self.on_look: Callable[[str, bool], object] = _nothing
        """Called after each poll of a source, with whether it answered."""
        self.on_refusal: Callable[[str], object] = _nothing
        """Called with the reason for each registered address that is not used, at every poll."""
        self.on_picture: Callable[[FleetPicture], object] = _nothing
        """Called with each new picture."""
        self.on_news: Callable[[], object] = _nothing
        """Called before the watcher announces a change; cached answers are stale from then on."""
        self.picture = FleetPicture(0.0, shards_wired=bool(shards) or coordinator is not None)

    async def run(self) -> None:
        """Poll until cancelled: every ten seconds, and soon after a cycle ended."""
        try:
            while True:
                await self.once()
                await self._clock.sleep(LEAST_S)
                try:
                    async with timeout(self._clock, EVERY_S - LEAST_S):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                self._wake.clear()
        finally:
            await self.close()

    async def once(self) -> None:
        """Poll every source once, in parallel."""
        # One poll at a time: one that began earlier and ended later would bring back an older picture.
        async with self._polling:
            await self._poll()

    async def _poll(self) -> None:
        now = self.now()
        coordinator = await self._look_at_coordinator(now)
        places = await asyncio.gather(
            *(self._look_at_shard(reader, now) for reader in self._known(coordinator))
        )
        refused = [
            ShardPlace(shard_id, address, now, None, problem, None)
            for shard_id, (address, problem) in self.refused.items()
        ]
        before, self.picture = (
            self.picture,
            FleetPicture(
                self.now(),
                tuple(sorted((*places, *refused), key=lambda place: place.shard_id)),
                coordinator,
                self.picture.shards_wired,
            ),
        )
        self.on_picture(self.picture)
        self.on_news()
        moved, self._moved = sorted(self._moved), set()
        for shard_id in moved:
            self._announce("cycle", shard_id)
        if before.at and self.events.note(before, self.picture):
            self._announce("event", "")
        if coordinator is not None and coordinator.error == "":
            self._announce("report", "")

    def reader(self, shard_id: str) -> ShardReader | None:
        """Return the reader of a shard."""
        return next((reader for reader in self._readers.values() if reader.shard_id == shard_id), None)

    async def notices(self) -> AsyncGenerator[tuple[str, str], None]:
        """Yield (kind, id) for each change; a slow consumer misses notices and never blocks the watcher."""
        queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue(maxsize=64)
        self._waiting[queue] = None
        try:
            while True:
                yield await queue.get()
        finally:
            self._waiting.pop(queue, None)

    def _announce(self, kind: str, what: str) -> None:
        for queue in self._waiting:
            if not queue.full():
                queue.put_nowait((kind, what))

    async def _look_at_coordinator(self, now: float) -> CoordinatorPlace | None:
        if self._coordinator is None:
            return None
        address, reader = self._coordinator
        before = self.picture.coordinator
        try:
            seen = await reader.read(now)
        except SourceError as error:
            answered, kept = (before.answered_at, before.seen) if before else (None, None)
            self.on_look("coordinator", False)
            leaderless = error.trouble is SourceProblem.NO_LEADER
            return CoordinatorPlace(address, now, answered, error.text, kept, leaderless)
        self.on_look("coordinator", True)
        return CoordinatorPlace(address, now, now, "", seen)

    def _known(self, coordinator: CoordinatorPlace | None) -> list[ShardReader]:
        wanted, refused = dict(self._given), dict[str, tuple[str, str]]()
        # A shard given by address alone has reported its name by now; a registry row of that name is the same shard.
        named = {self._readers[key].shard_id for key in self._given if key in self._readers}
        if coordinator is not None and coordinator.seen is not None:
            for row in coordinator.seen.registered:
                if row.shard_id in named or row.shard_id in wanted or not row.address:
                    continue
                refusal = self._addresses.refusal(row.address)
                if refusal is None:
                    wanted[row.shard_id] = row.address
                    continue
                reason, problem = refusal
                refused[row.shard_id] = (row.address, problem)
                self.on_refusal(reason)
                if self.refused.get(row.shard_id) != refused[row.shard_id]:
                    self._log.warning("shard_address_refused", shard=row.shard_id[:80], problem=problem)
        self.refused = refused
        for shard_id, address in wanted.items():
            reader = self._readers.get(shard_id)
            if address and (reader is None or reader.address != address):
                self._readers[shard_id] = self._make_reader(shard_id, address)
                self._listen(shard_id)
        return [reader for shard_id, reader in self._readers.items() if shard_id in wanted]

    async def _look_at_shard(self, reader: ShardReader, now: float) -> ShardPlace:
        place = await look(reader, self.picture.shard(reader.shard_id), now)
        reader.shard_id = place.shard_id
        self.on_look("shard", not place.error)
        return place

    def _listen(self, shard_id: str) -> None:
        if (old := self._listeners.get(shard_id)) is not None:
            old.cancel()
        self._listeners[shard_id] = asyncio.create_task(self._hear_cycles(shard_id))

    async def _hear_cycles(self, shard_id: str) -> None:
        while (reader := self._readers.get(shard_id)) is not None:
            try:
                async for _ in reader.cycles():
                    self._moved.add(reader.shard_id)
                    self._wake.set()
            except SourceError as error:
                self._log.debug("cycles_not_heard", shard=shard_id, error=str(error))
            await self._clock.sleep(_AGAIN_S)

    async def close(self) -> None:
        """Close every connection; `run` does so when it ends."""
        for task in self._listeners.values():
            task.cancel()
        for reader in self._readers.values():
            await reader.close()

    def now(self) -> float:
        """The time by which everything here is dated; a jump of the host's clock does not move it."""
        return self._steady.now_s()
